import { useAnswer } from '../../api/use-answer.ts';
import { fieldsOfEditor, withUnknownMembers } from '../../ui/schema-fields.ts';
import { SchemaForm } from '../../ui/schema-form.tsx';
import type { GuardrailDraft, GuardrailType } from './guardrail-draft.ts';

interface SettingsFormProps {
  readonly draft: GuardrailDraft;
  readonly types: readonly GuardrailType[];
  readonly onChange: (draft: GuardrailDraft) => void;
}

/** The settings of the type of a guardrail. */
export function SettingsForm({ draft, types, onChange }: SettingsFormProps) {
  const type = types.find((one) => one.type === draft.type);
  const fields = type?.fields ?? [];
  const namesModels = fields.some(({ input }) => input === 'model');
  const models = useAnswer('/admin/models', {}, { enabled: namesModels });
  const names = (models.data ?? []).map(({ selector }) => selector);
  return (
    <fieldset class="wf-group">
      <legend>Settings</legend>
      <SchemaForm
        key={draft.type}
        fields={withUnknownMembers(fieldsOfEditor(fields, names), draft.config)}
        value={draft.config}
        onChange={(config) => onChange({ ...draft, config })}
        parameter="config"
      />
    </fieldset>
  );
}
