import { useAnswer } from '../../api/use-answer.ts';
import { useProblem } from '../../ui/change-dialog.tsx';
import { CheckField, SelectField, TextField } from '../../ui/fields.tsx';
import { NumberInput } from '../../ui/schema-inputs.tsx';
import type { WorkflowDraft } from './workflow-draft.ts';
import { features } from './workflow-rows.ts';

export interface DraftFieldsProps {
  readonly draft: WorkflowDraft;
  readonly onChange: (draft: WorkflowDraft) => void;
}

/** Name, scope, features and settings of the cache. */
export function WorkflowFields({ draft, onChange }: DraftFieldsProps) {
  return (
    <>
      <TextField
        label="Name"
        value={draft.name}
        onInput={(name) => onChange({ ...draft, name })}
        problem={useProblem('name')}
      />
      <TextField
        label="Description"
        value={draft.description}
        onInput={(description) => onChange({ ...draft, description })}
        problem={useProblem('description')}
      />
      <ScopeFields draft={draft} onChange={onChange} />
      <FeatureFields draft={draft} onChange={onChange} />
    </>
  );
}

export function ScopeFields({ draft, onChange }: DraftFieldsProps) {
  const providers = useAnswer('/admin/providers/status');
  const models = useAnswer('/admin/models');
  const known = models.data ?? [];
  return (
    <fieldset class="wf-group">
      <legend>Scope: requests that match all of these</legend>
      <div class="wf-row">
        <TextField
          label="User path, with all paths below it"
          placeholder="all user paths"
          value={draft.userPath}
          onInput={(userPath) => onChange({ ...draft, userPath: userPath.trim() })}
          problem={useProblem('scope_user_path')}
        />
        <TextField
          label="Provider"
          placeholder="all providers"
          suggestions={(providers.data?.providers ?? []).map(({ name }) => name)}
          value={draft.provider}
          onInput={(provider) => onChange({ ...draft, provider: provider.trim() })}
          problem={useProblem('scope_provider_name')}
        />
        <TextField
          label="Model of the provider"
          placeholder="all models"
          suggestions={modelsOf(known, draft.provider)}
          value={draft.model}
          onInput={(model) => onChange({ ...draft, model: model.trim() })}
          problem={useProblem('scope_model')}
        />
      </div>
    </fieldset>
  );
}

function modelsOf(rows: readonly object[], provider: string): string[] {
  return rows.flatMap((row) => {
    const { provider_name: name, model } = row as { provider_name?: string; model?: { id?: string } | string };
    const id = typeof model === 'string' ? model : model?.id;
    return id !== undefined && name === provider ? [id] : [];
  });
}

function FeatureFields({ draft, onChange }: DraftFieldsProps) {
  const { cache } = draft;
  return (
    <fieldset class="wf-group">
      <legend>Features</legend>
      <div class="wf-row">
        {features.map(({ name, title, off }) => (
          <CheckField
            key={name}
            label={
              <>
                {title} <span class="wf-muted">(off: {off})</span>
              </>
            }
            checked={draft.features[name]}
            onChange={(on) => onChange({ ...draft, features: { ...draft.features, [name]: on } })}
          />
        ))}
      </div>
      {draft.features.cache && (
        <div class="wf-row">
          <SelectField
            label="Cached answers are shared by"
            value={cache.scope}
            choices={[
              { value: '', title: 'Default (the user path)' },
              { value: 'user_path', title: 'The user path' },
              { value: 'key', title: 'The key' },
              { value: 'shared', title: 'All requests of the workflow' },
            ]}
            onChange={(scope) => onChange({ ...draft, cache: { ...cache, scope } })}
            problem={useProblem('workflow_payload.cache.scope')}
          />
          <NumberInput
            label="Kept for (seconds)"
            placeholder="RESPONSE_CACHE_TTL"
            least={1}
            value={cache.ttl}
            onChange={(ttl) => onChange({ ...draft, cache: { ...cache, ttl } })}
            problem={useProblem('workflow_payload.cache.ttl_seconds')}
          />
          <CheckField
            label="Also answers that call tools"
            checked={cache.toolCalls}
            onChange={(toolCalls) => onChange({ ...draft, cache: { ...cache, toolCalls } })}
          />
        </div>
      )}
    </fieldset>
  );
}
