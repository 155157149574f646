/** Wiring of plugins: those of the configuration, loaded, and what the rest of the gateway uses of them. */
import type { Logger } from 'pino';
import type { ExchangeSummary } from '../commands/exchange/pipeline/dependencies.ts';
import type { RequestPlugin } from '../commands/exchange/request-plugin.ts';
import type { GuardrailTypes } from '../commands/guardrails/guardrail.ts';
import type { CallModel } from '../commands/guardrails/guardrail-type.ts';
import type { RouteStrategies } from '../commands/virtual-models/virtual-model.ts';
import type { Config } from '../config/config.ts';
import type { EventLog } from '../events/log.ts';
import type { PluginRow } from '../http/admin/guardrails/plugins.ts';
import type { Metrics } from '../http/metrics.ts';
import { CompletedExchanges } from '../plugins/completed-exchanges.ts';
import { guardrailOfPlugin } from '../plugins/guardrail-of-plugin.ts';
import type { FailedPlugin, LoadedPlugin, PluginEntry } from '../plugins/load-plugins.ts';
import { requestOfPlugin } from '../plugins/request-of-plugin.ts';
import { routeOfPlugin } from '../plugins/route-of-plugin.ts';
import { guardrailTypes } from './guardrail-types.ts';

export interface PluginsOptions {
  readonly config: Pick<Config, 'plugins' | 'pluginsEnabled' | 'guardrailsEnabled'>;
  readonly log: EventLog;
  readonly routeStrategies: RouteStrategies;
  readonly logger: Pick<Logger, 'info' | 'warn'>;
}

/** Without a plugin in the configuration, no process is started and requests do nothing for plugins. @throws Error */
export async function createPlugins({ config, log, routeStrategies, logger }: PluginsOptions) {
  const { loaded, failed, stop } = await loadedPlugins(config, log, routeStrategies, logger);
  const types: GuardrailTypes = new Map([
    ...guardrailTypes,
    ...loaded
      .filter(({ manifest }) => manifest.phases.length > 0)
      .map((plugin) => [plugin.name, guardrailOfPlugin(plugin)] as const),
  ]);
  const completed = new Map(
    loaded
      .filter(({ manifest }) => manifest.hooks.includes('complete'))
      .map((plugin) => [plugin, new CompletedExchanges(plugin)] as const),
  );
  for (const plugin of loaded) if (plugin.manifest.hooks.includes('route')) routeStrategies.add(routeOfPlugin(plugin));
  return {
    /** With those of plugins. */
    types,
    failed: failed.length > 0,
    rows: (): PluginRow[] => [
      ...loaded.map((plugin) => rowOf(plugin, completed.get(plugin)?.dropped ?? 0)),
      ...failed.map(rowOfFailed),
    ],
    register(metrics: Pick<Metrics, 'count'>): void {
      for (const plugin of loaded) {
        const { name, host } = plugin;
        const prefix = `plugin_${name.replaceAll('-', '_')}`;
        metrics.count(`${prefix}_calls_total`, `Calls of hooks of ${name}`, () => host.counters.calls);
        metrics.count(`${prefix}_failures_total`, `Calls of ${name} without a result`, () => host.counters.failures);
        metrics.count(`${prefix}_restarts_total`, `Restarts of the process of ${name}`, () => host.counters.restarts);
        const ended = completed.get(plugin);
        if (ended === undefined) continue;
        metrics.count(
          `${prefix}_dropped_total`,
          `Ended exchanges that ${name} was not called for`,
          () => ended.dropped,
        );
      }
    },
    /** The plugins that read requests, in the order of the configuration. */
    requestPlugins: (callModel: CallModel): RequestPlugin[] =>
      loaded
        .filter(({ manifest }) => manifest.hooks.includes('request'))
        .map((plugin) => requestOfPlugin(plugin, callModel)),
    /** Undefined when no plugin has the hook. */
    completed: completed.size === 0 ? undefined : (summary: ExchangeSummary) => addTo(completed.values(), summary),
    /** Ends the processes, after the hooks of exchanges that ended. */
    async stop() {
      await Promise.all([...completed.values()].map((one) => one.drain()));
      for (const [{ name }, { dropped }] of completed) {
        if (dropped > 0) logger.warn(`the plugin '${name}' was not called for ${dropped} ended exchanges`);
      }
      await stop();
    },
  };
}

const none = { loaded: [], failed: [], stop: () => Promise.resolve() };

async function loadedPlugins(
  { plugins, pluginsEnabled, guardrailsEnabled }: PluginsOptions['config'],
  log: EventLog,
  routeStrategies: RouteStrategies,
  logger: PluginsOptions['logger'],
) {
  const isConfigured = plugins.entries.length > 0 || plugins.searchPaths.length > 0;
  if (!isConfigured || !(pluginsEnabled || guardrailsEnabled)) return none;
  const { pluginsIn } = await import('../plugins/locate.ts');
  const { loadPlugins } = await import('../plugins/load-plugins.ts');
  const found = await Promise.all(plugins.searchPaths.map((folder) => searched(folder, pluginsIn)));
  const { memoryBytes, timeoutMs } = plugins;
  const entries: PluginEntry[] = found.flat().map((path) => ({
    place: { path },
    ...{ config: {}, required: false, memoryBytes, timeoutMs, failMode: 'closed' as const },
    setting: 'plugins.search_paths (PLUGINS_SEARCH_PATHS)',
  }));
  const result = await loadPlugins({
    entries: [...plugins.entries, ...entries],
    from: plugins.from,
    log,
    reserved: new Set([...guardrailTypes.keys(), ...routeStrategies.names()]),
    maxTimeoutMs: plugins.maxTimeoutMs,
    output: (plugin, line) => logger.info({ plugin }, line),
    problem: (message) => logger.warn(message),
  });
  for (const { name, source } of result.loaded) logger.info(`loaded the plugin '${name}' from ${source}`);
  return result;
}

async function searched(folder: string, pluginsIn: (folder: string) => Promise<string[]>): Promise<string[]> {
  try {
    return await pluginsIn(folder);
  } catch (error) {
    throw new Error(
      `plugins.search_paths (PLUGINS_SEARCH_PATHS): ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

function addTo(all: Iterable<CompletedExchanges>, { usage, ...summary }: ExchangeSummary): void {
  const { exchangeId, requestId, userPath, endpoint, provider, model, labels } = summary;
  const { status, stream, durationMs, firstByteMs, cost } = summary;
  const facts = {
    ...{ exchangeId, requestId, userPath, endpoint, provider, model, labels },
    ...{ status, stream, durationMs, firstByteMs, cost },
    inputTokens: usage?.inputTokens ?? undefined,
    outputTokens: usage?.outputTokens ?? undefined,
  };
  for (const one of all) one.add(facts);
}

function rowOf({ name, source, digest, manifest, host }: LoadedPlugin, dropped: number): PluginRow {
  const { label, version, description = '', hooks, mutates, guardrail, fields, routeFields } = manifest;
  return {
    ...{ name, label, version, description, kinds: hooks, mutates, guardrail, source, digest },
    fields: fields.map((field) => ({ ...field, scope: '' as const })),
    route_fields: routeFields.map((field) => ({ ...field, scope: 'route' as const })),
    health: host.health,
    error: host.error,
    counters: { ...host.counters, dropped },
  };
}

function rowOfFailed({ name, source, error }: FailedPlugin): PluginRow {
  return {
    ...{ name, label: name, description: '', kinds: [], mutates: false, guardrail: false, source },
    ...{ fields: [], route_fields: [], health: 'failed', error },
  };
}
