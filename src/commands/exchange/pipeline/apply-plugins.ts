/** Lets plugins read and change the request, one after the other. Without such a plugin the step does nothing. */

import { earlyEnd } from '../../model-request/stream-refusals.ts';
import { refusals } from '../../refusal.ts';
import { type AppliedPlugin, changedHeaders, changedSelector } from '../plugin-changes.ts';
import type { PluginRequestChanges, RequestPlugin } from '../request-plugin.ts';
import type { RequestParsed } from './context.ts';
import type { RunningExchange } from './running-exchange.ts';
import type { Step } from './step.ts';

export const applyPlugins: Step<RequestParsed, RequestParsed> = {
  name: 'applyPlugins',
  run(context, { requestPlugins }) {
    const { resumed, request } = context.exchange;
    // Calls that guardrails and plugins make would cause further ones.
    const isOwn = request.caller.origin !== undefined;
    return requestPlugins.length === 0 || resumed !== undefined || isOwn
      ? context
      : afterPlugins(context, requestPlugins);
  },
};

/** @throws Refusal when a plugin refuses the request, or fails and fails closed */
async function afterPlugins(
  { exchange, parsedRequest: original }: RequestParsed,
  plugins: readonly RequestPlugin[],
): Promise<RequestParsed> {
  const { headers } = exchange.request;
  const applied: AppliedPlugin[] = [];
  exchange.beforePlugins = { headers, model: original.model, applied };
  let parsedRequest = original;
  for (const plugin of plugins) {
    const started = process.hrtime.bigint();
    const note = (facts: Omit<AppliedPlugin, 'plugin' | 'digest' | 'durationNs'>): AppliedPlugin => {
      const durationNs = Number(process.hrtime.bigint() - started);
      const one = { plugin: plugin.name, digest: plugin.digest, ...facts, durationNs };
      applied.push(one);
      return one;
    };
    const changes = await changesOf(plugin, exchange, parsedRequest).catch((error: unknown) => {
      // The end of the call is then no failure of the plugin.
      if (exchange.client.ended.aborted) throw earlyEnd(exchange.client.ended.reason).refusal;
      note({ error: error instanceof Error ? error.message : String(error), failMode: plugin.failMode });
      if (plugin.failMode === 'closed') throw refusals.pluginFailed(plugin.name);
      return undefined;
    });
    if (changes?.refuse !== undefined) {
      const { status, code, message } = changes.refuse;
      note({ refused: { status, code } });
      throw refusals.pluginRefused(status, code, message);
    }
    const facts = changes === undefined ? undefined : factsOf(changes, exchange);
    if (facts === undefined) continue;
    const one = note(facts);
    parsedRequest = changedSelector(parsedRequest, one);
    const { request } = exchange;
    exchange.request = {
      ...request,
      headers: changedHeaders(request.headers, one),
      labels: one.labels === undefined ? request.labels : [...(request.labels ?? []), ...one.labels],
    };
  }
  return { exchange, parsedRequest };
}

async function changesOf(
  plugin: RequestPlugin,
  { dialect, request, client, record }: RunningExchange,
  { model, provider, stream }: RequestParsed['parsedRequest'],
): Promise<PluginRequestChanges | undefined> {
  const { method, path, headers, labels = [], clientIp, requestId, caller } = request;
  const { endpoint } = dialect;
  const changes = await plugin.run(
    { endpoint, method, path, headers, model, provider, stream, labels, clientIp },
    { requestId, exchangeId: record.id, userPath: caller.userPath ?? '/', signal: client.ended },
  );
  const selects = changes?.model !== undefined || changes?.provider !== undefined;
  if (selects && (model === '' || dialect.target !== undefined)) {
    throw new Error('it selected a model for a request whose model cannot be changed');
  }
  return changes;
}

/** Only what differs from the request; undefined when nothing does. */
function factsOf(
  { labels = [], setHeaders, removeHeaders = [], model, provider }: PluginRequestChanges,
  { request }: RunningExchange,
): Omit<AppliedPlugin, 'plugin' | 'digest' | 'durationNs'> | undefined {
  const added = [...new Set(labels)].filter((label) => request.labels?.includes(label) !== true);
  const removed = removeHeaders.filter((name) => request.headers[name] !== undefined);
  const facts = {
    ...(added.length > 0 && { labels: added }),
    ...(setHeaders !== undefined && Object.keys(setHeaders).length > 0 && { headersSet: setHeaders }),
    ...(removed.length > 0 && { headersRemoved: removed }),
    ...(model !== undefined && { model }),
    ...(provider !== undefined && { provider }),
  };
  return Object.keys(facts).length === 0 ? undefined : facts;
}
