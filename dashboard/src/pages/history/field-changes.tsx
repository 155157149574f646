/** The fields of a change: what differs, or what was created or removed. */
import { compareJson, type JsonComparison } from '../../content/diff/compare-json.ts';
import { DiffView } from '../../content/diff/diff-view.tsx';
import { Changes } from '../../content/diff/value-changes.tsx';
import { scanJson } from '../../content/json/json-document.ts';
import type { Sliced } from '../../content/sliced.ts';
import { SafeText } from '../../content/text/safe-text.tsx';
import { useSliced } from '../../content/use-sliced.ts';
import { fieldText } from './field-text.ts';

export type FieldValues = Readonly<Record<string, unknown>> | null;

interface FieldChangesProps {
  readonly before: FieldValues;
  readonly after: FieldValues;
  /** Names of the fields that differ, also of those whose values are masked. */
  readonly changed: readonly string[];
}

export function FieldChanges({ before, after, changed }: FieldChangesProps) {
  if (before === null) return <Fields values={after ?? {}} />;
  if (after === null) return <Fields values={before} isRemoved />;
  const masked = changed.filter((name) => JSON.stringify(before[name]) === JSON.stringify(after[name]));
  return (
    <>
      <ChangedFields before={textOf(before, changed)} after={textOf(after, changed)} hasOthers={masked.length > 0} />
      {masked.length > 0 && (
        <p class="history-masked">
          Changed, with a value that is not shown: <code>{masked.join(', ')}</code>
        </p>
      )}
      {changed.length === 0 && <p class="history-masked">Saved with the same values.</p>}
    </>
  );
}

/** Longer values are compared in a view that has pages. */
const MOST_TEXT = 100_000;

interface ChangedFieldsProps {
  readonly before: string;
  readonly after: string;
  readonly hasOthers: boolean;
}

function ChangedFields({ before, after, hasOthers }: ChangedFieldsProps) {
  const isLong = before.length + after.length > MOST_TEXT;
  const work = useSliced(() => comparison(isLong ? '{}' : before, isLong ? '{}' : after), [before, after]);
  if (before === after && (hasOthers || before === '{}')) return null;
  if (isLong) return <DiffView before={before} after={after} beforeTitle="Before" afterTitle="After" />;
  return work.state === 'done' && work.value !== undefined ? <Changes changes={work.value.changes} /> : null;
}

function* comparison(before: string, after: string): Sliced<JsonComparison | undefined> {
  return yield* compareJson(yield* scanJson(before), yield* scanJson(after));
}

/** Only the fields that differ. */
function textOf(values: Readonly<Record<string, unknown>>, changed: readonly string[]): string {
  return JSON.stringify(Object.fromEntries(changed.flatMap((name) => (name in values ? [[name, values[name]]] : []))));
}

function Fields({ values, isRemoved = false }: { readonly values: object; readonly isRemoved?: boolean }) {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined);
  return (
    <dl class="history-fields" data-removed={isRemoved}>
      {given.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <SafeText text={fieldText(value)} look="code" />
          </dd>
        </div>
      ))}
    </dl>
  );
}
