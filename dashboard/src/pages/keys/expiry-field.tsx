import { useState } from 'preact/hooks';
import { instantOfLocal, localText } from '../../format/local-time.ts';
import { timeZone } from '../../settings/time-zone.ts';
import { useProblem } from '../../ui/change-dialog.tsx';
import { SelectField, TextField } from '../../ui/fields.tsx';

export interface ExpiryDraft {
  readonly kind: 'never' | 'at';
  /** Local time in the chosen zone. */
  readonly text: string;
}

const MONTH_MS = 30 * 86_400_000;

export function expiryDraft(expiresAt: string | undefined): ExpiryDraft {
  const begin = expiresAt ?? new Date(Math.ceil((Date.now() + MONTH_MS) / 60_000) * 60_000).toISOString();
  return { kind: expiresAt === undefined ? 'never' : 'at', text: localText(begin, timeZone.value) };
}

/** Null for a key that never expires; undefined for a text that is no time. */
export function expiryOf({ kind, text }: ExpiryDraft): string | null | undefined {
  if (kind === 'never') return null;
  const at = instantOfLocal(text, timeZone.value);
  return at === undefined ? undefined : new Date(at).toISOString();
}

interface ExpiryFieldProps {
  readonly initial: ExpiryDraft;
  readonly onChange: (draft: ExpiryDraft) => void;
}

export function ExpiryField({ initial, onChange }: ExpiryFieldProps) {
  const [draft, setDraft] = useState(initial);
  const problem = useProblem('expires_at');
  const change = (next: ExpiryDraft) => {
    setDraft(next);
    onChange(next);
  };
  return (
    <div class="keys-filters">
      <SelectField
        label="Expires"
        value={draft.kind}
        choices={[
          { value: 'never', title: 'Never' },
          { value: 'at', title: 'At a time' },
        ]}
        onChange={(kind) => change({ ...draft, kind })}
        problem={draft.kind === 'never' ? problem : undefined}
      />
      {draft.kind === 'at' && (
        <TextField
          label={`Expires at (${timeZone.value})`}
          type="datetime-local"
          step={1}
          value={draft.text}
          onInput={(text) => change({ ...draft, text })}
          problem={problem}
        />
      )}
    </div>
  );
}
