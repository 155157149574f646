import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  Balance,
  type Balanced,
  type PriceOf,
  placeOf,
  RoundRobin,
} from '../../src/commands/virtual-models/balance.ts';
import { expandInTurn } from '../../src/commands/virtual-models/expand.ts';
import { RouteFallbacks } from '../../src/commands/virtual-models/route-fallbacks.ts';
import { ErrorRates, Latencies } from '../../src/commands/virtual-models/target-statistics.ts';
import { RouteStrategies, type VirtualModel } from '../../src/commands/virtual-models/virtual-model.ts';
import { mapOf, named, redirect, target } from './virtual-model-fixtures.ts';

interface Setup {
  readonly down?: readonly string[];
  readonly others?: readonly VirtualModel[];
  readonly priceOf?: PriceOf;
  readonly random?: () => number;
}

const unknownCaller: Balanced = {
  ...{ selector: 'r', userPath: undefined, labels: undefined, sessionId: undefined, kind: 'whole' },
  selected() {},
};

/** The selectors in the order of the balance, computed anew at each call. */
function balanced(
  model: VirtualModel,
  { down = [], others = [], priceOf = () => undefined, random = () => 0.5 }: Setup = {},
) {
  const now = () => 0;
  const latencies = new Latencies(now);
  const errorRates = new ErrorRates(now);
  const strategies = new RouteStrategies();
  const balance = new Balance({
    ...{ latencies, errorRates, strategies, fallbacks: new RouteFallbacks(), priceOf, random },
  });
  const models = mapOf([model, ...others]);
  const ask = (given: Partial<Balanced> = {}) => {
    const request = { ...unknownCaller, ...given };
    const expanded = expandInTurn(model, {
      redirect: (source) => models.get(source),
      resolve: (name, provider = 'any') => target(provider, name),
      isReady: (one) => !down.includes(named(one)),
      arrange: (one, branches) => balance.arrange(one, branches, request),
      choose: (one, branches) => balance.choose(one, branches, request),
    });
    if (expanded instanceof Promise) throw new Error('the order was not known at once');
    return expanded.candidates.map((one) => named(one.target));
  };
  return { ask, latencies };
}

/** How often each target came first. */
function shares(times: number, ask: (turn: number) => readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (let turn = 0; turn < times; turn++) {
    const [first = ''] = ask(turn);
    counts[first] = (counts[first] ?? 0) + 1;
  }
  return counts;
}

const weighted = (provider: string, model: string, weight: number) => ({ provider, model, weight });

describe('round robin', () => {
  test('puts each target first in turn, and the others in their written order', () => {
    const { ask } = balanced(redirect('r', ['a/1', 'b/2', 'c/3']));
    expect([ask(), ask(), ask(), ask()]).toEqual([
      ['a/1', 'b/2', 'c/3'],
      ['b/2', 'a/1', 'c/3'],
      ['c/3', 'a/1', 'b/2'],
      ['a/1', 'b/2', 'c/3'],
    ]);
  });

  test('mixes the turns of targets with high and low weights', () => {
    const { ask } = balanced(redirect('r', [weighted('a', '1', 3), weighted('b', '2', 1)]));
    expect(Array.from({ length: 8 }, () => ask()[0])).toEqual(['a/1', 'a/1', 'b/2', 'a/1', 'a/1', 'a/1', 'b/2', 'a/1']);
  });

  test('skips unhealthy targets and tries them last', () => {
    const { ask } = balanced(redirect('r', ['a/1', 'b/2', 'c/3']), { down: ['b/2'] });
    expect([ask(), ask(), ask()]).toEqual([
      ['a/1', 'c/3', 'b/2'],
      ['c/3', 'a/1', 'b/2'],
      ['a/1', 'c/3', 'b/2'],
    ]);
  });

  test('continues in turn when no target is healthy', () => {
    const { ask } = balanced(redirect('r', ['a/1', 'b/2']), { down: ['a/1', 'b/2'] });
    expect([ask()[0], ask()[0]]).toEqual(['a/1', 'b/2']);
  });

  test('is counted for each virtual model separately', () => {
    const inner = redirect('inner', ['a/1', 'b/2']);
    const { ask } = balanced(redirect('outer', ['inner', 'c/3']), { others: [inner] });
    expect(shares(8, () => ask())).toEqual({ 'a/1': 2, 'b/2': 2, 'c/3': 4 });
  });

  test('comes to exactly the shares of the weights, in whatever order they stand', () => {
    const weights = fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 2, maxLength: 8 });
    fc.assert(
      fc.property(weights, fc.integer({ min: 1, max: 3 }), (all, rounds) => {
        const turns = new RoundRobin<number>();
        const among = all.map((weight, entry) => ({ entry, weight }));
        const total = all.reduce((sum, weight) => sum + weight, 0);
        const counts = all.map(() => 0);
        for (let turn = 0; turn < total * rounds; turn++) {
          const place = turns.next(among);
          counts[place] = (counts[place] ?? 0) + 1;
        }
        expect(counts).toEqual(all.map((weight) => weight * rounds));
      }),
    );
  });

  test('comes near to the shares with weights of any size', () => {
    const weights = fc.array(fc.double({ min: 0.01, max: 100, noNaN: true }), { minLength: 2, maxLength: 6 });
    fc.assert(
      fc.property(weights, (all) => {
        const turns = new RoundRobin<number>();
        const among = all.map((weight, entry) => ({ entry, weight }));
        const total = all.reduce((sum, weight) => sum + weight, 0);
        const counts = all.map(() => 0);
        for (let turn = 0; turn < 2000; turn++) {
          const place = turns.next(among);
          counts[place] = (counts[place] ?? 0) + 1;
        }
        for (const [place, weight] of all.entries()) {
          expect(Math.abs((counts[place] ?? 0) - (2000 * weight) / total)).toBeLessThan(all.length);
        }
      }),
    );
  });
});

describe('failover', () => {
  test('keeps the written order, and puts unhealthy targets last', () => {
    expect(balanced(redirect('f', ['a/1', 'b/2', 'c/3'], { strategy: 'failover' })).ask({ sessionId: 's' })).toEqual([
      'a/1',
      'b/2',
      'c/3',
    ]);
    const { ask } = balanced(redirect('f', ['a/1', 'b/2', 'c/3'], { strategy: 'failover' }), { down: ['a/1'] });
    expect([ask(), ask()]).toEqual([
      ['b/2', 'c/3', 'a/1'],
      ['b/2', 'c/3', 'a/1'],
    ]);
  });
});

describe('cost', () => {
  const prices: Record<string, number> = { 'a/1': 3, 'b/2': 1, 'd/4': 2 };
  const priceOf: PriceOf = (provider, model) => prices[`${provider}/${model}`];

  test('puts the cheapest target first, and targets without a price last', () => {
    const { ask } = balanced(redirect('c', ['a/1', 'b/2', 'c/3', 'd/4'], { strategy: 'cost' }), { priceOf });
    expect([ask(), ask({ sessionId: 's' })]).toEqual([
      ['b/2', 'd/4', 'a/1', 'c/3'],
      ['b/2', 'd/4', 'a/1', 'c/3'],
    ]);
  });

  test('keeps the written order where prices are equal or unknown', () => {
    const { ask } = balanced(redirect('c', ['x/1', 'y/1', 'z/1'], { strategy: 'cost' }), { priceOf });
    expect(ask()).toEqual(['x/1', 'y/1', 'z/1']);
  });

  test('puts the cheapest healthy target first', () => {
    const { ask } = balanced(redirect('c', ['a/1', 'b/2', 'd/4'], { strategy: 'cost' }), { priceOf, down: ['b/2'] });
    expect(ask()).toEqual(['d/4', 'a/1', 'b/2']);
  });
});

describe('adaptive', () => {
  const model = redirect('a', ['a/1', 'b/2', 'c/3'], { strategy: 'adaptive' });
  const observed = (latencies: Latencies, times: Record<string, number>) => {
    for (const [name, ms] of Object.entries(times)) {
      const [provider = '', served = ''] = name.split('/');
      latencies.observe(target(provider, served), 'whole', ms);
    }
  };

  test('takes turns while no latency is known', () => {
    const { ask } = balanced(model);
    expect([ask()[0], ask()[0], ask()[0]]).toEqual(['a/1', 'b/2', 'c/3']);
  });

  test('orders targets by latency', () => {
    const { ask, latencies } = balanced(model);
    observed(latencies, { 'a/1': 300, 'b/2': 100, 'c/3': 200 });
    expect(ask()).toEqual(['b/2', 'c/3', 'a/1']);
  });

  test('leaves a target that becomes slow, step by step', () => {
    const { ask, latencies } = balanced(model);
    observed(latencies, { 'a/1': 100, 'b/2': 150, 'c/3': 5000 });
    expect(ask()[0]).toBe('a/1');
    observed(latencies, { 'a/1': 400 });
    expect(ask()[0]).toBe('b/2');
    for (let n = 0; n < 5; n++) observed(latencies, { 'a/1': 100 });
    expect(ask()[0]).toBe('a/1');
  });

  test('counts streams apart from whole answers', () => {
    const { ask, latencies } = balanced(model);
    observed(latencies, { 'a/1': 5000, 'b/2': 9000, 'c/3': 9000 });
    latencies.observe(target('b', '2'), 'stream', 10);
    expect(ask({ kind: 'whole' })[0]).toBe('a/1');
    expect(ask({ kind: 'stream' })[0]).toBe('b/2');
  });

  test('now and then tries another target, first one without a latency', () => {
    const numbers = [0.05, 0.99, 0.5];
    const { ask, latencies } = balanced(model, { random: () => numbers.shift() ?? 0.5 });
    observed(latencies, { 'a/1': 100, 'b/2': 200 });
    expect(ask()[0]).toBe('c/3');
    expect(ask()[0]).toBe('a/1');
  });

  test('tries each target when all latencies are known', () => {
    let turn = 0;
    const { ask, latencies } = balanced(model, { random: () => (turn++ % 2 === 0 ? 0 : (turn % 6) / 6) });
    observed(latencies, { 'a/1': 100, 'b/2': 200, 'c/3': 300 });
    expect(Object.keys(shares(12, () => ask())).sort()).toEqual(['a/1', 'b/2', 'c/3']);
  });

  test('sends most requests to the quickest, and a few elsewhere', () => {
    let seed = 1;
    const random = () => {
      seed = (seed * 48271) % 2147483647;
      return seed / 2147483647;
    };
    const { ask, latencies } = balanced(model, { random });
    observed(latencies, { 'a/1': 900, 'b/2': 100, 'c/3': 800 });
    const counts = shares(2000, () => ask());
    expect(counts['b/2']).toBeGreaterThan(1780);
    expect(counts['a/1']).toBeGreaterThan(20);
    expect(counts['c/3']).toBeGreaterThan(20);
  });
});

describe('a session', () => {
  const sessions = Array.from({ length: 400 }, (_, n) => `session-${n}`);
  const model = redirect('s', [weighted('a', '1', 3), weighted('b', '2', 1)]);

  test('stays with its target, whatever strategy spreads the requests', () => {
    for (const strategy of ['round_robin', 'adaptive'] as const) {
      const { ask } = balanced({ ...model, strategy });
      for (const sessionId of sessions.slice(0, 50)) {
        expect(new Set([ask({ sessionId })[0], ask({ sessionId })[0], ask({ sessionId })[0]]).size).toBe(1);
      }
    }
  });

  test('is placed by weight', () => {
    const { ask } = balanced(model);
    const counts = shares(sessions.length, (turn) => ask({ sessionId: sessions[turn] }));
    expect(counts['a/1']).toBeGreaterThan(260);
    expect(counts['b/2']).toBeGreaterThan(60);
  });

  test('goes elsewhere while its target is unhealthy, and comes back', () => {
    const down: string[] = [];
    const { ask } = balanced(model, { down });
    const before = sessions.map((sessionId) => ask({ sessionId })[0]);
    down.push('a/1');
    expect(new Set(sessions.map((sessionId) => ask({ sessionId })[0]))).toEqual(new Set(['b/2']));
    down.pop();
    expect(sessions.map((sessionId) => ask({ sessionId })[0])).toEqual(before);
  });

  test('moves only when its own target goes, whatever happens to the others', () => {
    const places = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 8 }), { minLength: 2, maxLength: 8 });
    fc.assert(
      fc.property(places, fc.nat(), fc.string(), (keys, gone, session) => {
        const all = keys.map((key) => ({ key, weight: 1 }));
        const chosen = all[placeOf(session, all)]?.key;
        const reversed = [...all].reverse();
        expect(reversed[placeOf(session, reversed)]?.key).toBe(chosen);
        const left = all.filter((_, place) => place !== gone % all.length);
        const then = left[placeOf(session, left)]?.key;
        if (left.some(({ key }) => key === chosen)) expect(then).toBe(chosen);
      }),
    );
  });

  test('has no effect where affinity is switched off', () => {
    const { ask } = balanced({ ...redirect('s', ['a/1', 'b/2']), sessionAffinity: false });
    expect(shares(10, () => ask({ sessionId: 'same' }))).toEqual({ 'a/1': 5, 'b/2': 5 });
  });
});
