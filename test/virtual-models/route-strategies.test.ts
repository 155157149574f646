/** Route strategies of virtual models, through the router: what they are given, and what replaces a missing selection. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Route, RouteRequest } from '../../src/commands/model-request/routing-types.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import { RouteFallbacks } from '../../src/commands/virtual-models/route-fallbacks.ts';
import { createRouter } from '../../src/commands/virtual-models/router.ts';
import {
  cheapestHealthy,
  type RouteQuestion,
  type RouteSelection,
  RouteStrategies,
  type RouteStrategy,
  type VirtualModel,
} from '../../src/commands/virtual-models/virtual-model.ts';
import { everythingAllowed } from '../support/nothing-configured.ts';
import { mapOf, named, redirect, target } from './virtual-model-fixtures.ts';

type Select = (question: RouteQuestion, signal: AbortSignal) => RouteSelection | Promise<RouteSelection>;

function strategy(select: Select, name = 'own'): RouteStrategy {
  return {
    ...{ name, label: name, description: '', routeFields: [] },
    readConfig: (config) =>
      'wrong' in config ? { ok: false, problem: "'wrong' is unknown", key: 'wrong' } : { ok: true, config },
    select: (_config, question, signal) => select(question, signal),
  };
}

const by = (name: string, config: object = {}) =>
  ({ strategy: 'plugin', plugin: { name, config: { ...config } } }) as const;

interface Setup {
  readonly strategies?: readonly RouteStrategy[];
  readonly models: readonly VirtualModel[];
  readonly down?: ReadonlySet<string>;
  readonly prices?: Readonly<Record<string, number>>;
}

function routed({ strategies: loaded = [], models, down = new Set(), prices = {} }: Setup) {
  const strategies = new RouteStrategies(loaded);
  const fallbacks = new RouteFallbacks();
  let now = 0;
  const resolve = (model: string, provider = 'any') => target(provider, model);
  const router = createRouter({
    models: { resolve, resolveOrRefresh: async (model, provider) => resolve(model, provider), knows: () => true },
    virtualModels: { redirects: mapOf(models) },
    access: everythingAllowed,
    admission: { hasRoom: () => true },
    isInOrder: (provider) => !down.has(provider),
    priceOf: (provider, model) => prices[`${provider}/${model}`],
    failover: { enabled: true, maxModels: 0, statuses: [500], phrases: [] },
    ...{ strategies, fallbacks, random: () => 0.5, now: () => now },
  });
  const route = (more: Partial<RouteRequest> = {}) =>
    router.route({
      ...{ selector: models[0]?.source ?? '', provider: undefined, caller: { userPath: undefined, key: undefined } },
      ...{ sessionId: undefined, labels: undefined, stream: false },
      ...more,
    });
  const first = async (more: Partial<RouteRequest> = {}) => names(await route(more))[0];
  return { route, first, strategies, fallbacks, passes: (ms: number) => (now += ms) };
}

const names = ({ candidates }: Pick<Route, 'candidates'>) => candidates.map(named);
const failed = (route: Route, place = 0) => {
  const called = route.candidates[place];
  if (called === undefined) throw new Error('there is no such candidate');
  const refusal = new Refusal({ status: 500, type: 'provider_error', code: null, message: 'failed' });
  route.observed?.(called, { kind: 'refused', attempts: 1, status: 500, refusal }, 5, undefined);
};
const answered = (route: Route, ms: number, place = 0) => {
  const called = route.candidates[place];
  if (called === undefined) throw new Error('there is no such candidate');
  route.observed?.(called, undefined, ms, ms);
};

const three = ['a/1', 'b/2', 'c/3'];

describe('a route strategy', () => {
  it('selects the target that is called first; the others follow in the declared order', () => {
    const { route } = routed({
      strategies: [strategy(() => ({ index: 2, reason: 'the last one' }))],
      models: [redirect('v', three, by('own'))],
    });
    const found = route();
    if (found instanceof Promise) throw new Error('a synchronous strategy made the request wait');
    expect(names(found)).toEqual(['c/3', 'a/1', 'b/2']);
    expect(found.selections).toEqual([
      { virtualModel: 'v', strategy: 'own', target: 'c/3', by: 'strategy', reason: 'the last one' },
    ]);
  });

  it('may answer later', async () => {
    const { route } = routed({
      strategies: [strategy(async () => ({ index: 1 }))],
      models: [redirect('v', three, by('own'))],
    });
    const found = route();
    expect(found).toBeInstanceOf(Promise);
    expect(names(await found)).toEqual(['b/2', 'a/1', 'c/3']);
  });

  it('gets plain values about the request and its targets', async () => {
    const questions: unknown[] = [];
    const { route } = routed({
      strategies: [
        strategy((question) => {
          questions.push(structuredClone(question));
          return { index: 0 };
        }),
      ],
      models: [redirect('v', ['a/1', { provider: 'b', model: '2', weight: 3 }], by('own'))],
      prices: { 'a/1': 2.5 },
    });
    const found = await route({ labels: ['x'], sessionId: 's', stream: true });
    answered(found, 40);
    failed(found, 1);
    await route({ stream: true });
    expect(questions[0]).toEqual({
      ...{ selector: 'v', virtualModel: 'v', userPath: null, labels: ['x'], sessionId: 's', stream: true },
      targets: [
        { provider: 'a', model: '1', weight: 1, price: 2.5, healthy: true, errorRate: 0, latencyMs: null },
        { provider: 'b', model: '2', weight: 3, price: null, healthy: true, errorRate: 0, latencyMs: null },
      ],
    });
    expect(questions[1]).toMatchObject({
      targets: [{ latencyMs: 40, errorRate: 0 }, { errorRate: 0.2 }],
      ...{ labels: [], sessionId: null },
    });
  });

  it('selects among healthy targets only; unhealthy ones come last', async () => {
    const seen: string[][] = [];
    const { route } = routed({
      strategies: [
        strategy(({ targets }) => {
          seen.push(targets.map(({ provider }) => provider));
          return { index: 1 };
        }),
      ],
      models: [redirect('v', three, by('own'))],
      down: new Set(['a']),
    });
    expect(names(await route())).toEqual(['c/3', 'b/2', 'a/1']);
    expect(seen).toEqual([['b', 'c']]);
  });

  it('selects also behind another virtual model, and only where its targets are called first', async () => {
    const last = strategy(async ({ targets }) => ({ index: targets.length - 1 }), 'last');
    const { route } = routed({
      strategies: [last],
      models: [
        redirect('outer', ['inner', 'c/3', 'idle'], { strategy: 'failover' }),
        redirect('inner', ['a/1', 'b/2'], by('last')),
        redirect('idle', ['d/4', 'e/5'], by('last')),
      ],
    });
    const found = await route();
    expect(names(found)).toEqual(['b/2', 'a/1', 'c/3', 'd/4', 'e/5']);
    expect(found.selections).toMatchObject([{ virtualModel: 'inner', target: 'b/2' }]);
  });
});

describe('a selection that fails', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const throws = strategy(() => {
    throw new Error('no');
  });
  const rejects = strategy(() => Promise.reject(new Error('no')));
  const late = strategy(() => new Promise(() => {}));
  const wrong = (index: unknown) => strategy(() => JSON.parse(JSON.stringify({ index })));

  it.each<[string, RouteStrategy, string, object]>([
    ['throws', throws, 'failed', {}],
    ['rejects', rejects, 'failed', {}],
    ['is late', late, 'late', {}],
    ['has an unknown index', wrong(3), 'unknown_target', {}],
    ['has a negative index', wrong(-1), 'unknown_target', {}],
    ['has an index that is text', wrong('0'), 'unknown_target', {}],
    ['has no index', strategy(() => JSON.parse('null')), 'unknown_target', {}],
    ['belongs to a strategy that is not loaded', strategy(() => ({ index: 0 }), 'other'), 'not_loaded', {}],
    ['belongs to an invalid configuration', throws, 'invalid_config', { wrong: 1 }],
  ])('because it %s is replaced by weighted round robin, counted and explained', async (_what, one, reason, config) => {
    const weighted = [{ provider: 'a', model: '1', weight: 2 }, 'b/2'];
    const { route, fallbacks } = routed({
      strategies: [one],
      models: [redirect('v', weighted, by('own', config))],
    });
    const firsts: (string | undefined)[] = [];
    for (let turn = 0; turn < 6; turn++) {
      const pending = route();
      await vi.advanceTimersByTimeAsync(250);
      const found = await pending;
      firsts.push(names(found)[0]);
      expect(found.selections).toMatchObject([{ strategy: 'own', by: 'fallback', reason }]);
    }
    expect(firsts.filter((name) => name === 'a/1')).toHaveLength(4);
    expect([...fallbacks]).toEqual([{ strategy: 'own', reason, count: 6 }]);
  });

  it('is late after 250 ms, and its signal is aborted then', async () => {
    let signal: AbortSignal | undefined;
    const { route } = routed({
      strategies: [
        strategy((_question, given) => {
          signal = given;
          return new Promise(() => {});
        }),
      ],
      models: [redirect('v', three, by('own'))],
    });
    let isKnown = false;
    const found = Promise.resolve(route()).then(() => {
      isKnown = true;
    });
    await vi.advanceTimersByTimeAsync(249);
    expect([isKnown, signal?.aborted]).toEqual([false, false]);
    await vi.advanceTimersByTimeAsync(1);
    await found;
    expect(signal?.aborted).toBe(true);
  });

  it('is used again as soon as the strategy is loaded', async () => {
    const { first, strategies, route } = routed({ models: [redirect('v', three, by('own'))] });
    expect((await route()).selections).toMatchObject([{ by: 'fallback', reason: 'not_loaded' }]);
    strategies.add(strategy(() => ({ index: 2 })));
    expect([await first(), await first()]).toEqual(['c/3', 'c/3']);
    strategies.remove('own');
    expect((await route()).selections).toMatchObject([{ by: 'fallback', reason: 'not_loaded' }]);
  });
});

describe('session affinity with a route strategy', () => {
  const turns = () => {
    let turn = 0;
    return strategy(({ targets }) => ({ index: turn++ % targets.length }));
  };

  it('keeps the target that was selected for the first request', async () => {
    const { first, route } = routed({ strategies: [turns()], models: [redirect('v', three, by('own'))] });
    expect([await first({ sessionId: 's' }), await first({ sessionId: 't' })]).toEqual(['a/1', 'b/2']);
    expect([await first({ sessionId: 's' }), await first({ sessionId: 't' })]).toEqual(['a/1', 'b/2']);
    expect((await route({ sessionId: 's' })).selections).toMatchObject([{ by: 'session', target: 'a/1' }]);
    expect(await first()).toBe('c/3');
  });

  it('ends when a call of that target fails, when it is unhealthy, and with session_affinity: false', async () => {
    const down = new Set<string>();
    const { first, route } = routed({ strategies: [turns()], models: [redirect('v', three, by('own'))], down });
    failed(await route({ sessionId: 's' }));
    expect(await first({ sessionId: 's' })).toBe('b/2');
    down.add('b');
    expect(await first({ sessionId: 's' })).toBe('a/1');
    const never = redirect('v', three, { ...by('own'), sessionAffinity: false });
    const other = routed({ strategies: [turns()], models: [never] });
    expect([await other.first({ sessionId: 's' }), await other.first({ sessionId: 's' })]).toEqual(['a/1', 'b/2']);
  });

  it('places sessions by their id while the strategy fails', async () => {
    const { first } = routed({ models: [redirect('v', three, by('own'))] });
    const placed = await first({ sessionId: 's' });
    for (let turn = 0; turn < 5; turn++) expect(await first({ sessionId: 's' })).toBe(placed);
  });
});

describe('cheapest_healthy', () => {
  const prices = { 'b/2': 3, 'c/3': 1 };
  const model = (config: object = {}) => redirect('v', three, by('cheapest_healthy', config));
  const ready = (config: object = {}) => routed({ strategies: [cheapestHealthy], models: [model(config)], prices });

  it('selects the cheapest target, and one without a price only when there is no other', async () => {
    expect(await ready().first()).toBe('c/3');
    const unpriced = routed({ strategies: [cheapestHealthy], models: [model()], prices: { 'b/2': 9 } });
    expect(await unpriced.first()).toBe('b/2');
    const none = routed({ strategies: [cheapestHealthy], models: [model()] });
    expect(await none.first()).toBe('a/1');
  });

  it('leaves a target from the second failure within a minute on, and returns a minute later', async () => {
    const { route, first, passes } = ready();
    failed(await route());
    expect(await first()).toBe('c/3');
    failed(await route());
    expect((await route()).selections).toEqual([
      {
        ...{ virtualModel: 'v', strategy: 'cheapest_healthy', target: 'b/2', by: 'strategy' },
        reason: 'cheapest target with an error rate of at most 0.2',
      },
    ]);
    passes(54_000);
    expect(await first()).toBe('b/2');
    passes(6_000);
    expect(await first()).toBe('c/3');
  });

  it('compares failures with all calls of the last minute', async () => {
    const { route, first } = ready({ max_error_rate: 0.5 });
    for (let call = 0; call < 6; call++) answered(await route(), 10);
    for (let call = 0; call < 6; call++) failed(await route());
    expect(await first()).toBe('c/3');
    failed(await route());
    expect(await first()).toBe('b/2');
  });

  it('leaves a target that begins to fail within 13 seconds, at any steady rate of requests', async () => {
    for (const perSecond of [1, 20]) {
      const { route, first, passes } = ready();
      for (let call = 0; call < 120 * perSecond; call++) {
        answered(await route(), 10);
        passes(1000 / perSecond);
      }
      let failures = 0;
      while ((await first()) === 'c/3') {
        failed(await route());
        failures += 1;
        passes(1000 / perSecond);
      }
      expect(failures / perSecond).toBeGreaterThan(10);
      expect(failures / perSecond).toBeLessThanOrEqual(13);
    }
  });

  it('selects the lowest error rate when all are too high', async () => {
    const { route, first } = ready({ max_error_rate: 0 });
    const found = await route();
    for (const place of [0, 0, 0, 1, 1, 2]) failed(found, place);
    // The places are c/3, a/1, b/2.
    expect(await first()).toBe('b/2');
    expect((await route()).selections?.[0]?.reason).toBe('cheapest target with the lowest error rate, all above 0');
  });

  it('measures each target and then selects the fastest with prefer: fastest', async () => {
    const { route, first, passes } = ready({ prefer: 'fastest' });
    const times: Record<string, number> = { 'a/1': 30, 'b/2': 10, 'c/3': 20 };
    for (let call = 0; call < 3; call++) {
      const found = await route();
      answered(found, times[names(found)[0] ?? ''] ?? 0);
    }
    expect([await first(), await first()]).toEqual(['b/2', 'b/2']);
    passes(5 * 60_000 + 1);
    // Unmeasured targets have equal latencies, so the cheapest is measured first.
    expect(await first()).toBe('c/3');
  });
});
