/** The gateways of a test file that have the response cache and a plugin, and how many answers came from the cache. */
import { join } from 'node:path';

type Fetch = (path: string, init?: RequestInit) => Promise<Response>;

let isOn = false;
let keepsToolCalls = false;
let hits = 0;
let pluginCalls = 0;
const gateways = new Set<Fetch>();

/** @param toolCalls whether answers that call tools are kept too */
export function turnCacheOn(toolCalls: boolean): void {
  isOn = true;
  keepsToolCalls = toolCalls;
}

/** Environment variables of the gateways; none unless the test file has chosen the cache. */
export function cacheOfTests(): Record<string, string> {
  if (!isOn) return {};
  const labels = { path: join(import.meta.dirname, '../../infra/plugins/team-labels.ts'), required: true };
  const plugins = [{ ...labels, config: { teams: { '/': 'everyone' } } }];
  return { RESPONSE_CACHE_ENABLED: 'true', PLUGINS_ENABLED: 'true', PLUGINS: JSON.stringify(plugins) };
}

/** Called with each gateway that is started. @returns to be called before it is closed: counts its hits */
export async function cacheStarted(fetch: Fetch): Promise<() => Promise<void>> {
  if (!isOn) return async () => {};
  gateways.add(fetch);
  if (keepsToolCalls) {
    const features = { cache: true, audit: true, usage: true, guardrails: true };
    const workflow_payload = { features, cache: { tool_calls: true } };
    const answer = await post(fetch, '/admin/workflows', { name: 'with tool calls', workflow_payload });
    if (answer.status !== 201) throw new Error(await answer.text());
  }
  return async () => {
    gateways.delete(fetch);
    const text = await (await fetch('/metrics')).text();
    for (const [, count] of text.matchAll(/^gateway_cache_requests_total\{cache="exact".*\} (\d+)$/gm)) {
      hits += Number(count);
    }
    const [, called] = /^plugin_team_labels_calls_total(?:\{[^}]*\})? (\d+)$/m.exec(text) ?? [];
    pluginCalls += Number(called);
  };
}

export async function purgeCaches(): Promise<void> {
  for (const fetch of gateways) await post(fetch, '/admin/cache/purge', { all: true });
}

function post(fetch: Fetch, path: string, body: object): Promise<Response> {
  const headers = { 'content-type': 'application/json' };
  return fetch(path, { method: 'POST', body: JSON.stringify(body), headers });
}

export const hitsSoFar = (): number => hits;
export const pluginCallsSoFar = (): number => pluginCalls;
