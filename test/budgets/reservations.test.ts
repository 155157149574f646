/** Reservations on a log that several gateways use. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RecordedEvent } from '../../src/events/event.ts';
import { reservedFor, type SharedSpendState, sharedSpendView } from '../../src/projections/budget-reservations.ts';
import { fold } from '../../src/projections/projection.ts';
import { countOf } from '../support/seed.ts';
import { budget, forgiven, HOUR_MS, MONDAY, used } from './history.ts';
import { deferred, ended, hourly, interrupted, reserved, settled } from './reserved-history.ts';
import { accounts, Simulation } from './simulated-gateways.ts';

const open = (state: SharedSpendState) => [...state.open].map(([stream, { amount }]) => [stream, amount]);

describe('a reservation', () => {
  it('counts from its place in the log, and one that does not fit counts nothing', () => {
    const state = fold(sharedSpendView, [
      budget(MONDAY, 100, hourly),
      reserved(MONDAY, 'a', 60, { userPath: '/x' }),
      reserved(MONDAY, 'b', 41, { userPath: '/y' }),
      reserved(MONDAY, 'c', 40, { userPath: '/y' }),
    ]);
    expect(open(state)).toEqual([
      ['exchange-a', 60],
      ['exchange-c', 40],
    ]);
    expect(reservedFor(state, 'user_path', '/y')).toBe(40);
    expect(reservedFor(state, 'user_path', '/')).toBe(100);
  });

  it('names the budget that has no room', () => {
    const state = fold(sharedSpendView, [
      budget(MONDAY, 100, hourly),
      budget(MONDAY, 30, { scope: 'label', subject: 'jobs' }),
      used(MONDAY, { cost: 5, labels: ['jobs'] }),
      reserved(MONDAY, 'a', 26, { userPath: '/', labels: ['jobs'] }),
    ]);
    expect(state.refused).toMatchObject({ counter: { subject: 'jobs' }, spent: 5, reserved: 0 });
    expect(open(state)).toEqual([]);
  });

  it('without a bound leaves a tenth of each budget', () => {
    const events = [budget(MONDAY, 100, hourly), reserved(MONDAY, 'a', 60, { userPath: '/' })];
    const decide = (amount: number) =>
      fold(sharedSpendView, [...events, reserved(MONDAY, 'b', amount, { userPath: '/' }, false)]).refused;
    expect(decide(30)).toBeUndefined();
    expect(decide(31)).toBeDefined();
  });

  it('replaces the one before of its exchange, which stays when the new one does not fit', () => {
    const state = fold(sharedSpendView, [
      budget(MONDAY, 100, hourly),
      reserved(MONDAY, 'a', 60, { userPath: '/' }),
      reserved(MONDAY, 'a', 100, { userPath: '/' }),
    ]);
    expect(open(state)).toEqual([['exchange-a', 100]]);
    expect(open(fold(sharedSpendView, [reserved(MONDAY, 'a', 101, { userPath: '/' })], state))).toEqual([
      ['exchange-a', 100],
    ]);
  });

  it('is replaced by usage, and released by the end of its exchange', () => {
    const state = fold(sharedSpendView, [
      budget(MONDAY, 100, hourly),
      reserved(MONDAY, 'a', 60, { userPath: '/' }),
      used(MONDAY, { cost: 25, exchange: 'a' }),
    ]);
    expect(open(state)).toEqual([['exchange-a', 35]]);
    fold(sharedSpendView, [ended(MONDAY, 'a'), used(MONDAY, { cost: 10, exchange: 'a' })], state);
    expect(open(state)).toEqual([]);
    expect(state.reserved.size).toBe(0);
    expect([...state.spend.counters.values()].map(({ spent }) => spent)).toEqual([35]);
  });

  it('counts as spent when another gateway ends the exchange, as far as the usage is not known', () => {
    const spentAfter = (...usage: RecordedEvent[]) => {
      const begin = [budget(MONDAY, 100, hourly), reserved(MONDAY, 'a', 60, { userPath: '/', labels: ['l'] })];
      const state = fold(sharedSpendView, [...begin, ended(MONDAY, 'a', interrupted), ...usage]);
      expect(open(state)).toEqual([]);
      return [...state.spend.counters.values()].map(({ spent }) => spent);
    };
    const usage = (cost: number | null, isEstimated: boolean) => {
      const event = used(MONDAY, { cost, exchange: 'a' });
      return isEstimated ? { ...event, data: { ...Object(event.data), estimated: true } } : event;
    };
    expect(spentAfter()).toEqual([60]);
    expect(spentAfter(usage(25, true))).toEqual([25]);
    expect(spentAfter(usage(null, false))).toEqual([60]);
    expect(spentAfter(usage(25, false))).toEqual([25]);
    expect(spentAfter(used(MONDAY, { cost: 25, exchange: 'b' }))).toEqual([85]);
    const state = fold(sharedSpendView, [
      ...[budget(MONDAY, 100, hourly), reserved(MONDAY, 'a', 60, { userPath: '/' })],
      ...[ended(MONDAY, 'a', interrupted), deferred(MONDAY, 'a', null, { userPath: '/' })],
    ]);
    expect(open(state)).toEqual([['exchange-a', 60]]);
    expect([...state.spend.counters.values()].map(({ spent }) => spent)).toEqual([0]);
  });

  it('is kept through a new period and a reset', () => {
    const state = fold(sharedSpendView, [
      budget(MONDAY, 100, hourly),
      reserved(MONDAY, 'a', 60, { userPath: '/' }),
      forgiven(MONDAY + 1, hourly),
      reserved(MONDAY + 2, 'b', 41, { userPath: '/' }),
    ]);
    expect(open(state)).toEqual([['exchange-a', 60]]);
    fold(sharedSpendView, [reserved(MONDAY + HOUR_MS, 'c', 41, { userPath: '/' })], state);
    expect(open(state)).toEqual([['exchange-a', 60]]);
    fold(sharedSpendView, [reserved(MONDAY + HOUR_MS, 'c', 40, { userPath: '/' })], state);
    expect(open(state)).toHaveLength(2);
  });

  it('counts in a budget that is created later', () => {
    const state = fold(sharedSpendView, [
      budget(MONDAY, 1000, { subject: '/other' }),
      reserved(MONDAY, 'a', 60, { userPath: '/team/x' }),
      budget(MONDAY, 100, { subject: '/team' }),
      reserved(MONDAY, 'b', 50, { userPath: '/team/y' }),
    ]);
    expect(open(state)).toEqual([['exchange-a', 60]]);
  });

  it('of deferred work is kept after the exchange until the work is settled, whoever closes the exchange', () => {
    const begin = [budget(MONDAY, 100, hourly), reserved(MONDAY, 'a', 60, { userPath: '/', labels: ['l'] })];
    for (const reservedCost of ['60', null]) {
      const end = [ended(MONDAY, 'a'), deferred(MONDAY, 'a', reservedCost, { userPath: '/', labels: ['l'] })];
      const state = fold(sharedSpendView, [...begin, ...end]);
      expect(open(state)).toEqual([['exchange-a', 60]]);
      expect(reservedFor(state, 'label', 'l')).toBe(60);
      fold(sharedSpendView, [used(MONDAY, { cost: 7, exchange: 'a' }), settled(MONDAY, 'a')], state);
      expect(open(state)).toEqual([]);
      expect(state.reserved.size).toBe(0);
    }
  });
});

const share = fc.double({ min: 0, max: 1, noNaN: true });
const gateway = fc.nat(2);
const kinds = {
  request: {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('request' as const),
      gateway,
      account: fc.nat(3),
      bound: fc.integer({ min: 1, max: 40 }),
    }),
  },
  append: { weight: 6, arbitrary: fc.record({ kind: fc.constant('append' as const), gateway }) },
  read: {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('read' as const), gateway, count: fc.integer({ min: 1, max: 20 }) }),
  },
  decide: { weight: 6, arbitrary: fc.record({ kind: fc.constant('decide' as const), gateway }) },
  retry: { weight: 2, arbitrary: fc.record({ kind: fc.constant('retry' as const), gateway, share }) },
  finish: {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('finish' as const), gateway, share, defers: fc.boolean() }),
  },
  crash: {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('crash' as const), gateway, share, keepsSnapshot: fc.boolean() }),
  },
  takeOver: { weight: 1, arbitrary: fc.record({ kind: fc.constant('takeOver' as const) }) },
  settle: { weight: 1, arbitrary: fc.record({ kind: fc.constant('settle' as const) }) },
  pass: {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: HOUR_MS / 2 }) }),
  },
};
const step = fc.oneof(
  kinds.request,
  kinds.append,
  kinds.read,
  kinds.decide,
  kinds.retry,
  kinds.finish,
  kinds.crash,
  kinds.takeOver,
  kinds.settle,
  kinds.pass,
);
type Step = typeof step extends fc.Arbitrary<infer One> ? One : never;

async function run(simulation: Simulation, one: Step): Promise<void> {
  if (one.kind === 'takeOver') return simulation.takeOver();
  if (one.kind === 'settle') return simulation.settle();
  if (one.kind === 'pass') {
    simulation.now += one.ms;
    return;
  }
  if (one.kind === 'crash') return simulation.crash(one.gateway, one.share, one.keepsSnapshot);
  const of = simulation.gateways[one.gateway];
  if (of === undefined) throw new Error('there are three gateways');
  switch (one.kind) {
    case 'request':
      return simulation.request(of, accounts[one.account] ?? { userPath: '/' }, one.bound);
    case 'append':
      return simulation.append(of);
    case 'read':
      return simulation.read(of, one.count);
    case 'decide':
      return simulation.decide(of);
    case 'retry':
      return simulation.retry(of, one.share);
    case 'finish':
      return simulation.finish(of, one.share, one.defers);
  }
}

describe('three gateways on one log', () => {
  it('never reserve and spend more than a budget has, in any order of events, and have the same state', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 30, maxLength: 200, size: 'max' }), async (steps) => {
        const simulation = new Simulation(3);
        for (const one of steps) await run(simulation, one);
        const whole = sharedSpendView.save?.(simulation.whole);
        for (const one of simulation.gateways) {
          simulation.read(one, simulation.log.length);
          expect(sharedSpendView.save?.(one.state)).toEqual(whole);
        }
      }),
      { numRuns: countOf(50, 200) },
    );
  });
});
