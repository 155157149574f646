/** The providers in force, and what happens to them when the configuration changes. */
import { afterEach, describe, expect, test } from 'vitest';
import {
  type ActiveProviderConfig,
  ActiveProviders,
  type Configuration,
  type KnownProvider,
} from '../../src/commands/providers/active-providers.ts';
import { type ProviderModel, RESPONSES_PROBE_MS } from '../../src/providers/provider.ts';
import { withoutProxy } from '../../src/providers/proxies.ts';
import type { RegisteredProvider } from '../../src/providers/registry.ts';

const resilience = {
  retry: { maxRetries: 0, initialBackoffMs: 0, maxBackoffMs: 0, factor: 1, jitter: 0, onStatuses: [] },
  circuitBreaker: { enabled: true, failureThreshold: 1, successThreshold: 1, openMs: 1000, failureOnStatuses: [500] },
};

function config(name: string, more: Partial<ActiveProviderConfig> = {}): ActiveProviderConfig {
  const common = { type: 'vllm', baseUrl: 'http://127.0.0.1:9/v1', apiKeys: [], models: [], options: {} };
  return { name, ...common, modelsMode: 'fallback', source: 'stored', localAddresses: true, resilience, ...more };
}

const opened: ActiveProviders[] = [];
afterEach(() => Promise.all(opened.splice(0).map((active) => active.close())));

function activeProviders(remembered: Record<string, KnownProvider> = {}) {
  const events: string[] = [];
  let registered: readonly RegisteredProvider[] = [];
  let known: ReadonlyMap<string, readonly ProviderModel[]> = new Map();
  const ended = Promise.withResolvers<void>();
  const memory = new Map(Object.entries(remembered));
  const made = new ActiveProviders({
    mayCall: () => true,
    socketPingMs: 30_000,
    proxyOf: withoutProxy,
    registry: {
      set(providers, of = new Map()) {
        registered = providers;
        known = of;
      },
    },
    journal: {
      configured(now: readonly Configuration[], before: ReadonlyMap<string, Configuration>) {
        const names = (all: Iterable<string>) => [...all].join(' ') || 'none';
        events.push(`${names(before.keys())} → ${names(now.map(({ name }) => name))}`);
      },
      circuit: (name, _model, state) => events.push(`${name} ${state}`),
    },
    remembered: () => memory,
    openExchangesEnded: () => ended.promise,
    now: () => 0,
    circuitChanged: () => {},
    onError: (error) => events.push(String(error)),
  });
  opened.push(made);
  return {
    active: made,
    told: events,
    ended,
    provider: (name: string) => registered.find(({ provider }) => provider.name === name)?.provider,
    names: () => registered.map(({ provider }) => provider.name),
    known: () => known,
  };
}

describe('ActiveProviders', () => {
  test('keeps an unchanged provider, and makes a changed one anew', () => {
    const { active: it, provider, names } = activeProviders();
    it.follow([config('a'), config('b')]);
    const [a, b] = [provider('a'), provider('b')];
    it.follow([config('b', { apiKeys: ['sk-1'] }), config('a')]);
    expect(names()).toEqual(['b', 'a']);
    expect(provider('a')).toBe(a);
    expect(provider('b')).not.toBe(b);
    it.follow([config('a')]);
    expect(names()).toEqual(['a']);
    expect(it.configs).toEqual([config('a')]);
  });

  test('leaves out a runtime provider that cannot be made, and reports why', () => {
    const { active: it, names } = activeProviders();
    const problems = it.follow([config('a', { type: 'gone' }), config('b'), config('c', { baseUrl: 'nowhere' })]);
    expect(names()).toEqual(['b']);
    expect([...problems.keys()]).toEqual(['a', 'c']);
    expect(problems.get('a')).toContain('there is no provider type gone');
  });

  test('changes nothing when a provider of the configuration cannot be made', () => {
    const { active: it, names } = activeProviders();
    it.follow([config('a')]);
    expect(() => it.follow([config('b'), config('c', { type: 'gone', source: 'file' })])).toThrow('gone');
    expect(names()).toEqual(['a']);
  });

  test('keeps the state of the same server, and of no other server behind the same name', () => {
    const configuration = {
      name: 'a',
      type: 'vllm',
      baseUrl: 'http://127.0.0.1:9/v1',
      hasApiKey: false,
      configuredModels: [],
    };
    const models = [{ id: 'm', created: 1, ownedBy: 'x' }];
    const capabilities = { responses: false };
    const memory = { a: { configuration, models, capabilities, capabilitiesLearnedAt: Date.now() } };
    const same = activeProviders(memory);
    same.active.follow([config('a')]);
    expect(same.known().get('a')).toEqual(models);
    expect(same.provider('a')?.capabilities.responses).toBe('no');
    const another = activeProviders(memory);
    another.active.follow([config('a', { baseUrl: 'http://127.0.0.1:10/v1' })]);
    expect(another.known().has('a')).toBe(false);
    expect(another.provider('a')?.capabilities.responses).toBe('unknown');
    const changed = activeProviders(memory);
    changed.active.follow([config('a', { apiKeys: ['key'] })]);
    expect(changed.provider('a')?.capabilities.responses).toBe('unknown');
    const old = activeProviders({ a: { ...memory.a, capabilitiesLearnedAt: Date.now() - RESPONSES_PROBE_MS } });
    old.active.follow([config('a')]);
    expect(old.provider('a')?.capabilities.responses).toBe('unknown');
  });

  test('is recorded once it is announced, and at each change from then on', () => {
    const configuration = {
      name: 'old',
      type: 'vllm',
      baseUrl: 'http://old/v1',
      hasApiKey: false,
      configuredModels: [],
    };
    const { active: it, told: events } = activeProviders({ old: { configuration, capabilities: {} } });
    it.follow([config('a')]);
    expect(events).toEqual([]);
    it.announce();
    it.follow([config('a'), config('b')]);
    it.follow([]);
    expect(events).toEqual(['old → a', 'a → a b', 'a b → none']);
  });

  test('keeps the breaker of a removed provider until its calls have ended', async () => {
    const { active: it, ended } = activeProviders();
    it.follow([config('a'), config('b')]);
    const breakers = it.resilience.get('a')?.breakers;
    it.follow([config('b')]);
    expect(it.resilience.get('a')?.breakers).toBe(breakers);
    ended.resolve();
    await expect.poll(() => it.resilience.has('a')).toBe(false);
    expect(it.resilience.has('b')).toBe(true);
  });

  test('keeps the breaker of a provider that came back under the same name', async () => {
    const { active: it, ended, told: events } = activeProviders();
    it.follow([config('a')]);
    it.resilience.get('a')?.breakers.of('m').enter().permit?.end('failed');
    expect(events).toEqual(['a open']);
    it.follow([]);
    it.follow([config('a')]);
    expect(events).toEqual(['a open', 'a closed']);
    const breakers = it.resilience.get('a')?.breakers;
    ended.resolve();
    await ended.promise;
    await new Promise(setImmediate);
    expect(it.resilience.get('a')?.breakers).toBe(breakers);
    expect(breakers?.state).toBe('closed');
  });
});
