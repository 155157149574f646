import { useState } from 'preact/hooks';
import { access } from '../../api/access.ts';
import { getAnswer } from '../../api/client.ts';
import { sendChange } from '../../api/send-change.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { ChangeDialog, useProblem } from '../../ui/change-dialog.tsx';
import { CheckField, SelectField, TextField } from '../../ui/fields.tsx';
import { type FormValue, fieldsOfEditor, withUnknownMembers } from '../../ui/schema-fields.ts';
import { SchemaForm } from '../../ui/schema-form.tsx';
import { TextArea } from '../../ui/schema-inputs.tsx';
import { TargetFields } from './target-fields.tsx';
import type { VirtualModelRow } from './types.ts';
import { bodyOf, draftOf, usesWeights, type VirtualModelDraft } from './virtual-model-draft.ts';

interface VirtualModelDialogProps {
  /** Undefined for a new one. */
  readonly row?: VirtualModelRow;
  /** Of a new one. */
  readonly begin?: VirtualModelDraft;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Creates or edits a virtual model or an access policy. */
export function VirtualModelDialog({ row, begin, onClose, onDone }: VirtualModelDialogProps) {
  const [draft, setDraft] = useState<VirtualModelDraft | undefined>(row === undefined ? begin : draftOf(row));
  // The revision is that of the row that the form began with, also after the list was read again.
  const [revision] = useState(row === undefined ? 'none' : row.revision);
  const models = useAnswer('/admin/models');
  const others = useAnswer('/admin/virtual-models');
  const plugins = useAnswer('/admin/plugins', {}, { enabled: arePluginsOn() });
  const status = useAnswer('/admin/providers/status');
  if (draft === undefined) return null;
  const providers = new Set([
    ...(status.data?.providers.flatMap(({ name, type }) => [name, type]) ?? []),
    // A provider that was removed since stays the provider of its target.
    ...(row?.targets?.flatMap(({ provider }) => provider ?? []) ?? []),
  ]);
  const body = bodyOf(draft, providers);
  const isPolicy = draft.kind === 'policy';
  const noun = isPolicy ? 'access policy' : 'virtual model';
  const change = (changed: Partial<VirtualModelDraft>) => setDraft({ ...draft, ...changed });
  const suggestions = [
    ...(models.data ?? []).map(({ selector }) => selector),
    ...(others.data ?? [])
      .filter(({ kind, source }) => kind === 'redirect' && source !== draft.source)
      .map(({ source }) => source),
  ];
  return (
    <ChangeDialog
      title={row === undefined ? `New ${noun}` : `Edit the ${noun} ${row.source}`}
      submitLabel={row === undefined ? `Create the ${noun}` : 'Save'}
      revision={revision}
      save={(ifMatch) =>
        sendChange({
          ...{ method: 'PUT', of: '/admin/virtual-models', ifMatch },
          json: { ...body, ...(row === undefined || row.source === body.source ? {} : { old_source: row.source }) },
        })
      }
      mine={() => body}
      readCurrent={async () => {
        const name = row?.source ?? body.source;
        const at = `/admin/virtual-models/${encodeURIComponent(name)}`;
        const current = await getAnswer({ of: '/admin/virtual-models/{source}', at });
        return { revision: current.revision, version: bodyOf(draftOf(current), providers) };
      }}
      canSubmit={draft.source.trim() !== '' && status.data !== undefined}
      onClose={onClose}
      onDone={onDone}
    >
      <SourceField
        draft={draft}
        onInput={(source) => change({ source })}
        suggestions={isPolicy ? suggestions : undefined}
      />
      {!isPolicy && (
        <>
          <TargetFields
            targets={draft.targets}
            withWeights={usesWeights(draft.strategy)}
            suggestions={suggestions}
            onChange={(targets) => change({ targets })}
          />
          <StrategyField strategy={draft.strategy} onChange={(strategy) => change({ strategy, strategyConfig: {} })} />
          {draft.strategy.startsWith('plugin:') && (
            <StrategySettings
              plugins={plugins.data}
              draft={draft}
              onChange={(strategyConfig) => change({ strategyConfig })}
            />
          )}
          <CheckField
            label="Call the next target when one fails"
            checked={draft.failover}
            onChange={(failover) => change({ failover })}
          />
          {draft.failover && <FailoverFields draft={draft} onChange={change} />}
          <CheckField
            label="Keep a session at its target"
            checked={draft.sessionAffinity}
            onChange={(sessionAffinity) => change({ sessionAffinity })}
          />
        </>
      )}
      <UserPathsField value={draft.userPaths} onInput={(userPaths) => change({ userPaths })} />
      <TextField label="Description" value={draft.description} onInput={(description) => change({ description })} />
      <CheckField
        label={isPolicy ? 'These models may be used' : 'Clients may use it'}
        checked={draft.enabled}
        onChange={(enabled) => change({ enabled })}
      />
    </ChangeDialog>
  );
}

interface SourceFieldProps {
  readonly draft: VirtualModelDraft;
  readonly onInput: (source: string) => void;
  readonly suggestions: readonly string[] | undefined;
}

function SourceField({ draft, onInput, suggestions }: SourceFieldProps) {
  const isPolicy = draft.kind === 'policy';
  return (
    <TextField
      label={isPolicy ? 'Models' : 'Name'}
      help={
        isPolicy
          ? 'A model, <provider>/<model>, <provider>/ for all of a provider, or / for everything. The most specific policy decides.'
          : 'Clients send it as the model. The name of a model replaces that model.'
      }
      required
      value={draft.source}
      onInput={onInput}
      problem={useProblem('source')}
      suggestions={suggestions}
    />
  );
}

interface FailoverFieldsProps {
  readonly draft: VirtualModelDraft;
  readonly onChange: (changed: Partial<VirtualModelDraft>) => void;
}

function FailoverFields({ draft, onChange }: FailoverFieldsProps) {
  const problem = useProblem('failover');
  const isSet = draft.failoverStatuses !== '' || draft.failoverPhrases !== '';
  return (
    <details open={isSet || problem !== undefined}>
      <summary>Which failures</summary>
      <div class="models-more">
        <TextField
          label="Statuses of the target"
          help="Separated by commas. Empty: FAILOVER_RETRY_ON_STATUSES of the gateway."
          placeholder="429, 500, 503"
          value={draft.failoverStatuses}
          onInput={(failoverStatuses) => onChange({ failoverStatuses })}
          problem={problem}
        />
        <TextArea
          label="Phrases in errors of the target, one per line"
          help="* stands for any text between. Empty: FAILOVER_RETRY_ON_ERRORS of the gateway."
          rows={2}
          value={draft.failoverPhrases}
          onInput={(failoverPhrases) => onChange({ failoverPhrases })}
        />
      </div>
    </details>
  );
}

function UserPathsField({ value, onInput }: { readonly value: string; readonly onInput: (value: string) => void }) {
  return (
    <TextArea
      label="User paths that may use it, one per line"
      help="With all paths below each. Empty: every caller."
      rows={2}
      value={value}
      onInput={onInput}
      problem={useProblem('user_paths')}
    />
  );
}

const strategyTitles: Readonly<Record<string, string>> = {
  round_robin: 'Weighted round robin',
  cost: 'Cheapest first',
  failover: 'Failover: the first healthy target',
  adaptive: 'Adaptive: the shortest time to the first byte',
};

function StrategyField({
  strategy,
  onChange,
}: {
  readonly strategy: string;
  readonly onChange: (name: string) => void;
}) {
  const offered = (access.value?.features['VIRTUAL_MODEL_STRATEGIES'] ?? '').split(',').filter((name) => name !== '');
  const names = [...new Set([...offered, strategy])];
  return (
    <SelectField
      label="Strategy"
      value={strategy}
      choices={names.map((name) => ({ value: name, title: strategyTitles[name] ?? name }))}
      onChange={onChange}
      problem={useProblem('strategy')}
    />
  );
}

interface Strategies {
  readonly name: string;
  readonly route_fields: Parameters<typeof fieldsOfEditor>[0];
}

/** Otherwise the list of plugins, which has the settings of route strategies, cannot be read. */
function arePluginsOn(): boolean {
  const { features = {} } = access.value ?? {};
  return features['PLUGINS_ENABLED'] === 'on' || features['GUARDRAILS_ENABLED'] === 'on';
}

interface StrategySettingsProps {
  readonly plugins: readonly Strategies[] | undefined;
  readonly draft: VirtualModelDraft;
  readonly onChange: (strategyConfig: FormValue) => void;
}

/** The settings of a route strategy: its own form, or JSON where its fields are not known. */
function StrategySettings({ plugins, draft: { strategy, strategyConfig }, onChange }: StrategySettingsProps) {
  const plugin = plugins?.find(({ name }) => `plugin:${name}` === strategy);
  if (plugin === undefined) {
    return (
      <SchemaForm
        fields={[{ key: 'strategy_config', label: 'Settings of the strategy', kind: 'json' }]}
        value={{ strategy_config: strategyConfig }}
        onChange={({ strategy_config }) => onChange((strategy_config ?? {}) as FormValue)}
      />
    );
  }
  return (
    <SchemaForm
      key={strategy}
      fields={withUnknownMembers(fieldsOfEditor(plugin.route_fields), strategyConfig)}
      value={strategyConfig}
      onChange={onChange}
      parameter="strategy_config"
    />
  );
}
