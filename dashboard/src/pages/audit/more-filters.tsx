import { useState } from 'preact/hooks';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { CheckField, type Choice, SelectField, TextField } from '../../ui/fields.tsx';
import { type AuditFilter, type FilterName, filterSentence, withValues } from './filter.ts';

const texts: readonly FilterName[] = [
  ...(['user_path', 'requested_model', 'provider', 'path', 'error_type', 'user_agent', 'label'] as const),
  ...(['guardrail', 'workflow', 'session_id'] as const),
];

const statusClasses: readonly Choice<string>[] = [
  { value: '', title: 'Any' },
  { value: '2xx', title: '2xx: success' },
  { value: '4xx', title: '4xx: refused, or an error of the client' },
  { value: '5xx', title: '5xx: an error of a provider or the gateway' },
  { value: 'other', title: 'Other, or none' },
];

interface MoreFiltersProps {
  readonly filter: AuditFilter;
  readonly onApply: (filter: AuditFilter) => void;
  readonly onClose: () => void;
}

/** The filters that have no list of values beside the table. */
export function MoreFilters({ filter, onApply, onClose }: MoreFiltersProps) {
  const [draft, setDraft] = useState(filter);
  const set = (name: FilterName, value: string) => setDraft((before) => withValues(before, name, [value]));
  const duration = draft.min_duration_ms?.[0] ?? '';
  const isNumber = /^\d{0,8}$/.test(duration);
  return (
    <Dialog title="More filters" onClose={onClose}>
      <form
        class="audit-more"
        onSubmit={(event) => {
          event.preventDefault();
          if (!isNumber) return;
          onApply(draft);
          onClose();
        }}
      >
        {texts.map((name) => (
          <TextField
            key={name}
            label={filterSentence(name)}
            value={draft[name]?.[0] ?? ''}
            onInput={(value) => set(name, value)}
          />
        ))}
        <TextField
          label={filterSentence('min_duration_ms')}
          value={duration}
          onInput={(value) => set('min_duration_ms', value)}
          problem={isNumber ? undefined : 'A whole number of milliseconds.'}
        />
        <SelectField
          label={filterSentence('status_class')}
          value={draft.status_class?.[0] ?? ''}
          choices={statusClasses}
          onChange={(value) => set('status_class', value)}
        />
        <CheckField
          label="Changed by guardrails"
          checked={draft.guardrails_edited?.[0] === 'true'}
          onChange={(isSet) => set('guardrails_edited', isSet ? 'true' : '')}
        />
        <div class="audit-more-actions">
          <Button type="submit" look="main" disabled={!isNumber}>
            Apply
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
