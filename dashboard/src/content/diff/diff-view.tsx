import '../text/raw-view.css';
import './diff-view.css';
import { useState } from 'preact/hooks';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { EmptyState, Pending } from '../../ui/states.tsx';
import { formatJson } from '../json/format-json.ts';
import { scanJson } from '../json/json-document.ts';
import type { Sliced } from '../sliced.ts';
import { SafeText } from '../text/safe-text.tsx';
import { useSliced } from '../use-sliced.ts';
import { compareJson, type JsonComparison } from './compare-json.ts';
import { compareLines, type TextComparison } from './compare-texts.ts';
import { countChanges, type DiffLine, type DiffRow, diffRows, unfold } from './diff-rows.ts';
import { Changes, MAX_SPAN_TEXT, Spans } from './value-changes.tsx';

interface DiffViewProps {
  readonly before: string;
  readonly after: string;
  /** What the two texts are: `Client request`, `Provider request`. */
  readonly beforeTitle: string;
  readonly afterTitle: string;
}

type Mode = 'changes' | 'unified' | 'side by side';
const modes: readonly { readonly mode: Mode; readonly title: string }[] = [
  { mode: 'changes', title: 'Changed values' },
  { mode: 'unified', title: 'Lines' },
  { mode: 'side by side', title: 'Side by side' },
];

interface Differences {
  /** Undefined where one of the texts is not JSON. */
  readonly values: JsonComparison | undefined;
  readonly lines: TextComparison;
  readonly rows: readonly DiffRow[];
}

/** Two recorded bodies compared: by value where both are JSON, and by line. */
export function DiffView({ before, after, beforeTitle, afterTitle }: DiffViewProps) {
  const [chosen, setMode] = useState<Mode>('changes');
  const work = useSliced(() => differences(before, after), [before, after]);
  if (before === after) return <EmptyState title={`${beforeTitle} and ${afterTitle} are identical.`} />;
  if (work.state === 'working') return <Pending since={work.since}>Comparing</Pending>;
  if (work.state === 'failed') return <EmptyState title={`The texts could not be compared: ${work.message}`} />;
  const { values, lines, rows } = work.value;
  const mode = values === undefined && chosen === 'changes' ? 'unified' : chosen;
  const limited = mode === 'changes' ? values?.limited : lines.limited;
  const { added, removed } = countChanges(lines);
  return (
    <div class="diff-view">
      <div class="content-toolbar">
        {modes.map(({ mode: one, title }) => (
          <Button
            key={one}
            pressed={one === mode}
            disabled={one === 'changes' && values === undefined}
            onClick={() => setMode(one)}
          >
            {title}
          </Button>
        ))}
        <span class="diff-count" role="status">
          {mode === 'changes' && values !== undefined
            ? `${formatCount(values.changes.length)} ${values.changes.length === 1 ? 'change' : 'changes'}`
            : `${formatCount(removed)} lines removed, ${formatCount(added)} added`}
        </span>
      </div>
      <p class="diff-titles">
        <span>
          <span class="diff-sign" aria-hidden="true">
            −
          </span>{' '}
          only in {beforeTitle}
        </span>
        <span>
          <span class="diff-sign" aria-hidden="true">
            +
          </span>{' '}
          only in {afterTitle}
        </span>
      </p>
      {limited && (
        <p class="diff-limit">
          The texts differ in too many places to compare them completely. Equal parts between the first and the last
          difference may be listed as changed, or further changes are not listed.
        </p>
      )}
      {mode === 'changes' && values !== undefined && <Changes changes={values.changes} />}
      {mode === 'unified' && (
        <Lines rows={rows} comparison={lines} label={`${beforeTitle} compared with ${afterTitle}`} />
      )}
      {mode === 'side by side' && (
        <SideBySide rows={rows} comparison={lines} beforeTitle={beforeTitle} afterTitle={afterTitle} />
      )}
    </div>
  );
}

/** JSON is compared with one value on a line: recorded bodies are usually one line. */
function* differences(before: string, after: string): Sliced<Differences> {
  const oldDocument = yield* scanJson(before);
  const newDocument = yield* scanJson(after);
  const isJson = [oldDocument, newDocument].every(({ problem, count }) => problem === undefined && count > 0);
  const oldText = isJson ? yield* formatJson(oldDocument) : undefined;
  const newText = isJson ? yield* formatJson(newDocument) : undefined;
  const areFormatted = oldText !== undefined && newText !== undefined;
  const lines = areFormatted ? yield* compareLines(oldText, newText) : yield* compareLines(before, after);
  const rows = yield* diffRows(lines);
  return { values: isJson ? yield* compareJson(oldDocument, newDocument) : undefined, lines, rows };
}

interface LinesProps {
  readonly rows: readonly DiffRow[];
  readonly comparison: TextComparison;
}

const rowsPerStep = 400;

/** The rows with the folded ones that were opened, and how many of them are shown. */
function useOpenRows({ rows, comparison }: LinesProps) {
  const [opened, setOpened] = useState<ReadonlySet<DiffRow>>(new Set());
  const [limit, setLimit] = useState(rowsPerStep);
  const all = rows.flatMap((row) => (row.kind === 'folded' && opened.has(row) ? unfold(comparison, row) : [row]));
  return {
    visible: all.slice(0, limit),
    hidden: Math.max(0, all.length - limit),
    onMore: () => setLimit(limit + rowsPerStep),
    onUnfold: (row: DiffRow) => setOpened(new Set(opened).add(row)),
  };
}

function Lines({ label, ...props }: LinesProps & { readonly label: string }) {
  const { visible, hidden, onMore, onUnfold } = useOpenRows(props);
  return (
    <div class="diff-lines" data-own-keys role="group" aria-label={label} tabIndex={0}>
      <table>
        <thead class="visually-hidden">
          <tr>
            <th scope="col">Line before</th>
            <th scope="col">Line now</th>
            <th scope="col">Change</th>
            <th scope="col">Text</th>
          </tr>
        </thead>
        {inBlocks(visible).map((block, at) => (
          <tbody key={at}>
            {block.flatMap((row, index) => {
              const key = `${at} ${index}`;
              if (row.kind === 'folded') return [<FoldedRow key={key} row={row} columns={4} onUnfold={onUnfold} />];
              if (row.kind === 'equal') return [<UnifiedRow key={key} before={row.before} after={row.after} sign="" />];
              return [
                row.before && <UnifiedRow key={`${key} before`} before={row.before} after={undefined} sign="−" />,
                row.after && <UnifiedRow key={`${key} after`} before={undefined} after={row.after} sign="+" />,
              ];
            })}
          </tbody>
        ))}
      </table>
      <MoreRows hidden={hidden} onMore={onMore} />
    </div>
  );
}

/** All removed lines of a change before all added ones. */
function inBlocks(rows: readonly DiffRow[]): DiffRow[][] {
  const blocks: DiffRow[][] = [];
  let block: DiffRow[] = [];
  const removed: DiffRow[] = [];
  const added: DiffRow[] = [];
  const flush = () => {
    block.push(...removed.splice(0), ...added.splice(0));
  };
  for (const row of rows) {
    if (row.kind === 'changed') {
      if (row.before !== undefined) removed.push({ kind: 'changed', before: row.before, after: undefined });
      if (row.after !== undefined) added.push({ kind: 'changed', before: undefined, after: row.after });
      continue;
    }
    flush();
    block.push(row);
    if (row.kind === 'folded') {
      blocks.push(block);
      block = [];
    }
  }
  flush();
  return [...blocks, block];
}

interface UnifiedRowProps {
  readonly before: DiffLine | undefined;
  readonly after: DiffLine | undefined;
  readonly sign: '' | '+' | '−';
}

function UnifiedRow({ before, after, sign }: UnifiedRowProps) {
  return (
    <tr data-sign={sign}>
      <td class="diff-number">{before?.number}</td>
      <td class="diff-number">{after?.number}</td>
      <td class="diff-sign">
        <Sign sign={sign} />
      </td>
      <td>
        <LineText line={after ?? before} sign={sign} />
      </td>
    </tr>
  );
}

function Sign({ sign }: { readonly sign: '' | '+' | '−' }) {
  if (sign === '') return null;
  return (
    <>
      <span aria-hidden="true">{sign}</span>
      <span class="visually-hidden">{sign === '+' ? 'added' : 'removed'}</span>
    </>
  );
}

function LineText({ line, sign }: { readonly line: DiffLine | undefined; readonly sign: '' | '+' | '−' }) {
  if (line === undefined) return null;
  const text = line.spans.map((span) => span.text).join('');
  const isPlain = sign === '' || !line.spans.some(({ changed }) => changed) || text.length > MAX_SPAN_TEXT;
  return isPlain ? (
    <SafeText text={text.replace(/\r?\n$/, '')} look="code" />
  ) : (
    <Spans spans={line.spans} sign={sign} />
  );
}

interface FoldedRowProps {
  readonly row: Extract<DiffRow, { kind: 'folded' }>;
  readonly columns: number;
  readonly onUnfold: (row: DiffRow) => void;
}

function FoldedRow({ row, columns, onUnfold }: FoldedRowProps) {
  return (
    <tr class="diff-folded">
      <td colSpan={columns}>
        <Button look="quiet" onClick={() => onUnfold(row)}>
          {formatCount(row.lines)} unchanged {row.lines === 1 ? 'line' : 'lines'}
        </Button>
      </td>
    </tr>
  );
}

function MoreRows({ hidden, onMore }: { readonly hidden: number; readonly onMore: () => void }) {
  if (hidden === 0) return null;
  return <Button onClick={onMore}>Show more ({formatCount(hidden)} rows)</Button>;
}

function SideBySide({
  beforeTitle,
  afterTitle,
  ...props
}: LinesProps & { readonly beforeTitle: string; readonly afterTitle: string }) {
  const { visible, hidden, onMore, onUnfold } = useOpenRows(props);
  return (
    <div class="diff-lines" data-own-keys role="group" aria-label={`${beforeTitle} beside ${afterTitle}`} tabIndex={0}>
      <table class="diff-sides">
        <thead>
          <tr>
            <th scope="col" colSpan={3}>
              {beforeTitle}
            </th>
            <th scope="col" colSpan={3}>
              {afterTitle}
            </th>
          </tr>
        </thead>
        <tbody>
          {visible.map((row, index) => {
            if (row.kind === 'folded') return <FoldedRow key={index} row={row} columns={6} onUnfold={onUnfold} />;
            const isChanged = row.kind === 'changed';
            return (
              <tr key={index}>
                <HalfRow line={row.before} sign={isChanged && row.before !== undefined ? '−' : ''} />
                <HalfRow line={row.after} sign={isChanged && row.after !== undefined ? '+' : ''} />
              </tr>
            );
          })}
        </tbody>
      </table>
      <MoreRows hidden={hidden} onMore={onMore} />
    </div>
  );
}

function HalfRow({ line, sign }: { readonly line: DiffLine | undefined; readonly sign: '' | '+' | '−' }) {
  return (
    <>
      <td class="diff-number" data-sign={sign}>
        {line?.number}
      </td>
      <td class="diff-sign" data-sign={sign}>
        <Sign sign={sign} />
      </td>
      <td data-sign={sign}>
        <LineText line={line} sign={sign} />
      </td>
    </>
  );
}
