import { useAnswer } from '../../api/use-answer.ts';
import { fieldsOfEditor, withUnknownMembers } from '../../ui/schema-fields.ts';
import { SchemaForm } from '../../ui/schema-form.tsx';
import type { GuardrailDraft, GuardrailType } from './guardrail-draft.ts';

interface SettingsFormProps {
  readonly draft: GuardrailDraft;
  readonly types: readonly GuardrailType[];
  readonly onChange: (draft: GuardrailDraft) => void;
}

/** A setting that the configuration of a plugin has need not be given. */
function withDefault(field: GuardrailType['fields'][number], { source, defaults }: GuardrailType) {
  return source !== 'builtin' && field.key in defaults ? { ...field, required: false } : field;
}

/** The settings of the type of a guardrail. */
export function SettingsForm({ draft, types, onChange }: SettingsFormProps) {
  const type = types.find((one) => one.type === draft.type);
  const fields = type === undefined ? [] : type.fields.map((field) => withDefault(field, type));
  const namesModels = fields.some(({ input }) => input === 'model');
  const models = useAnswer('/admin/models', {}, { enabled: namesModels });
  const names = (models.data ?? []).map(({ selector }) => selector);
  return (
    <fieldset class="wf-group">
      <legend>Settings</legend>
      {type !== undefined && type.source !== 'builtin' && (
        <p class="wf-muted">A setting without a value is that of the plugin's configuration.</p>
      )}
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
