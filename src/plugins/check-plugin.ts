/** `chancery plugin check`: loads a plugin as the gateway would, and runs each of its hooks once with sample data. */

import type { EvaluationContext, GuardrailServices, TextPart } from '../commands/guardrails/guardrail-type.ts';
import { Placeholders } from '../commands/guardrails/placeholders.ts';
import type { RouteTarget } from '../commands/virtual-models/virtual-model.ts';
import type { EndedExchange } from './api/plugin.ts';
import { guardrailOfPlugin } from './guardrail-of-plugin.ts';
import { type LoadedPlugin, loadPlugins } from './load-plugins.ts';
import type { GuardrailHook } from './manifest.ts';
import type { HookName } from './protocol/messages.ts';
import { requestOfPlugin } from './request-of-plugin.ts';
import { routeOfPlugin } from './route-of-plugin.ts';

export interface PluginCheck {
  readonly ok: boolean;
  readonly lines: readonly string[];
}

export interface CheckOptions {
  readonly path: string;
  readonly cwd: string;
  /** Settings of the plugin, or of a guardrail of it. */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly memoryBytes: number;
  readonly timeoutMs: number;
}

const userPath = '/sample';

const question: readonly TextPart[] = [
  { role: 'system', kind: 'text', message: 0, text: 'You are a helpful assistant.' },
  { role: 'user', kind: 'text', message: 1, text: 'What is the capital of France?' },
];
const answer: readonly TextPart[] = [{ role: 'assistant', kind: 'text', message: 0, text: 'It is Paris.' }];

const target: RouteTarget = {
  ...{ provider: 'sample', model: 'sample-model', weight: 1, price: 1, healthy: true, errorRate: 0, latencyMs: 300 },
};

const ended: EndedExchange = {
  ...{ exchangeId: '0198c7a2-0000-7000-8000-000000000000', requestId: 'sample', userPath, labels: [] },
  ...{ endpoint: '/v1/chat/completions', provider: 'sample', model: 'sample-model', status: 200, stream: false },
  ...{ durationMs: 800, firstByteMs: 300, inputTokens: 20, outputTokens: 5, cost: 0.001 },
};

/** Never rejects. The process of the plugin has ended when this resolves. */
export async function checkPlugin({ path, cwd, settings, memoryBytes, timeoutMs }: CheckOptions): Promise<PluginCheck> {
  const lines: string[] = [];
  try {
    const plugins = await loadPlugins({
      entries: [
        {
          place: { path },
          config: settings,
          required: true,
          memoryBytes,
          timeoutMs,
          failMode: 'closed',
          setting: path,
        },
      ],
      ...{ from: cwd, log: undefined, reserved: new Set<string>(), maxTimeoutMs: timeoutMs },
      output: (_plugin, line) => lines.push(`output  ${line}`),
      problem() {},
    });
    try {
      const [plugin] = plugins.loaded;
      if (plugin === undefined) return { ok: false, lines };
      lines.push(...describe(plugin));
      let ok = true;
      for (const hook of plugin.manifest.hooks) ok = (await runOnce(plugin, hook, settings, lines)) && ok;
      return { ok, lines };
    } finally {
      await plugins.stop();
    }
  } catch (error) {
    return { ok: false, lines: [...lines, `FAIL    ${textOf(error)}`] };
  }
}

function describe({ name, digest, manifest }: LoadedPlugin): string[] {
  const { label, version = 'without version', hooks, mutates, guardrail, fields, routeFields } = manifest;
  const kind = guardrail ? `guardrail${mutates ? ' that changes texts' : ''}` : 'no guardrail';
  const settings = [...fields, ...routeFields].map(({ key, required }) => (required ? `${key} (required)` : key));
  return [
    `ok      loaded '${name}' (${label}), ${version}, ${kind}`,
    `ok      hooks: ${hooks.join(', ')}; settings: ${settings.join(', ') || 'none'}`,
    `ok      digest ${digest}`,
  ];
}

async function runOnce(
  plugin: LoadedPlugin,
  hook: HookName,
  settings: CheckOptions['settings'],
  lines: string[],
): Promise<boolean> {
  const started = performance.now();
  try {
    const result = await resultOf(plugin, hook, settings);
    const ms = (performance.now() - started).toFixed(1);
    lines.push(`ok      ${hook} in ${ms} ms: ${JSON.stringify(result ?? 'no change').slice(0, 500)}`);
    return true;
  } catch (error) {
    lines.push(`FAIL    ${hook}: ${textOf(error)}`);
    return false;
  }
}

async function resultOf(plugin: LoadedPlugin, hook: HookName, settings: CheckOptions['settings']): Promise<unknown> {
  switch (hook) {
    case 'prompt':
    case 'response':
    case 'stream':
      return evaluated(plugin, hook, settings);
    case 'request':
      return requestOfPlugin(plugin, services.callModel).run(
        {
          ...{ endpoint: '/v1/chat/completions', method: 'POST', path: '/v1/chat/completions', model: 'sample-model' },
          ...{ headers: { 'content-type': 'application/json' }, provider: undefined, stream: false, labels: [] },
          clientIp: '127.0.0.1',
        },
        { requestId: 'sample', userPath, signal: new AbortController().signal },
      );
    case 'route': {
      const strategy = routeOfPlugin(plugin);
      const read = strategy.readConfig(settings);
      if (!read.ok) throw new Error(`settings: ${read.problem}`);
      const asked = {
        selector: 'sample',
        virtualModel: 'sample',
        userPath,
        labels: [],
        sessionId: null,
        stream: false,
      };
      const targets = [target, { ...target, model: 'other-model', price: 2, latencyMs: 100 }];
      return strategy.select(read.config, { ...asked, targets }, new AbortController().signal);
    }
    case 'complete':
      return plugin.host.call({
        ...{ hook, input: ended, config: plugin.config, deadlineMs: plugin.entry.timeoutMs },
        context: { requestId: 'sample', userPath, model: 'sample-model', provider: 'sample', labels: [] },
      });
  }
}

const services: GuardrailServices = {
  name: 'sample',
  userPath: undefined,
  callModel: () => Promise.resolve({ text: 'A sample answer.', isCut: false, exchangeId: '' }),
  fetch: () => Promise.reject(new Error('not available')),
};

async function evaluated(plugin: LoadedPlugin, hook: GuardrailHook, settings: CheckOptions['settings']) {
  const read = guardrailOfPlugin(plugin).read(settings);
  if (!read.ok) throw new Error(`settings: ${read.problem}`);
  const context: EvaluationContext = {
    ...{ requestId: 'sample', userPath, model: 'sample-model', provider: 'sample', labels: [], now: new Date() },
    ...{ signal: new AbortController().signal, placeholders: new Placeholders() },
  };
  const result = await read.compile(services)[hook]?.(hook === 'prompt' ? question : answer, context);
  if (result === undefined) return undefined;
  const { texts, ...rest } = result;
  return texts === undefined ? rest : { ...rest, texts: Object.fromEntries(texts) };
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
