import './plugins.css';
import { access, isGlobal } from '../../api/access.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { route } from '../../app/router.ts';
import { PageHeader } from '../../ui/page-header.tsx';
import { Panel } from '../../ui/panel.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { AddPlugin } from './add-plugin.tsx';
import { PluginPanel, type PluginRow } from './plugin-panel.tsx';
import { usesOf } from './plugin-uses.ts';

const REFRESH_MS = 10_000;

export default function PluginsPage() {
  const features = access.value?.features ?? {};
  return (
    <>
      <PageHeader title="Plugins" />
      {!isGlobal.value ? (
        <p>Plugins belong to the whole gateway, and are shown to its administrators only.</p>
      ) : features['PLUGINS_ENABLED'] === 'off' && features['GUARDRAILS_ENABLED'] === 'off' ? (
        <PluginsOff />
      ) : (
        <Plugins />
      )}
    </>
  );
}

function PluginsOff() {
  return (
    <EmptyState title="Plugins and guardrails are switched off.">
      <p>
        Start the gateway with <code>PLUGINS_ENABLED=true</code> to load plugins, or with{' '}
        <code>GUARDRAILS_ENABLED=true</code> to run guardrails, too; or set <code>plugins.enabled: true</code> or{' '}
        <code>guardrails.enabled: true</code> in its configuration file.
      </p>
    </EmptyState>
  );
}

function Plugins() {
  const plugins = useAnswer('/admin/plugins', {}, { refreshMs: REFRESH_MS });
  const guardrails = useAnswer('/admin/guardrails');
  const workflows = useAnswer('/admin/workflows');
  const virtualModels = useAnswer('/admin/virtual-models');
  const others = [guardrails, workflows, virtualModels];
  const { data, error, since, reload } = plugins;
  if (data === undefined) {
    return error === undefined ? <Pending since={since} /> : <ErrorPanel error={error} onRetry={reload} />;
  }
  const uses = (name: string) =>
    guardrails.data && workflows.data && virtualModels.data
      ? usesOf(name, { guardrails: guardrails.data, workflows: workflows.data, virtualModels: virtualModels.data })
      : undefined;
  const chosen = route.value.query.get('plugin');
  const list = (rows: readonly PluginRow[]) =>
    rows.map((plugin) => (
      <PluginPanel
        key={`${plugin.source} ${plugin.name}`}
        plugin={plugin}
        uses={uses(plugin.name)}
        isOpen={plugin.name === chosen}
      />
    ));
  const loaded = data.filter(({ source }) => source !== 'builtin');
  const builtIn = data.filter(({ source }) => source === 'builtin');
  return (
    <div class="plugins">
      {others.map(
        (one, at) => one.error !== undefined && <ErrorPanel key={at} error={one.error} onRetry={one.reload} />,
      )}
      <Panel title="Loaded plugins">
        {loaded.length === 0 ? <EmptyState title="No plugin is configured." /> : list(loaded)}
      </Panel>
      <Panel title="Built-in types">{list(builtIn)}</Panel>
      <AddPlugin />
    </div>
  );
}
