import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { RecordedEvent } from '../../src/events/event.ts';
import { defaultAnchors, periodAt, readCounter } from '../../src/projections/budgets.ts';
import { limitKey } from '../../src/projections/limits.ts';
import { fold } from '../../src/projections/projection.ts';
import { countersOn, countersUnder, type SpendState, spendView } from '../../src/projections/spend.ts';
import { anchored, budget, budgetGone, corrected, DAY_MS, forgiven, HOUR_MS, MONDAY, used } from './history.ts';

const NOON = MONDAY + 12 * HOUR_MS;

/** The spend of a budget at a moment. */
function spent(
  events: readonly RecordedEvent[],
  now: number,
  which: { subject?: string; scope?: 'user_path' | 'label'; periodSeconds?: number } = {},
) {
  const state = fold(spendView, events);
  const { subject = '/', scope = 'user_path', periodSeconds = 86_400 } = which;
  const counter = state.counters.get(limitKey({ scope, subject, periodSeconds }));
  if (counter === undefined) return undefined;
  const { spent: nano, hasUsage, start, end } = readCounter(counter, state.budgets.settings, now);
  return { nano, hasUsage, start, end };
}

describe('the spend of a budget', () => {
  test('is the usage at its path and below it, in its period', () => {
    const events = [
      budget(NOON, 100, { subject: '/team' }),
      used(NOON + 1, { cost: 1, userPath: '/team' }),
      used(NOON + 2, { cost: 10, userPath: '/team/alpha/x' }),
      used(NOON + 3, { cost: 100, userPath: '/team-alpha' }),
      used(NOON + 4, { cost: 1000, userPath: '/' }),
      used(NOON + 5, { cost: 10_000 }),
    ];
    expect(spent(events, NOON + 6, { subject: '/team' })).toMatchObject({ nano: 11, hasUsage: true });
  });

  test('at the root is everything, also usage without a path', () => {
    const events = [budget(NOON, 100), used(NOON, { cost: 1 }), used(NOON, { cost: 2, userPath: '/a' })];
    expect(spent(events, NOON)).toMatchObject({ nano: 3 });
  });

  test('of a label is the usage under it, once, wherever', () => {
    const label = { scope: 'label', subject: 'batch' } as const;
    const events = [
      budget(NOON, 100, label),
      used(NOON, { cost: 1, userPath: '/a', labels: ['batch', 'x'] }),
      used(NOON, { cost: 2, labels: ['Batch'] }),
      used(NOON, { cost: 4, labels: ['batch'] }),
    ];
    expect(spent(events, NOON, label)).toMatchObject({ nano: 5 });
  });

  test('begins anew with the next period, also without usage in it', () => {
    const events = [budget(NOON, 100), used(NOON, { cost: 5 })];
    expect(spent(events, MONDAY + DAY_MS - 1)).toMatchObject({ nano: 5 });
    expect(spent(events, MONDAY + DAY_MS)).toEqual({
      nano: 0,
      hasUsage: false,
      start: MONDAY + DAY_MS,
      end: MONDAY + 2 * DAY_MS,
    });
    expect(spent([...events, used(MONDAY + DAY_MS, { cost: 7 })], MONDAY + DAY_MS)).toMatchObject({ nano: 7 });
  });

  test('leaves out cached answers, and usage without a known price', () => {
    const events = [budget(NOON, 100), used(NOON, { cost: 5, cached: true }), used(NOON, { cost: null })];
    expect(spent(events, NOON)).toMatchObject({ nano: 0, hasUsage: false });
    expect(spent([...events, used(NOON, { cost: 0 })], NOON)).toMatchObject({ nano: 0, hasUsage: true });
  });

  test('is cleared by a reset, and the end of the period does not change', () => {
    const events = [budget(NOON, 100), used(NOON, { cost: 5 }), forgiven(NOON + 10)];
    expect(spent(events, NOON + 10)).toEqual({
      nano: 0,
      hasUsage: false,
      start: NOON + 10,
      end: MONDAY + DAY_MS,
    });
    // Noted before the reset, and recorded after it.
    expect(spent([...events, used(NOON + 9, { cost: 3 })], NOON + 11)).toMatchObject({ nano: 0 });
    expect(spent([...events, used(NOON + 11, { cost: 3 })], NOON + 11)).toMatchObject({ nano: 3 });
  });

  test('stays when the amount is changed', () => {
    const events = [budget(NOON, 100), used(NOON, { cost: 5 }), budget(NOON + 1, 200)];
    expect(spent(events, NOON + 1)).toMatchObject({ nano: 5 });
    expect(
      fold(spendView, events).counters.get(limitKey({ scope: 'user_path', subject: '/', periodSeconds: 86_400 }))
        ?.amount,
    ).toBe(200);
  });

  test('is undefined when the budget is removed', () => {
    const events = [budget(NOON, 100), used(NOON, { cost: 5 }), budgetGone(NOON)];
    expect(spent(events, NOON)).toBeUndefined();
    expect(countersOn(fold(spendView, events), '/')).toEqual([]);
  });

  test('is corrected when recorded costs are recalculated', () => {
    const events = [budget(NOON, 100), used(NOON, { cost: 5 }), used(NOON + 1, { cost: null })];
    const cheaper = corrected(NOON + 2, { usedAt: NOON, from: 5, to: 2 });
    const known = corrected(NOON + 3, { usedAt: NOON + 1, from: null, to: 7 });
    expect(spent([...events, cheaper], NOON + 3)).toMatchObject({ nano: 2 });
    expect(spent([...events, cheaper, known], NOON + 3)).toMatchObject({ nano: 9 });
  });

  test('is not changed by corrections of an earlier period', () => {
    const events = [
      budget(NOON, 100),
      used(NOON, { cost: 5 }),
      used(NOON + DAY_MS, { cost: 3 }),
      corrected(NOON + DAY_MS + 1, { usedAt: NOON, from: 5, to: 500 }),
    ];
    expect(spent(events, NOON + DAY_MS + 1)).toMatchObject({ nano: 3 });
  });
});

describe('when the clock is set back', () => {
  const days = (count: number) => NOON + count * DAY_MS;
  const wrong = [budget(NOON, 100), used(NOON, { cost: 5 }), used(days(400), { cost: 20 })];

  test('usage still counts, and the spend is kept until the current period ends', () => {
    expect(spent(wrong, days(1))).toMatchObject({ nano: 20, start: MONDAY + DAY_MS, end: MONDAY + 2 * DAY_MS });
    const events = [...wrong, used(days(1), { cost: 30 }), used(days(1) + 1, { cost: 1 })];
    expect(spent(events, days(1) + 2)).toMatchObject({ nano: 51, end: MONDAY + 2 * DAY_MS });
    expect(spent(events, days(2))).toMatchObject({ nano: 0 });
    expect(spent([...events, used(days(2), { cost: 3 })], days(2))).toMatchObject({ nano: 3 });
  });

  test('a reset made meanwhile does not clear later usage', () => {
    const events = [...wrong, forgiven(days(400) + 1), used(days(1), { cost: 30 })];
    expect(spent(events, days(1) + 1)).toMatchObject({ nano: 30, end: MONDAY + 2 * DAY_MS });
  });

  test('a budget made later includes earlier usage', () => {
    const events = [...wrong, used(days(2), { cost: 30, userPath: '/a' }), budget(days(2) + 1, 100, { subject: '/a' })];
    expect(spent(events, days(2) + 2, { subject: '/a' })).toMatchObject({ nano: 30 });
  });

  test('and forward again, a period keeps what was spent in it, also in a snapshot', () => {
    const evening = MONDAY + DAY_MS - 2 * HOUR_MS;
    const events = [
      budget(NOON, 100),
      used(NOON, { cost: 5 }),
      used(NOON - DAY_MS, { cost: 7 }),
      used(evening, { cost: 11 }),
    ];
    expect(spent(events.slice(0, 3), NOON - DAY_MS)).toMatchObject({ nano: 12, end: MONDAY });
    expect(spent(events.slice(0, 3), MONDAY + 1)).toMatchObject({ nano: 12, end: MONDAY + DAY_MS });
    expect(spent(events, evening)).toMatchObject({ nano: 23, end: MONDAY + DAY_MS });
    expect(spent(events, MONDAY + DAY_MS)).toMatchObject({ nano: 0 });
    const saved = spendView.save?.(fold(spendView, events.slice(0, 3)));
    const loaded = spendView.load?.(structuredClone(saved));
    expect(loaded && spendView.save?.(loaded)).toEqual(saved);
    const counter = loaded?.counters.get(limitKey({ scope: 'user_path', subject: '/', periodSeconds: 86_400 }));
    expect(counter && readCounter(counter, defaultAnchors, MONDAY + 1).spent).toBe(12);
  });

  test('by a moment, nothing changes: events are noted at one time and recorded at another', () => {
    const midnight = MONDAY + DAY_MS;
    const events = [budget(NOON, 100), used(midnight + 1, { cost: 5 }), used(midnight - 1, { cost: 7 })];
    expect(spent(events, midnight + 2)).toMatchObject({ nano: 5 });
  });
});

describe('a budget that is made in the middle of a period', () => {
  const before = [
    used(MONDAY - DAY_MS, { cost: 1, userPath: '/a' }),
    used(MONDAY + HOUR_MS, { cost: 10, userPath: '/a/b' }),
    used(NOON - 1, { cost: 100, userPath: '/c' }),
    used(NOON, { cost: 1000, userPath: '/a', labels: ['l'] }),
  ];

  test.each([
    ['daily', { subject: '/a' }, 1010],
    ['of the root', {}, 1110],
    ['hourly', { subject: '/', periodSeconds: 3600 }, 1000],
    ['weekly', { subject: '/a', periodSeconds: 604_800 }, 1010],
    ['monthly', { subject: '/a', periodSeconds: 2_592_000 }, 1011],
    ['of a label', { scope: 'label', subject: 'l' } as const, 1000],
    ['where nothing was used', { subject: '/d' }, 0],
  ])('includes the earlier usage of the period: %s', (_name, which, nano) => {
    expect(spent([...before, budget(NOON + 1, 5000, which)], NOON + 1, which)).toMatchObject({
      nano,
      hasUsage: nano > 0,
    });
  });

  test('includes the whole month, also when it is long and its days are kept as days', () => {
    const days = Array.from({ length: 31 }, (_, day) => {
      return used(Date.parse('2026-03-01T13:00:00Z') + day * DAY_MS, { cost: 10 ** (day % 3) });
    });
    const last = Date.parse('2026-03-31T23:00:00Z');
    const expected = days.reduce((sum, _, day) => sum + 10 ** (day % 3), 0);
    const monthly = { periodSeconds: 2_592_000 };
    expect(spent([...days, budget(last, 5000, monthly)], last, monthly)).toMatchObject({ nano: expected });
  });

  test('is exact to an hour when its period begins within one: too much rather than too little', () => {
    const nine = MONDAY + 9 * HOUR_MS;
    const events = [
      anchored(MONDAY, { dailyResetHour: 9, dailyResetMinute: 30 }),
      used(nine + 1, { cost: 1 }),
      used(nine + HOUR_MS / 2, { cost: 10 }),
      budget(NOON, 100),
    ];
    expect(spent(events, NOON)).toMatchObject({ nano: 11, start: nine + HOUR_MS / 2 });
  });
});

describe('when periods are made to begin at another time', () => {
  test('the spend is counted from there', () => {
    const events = [
      budget(MONDAY, 100),
      used(MONDAY + HOUR_MS, { cost: 1 }),
      used(MONDAY + 7 * HOUR_MS, { cost: 10 }),
      anchored(NOON, { dailyResetHour: 6 }),
    ];
    expect(spent(events, NOON)).toMatchObject({ nano: 10, start: MONDAY + 6 * HOUR_MS, end: MONDAY + 30 * HOUR_MS });
  });

  test('a reset in the current period still applies', () => {
    const events = [
      budget(MONDAY, 100),
      used(MONDAY + 7 * HOUR_MS, { cost: 10 }),
      forgiven(MONDAY + 8 * HOUR_MS),
      used(MONDAY + 9 * HOUR_MS, { cost: 3 }),
      anchored(NOON, { dailyResetHour: 6 }),
    ];
    expect(spent(events, NOON)).toMatchObject({ nano: 3, start: MONDAY + 8 * HOUR_MS });
  });
});

const paths = fc.constantFrom(undefined, '/', '/a', '/a/b', '/a/b/c', '/b', '/ab');
const subjects = fc.oneof(
  fc.record({ scope: fc.constant('user_path' as const), subject: fc.constantFrom('/', '/a', '/a/b', '/b') }),
  fc.record({ scope: fc.constant('label' as const), subject: fc.constantFrom('x', 'y') }),
);
const which = fc
  .tuple(subjects, fc.constantFrom(90, 3600, 86_400, 604_800, 2_592_000))
  .map(([of, periodSeconds]) => ({ ...of, periodSeconds }));
const cost = fc.option(fc.nat(1e12));
type Step = (ms: number) => RecordedEvent;
const usage: fc.Arbitrary<Step> = fc
  .record({ cost, userPath: paths, labels: fc.option(fc.subarray(['x', 'y']), { nil: undefined }) })
  .map((spending) => (ms) => used(ms, spending));
const step: fc.Arbitrary<Step> = fc.oneof(
  { arbitrary: usage, weight: 4 },
  fc.tuple(which, fc.integer({ min: 1, max: 1e12 })).map(
    ([one, amount]) =>
      (ms: number) =>
        budget(ms, amount, one),
  ),
  which.map((one) => (ms: number) => budgetGone(ms, one)),
  which.map((one) => (ms: number) => forgiven(ms, one)),
  fc.integer({ min: 0, max: 23 }).map((dailyResetHour) => (ms: number) => anchored(ms, { dailyResetHour })),
  fc.tuple(cost, cost, fc.nat(40 * DAY_MS)).map(
    ([from, to, ago]) =>
      (ms: number) =>
        corrected(ms, { usedAt: ms - ago, from, to }),
  ),
);
/** Steps, with pauses of up to three days between them. */
const historyOf = (one: fc.Arbitrary<Step>) =>
  fc.array(fc.tuple(one, fc.oneof(fc.nat(1000), fc.nat(3 * DAY_MS))), { maxLength: 60 }).map((steps) => {
    let now = MONDAY;
    return steps.map(([event, pause]) => {
      now += pause;
      return event(now);
    });
  });

const facts = (state: SpendState) => spendView.save?.(state);

describe('any history', () => {
  test('folds to the same state from the beginning and from a snapshot taken anywhere', () => {
    fc.assert(
      fc.property(historyOf(step), fc.nat(60), (events, cut) => {
        const whole = fold(spendView, events);
        const half = structuredClone(facts(fold(spendView, events.slice(0, cut))));
        const loaded = spendView.load?.(half) ?? spendView.initial();
        expect(facts(fold(spendView, events.slice(cut), loaded))).toEqual(facts(whole));
      }),
    );
  });

  test('never has a negative spend, nor buckets without end', () => {
    fc.assert(
      fc.property(historyOf(step), (events) => {
        const { counters, paths: accounts } = fold(spendView, events);
        for (const counter of counters.values()) expect(counter.spent).toBeGreaterThanOrEqual(0);
        for (const buckets of accounts.values()) {
          expect(buckets.length).toBeLessThanOrEqual(2 * (48 + 35));
          expect(buckets.every((value) => value >= 0)).toBe(true);
        }
      }),
    );
  });

  test('has the usage of the period at the path and below it', () => {
    fc.assert(
      fc.property(historyOf(usage), which, (events, one) => {
        const all = [budget(MONDAY, 1, one), ...events];
        const now = all.at(-1)?.at ?? MONDAY;
        const state = fold(spendView, all);
        const { start, end } = periodAt(one.periodSeconds, state.budgets.settings, now);
        const expected = events
          .filter(({ at }) => at >= start && at < end)
          .filter(({ context, data }) => {
            const { labels = [] } = data as { labels?: string[] };
            if (one.scope === 'label') return labels.includes(one.subject);
            const path = context.userPath ?? '/';
            return one.subject === '/' || path === one.subject || path.startsWith(`${one.subject}/`);
          })
          .reduce((sum, { data }) => sum + Number((data as { totalCost: string | null }).totalCost ?? 0), 0);
        expect(spent(all, now, one)?.nano).toBe(expected);
        // A budget made only now includes it too, where its period begins on the hour.
        if (one.periodSeconds !== 90) {
          expect(spent([...events, budget(now, 1, one)], now, one)?.nano).toBe(expected);
        }
      }),
    );
  });
});

test('spending of more paths than are kept counts at the nearest kept path above; more labels are not kept', () => {
  const first = [used(NOON, { cost: 1 }), used(NOON, { cost: 2, userPath: '/team' })];
  const many = Array.from({ length: 20_000 }, (_, n) => used(NOON, { cost: 1, userPath: `/p${n}`, labels: [`l${n}`] }));
  const beyond = used(NOON, { cost: 70, userPath: '/team/new/x', labels: ['new'] });
  const state = fold(spendView, [...first, ...many, beyond]);
  expect([state.paths.size, state.labels.size]).toEqual([20_000, 20_000]);
  expect([state.paths.get('/team')?.[1], state.paths.has('/team/new/x'), state.labels.has('new')]).toEqual([
    72,
    false,
    false,
  ]);
  // Two of the many paths came too late and are counted at the root.
  expect(state.paths.get('/')?.[1]).toBe(3);
});

test('the counters of a path are its own and those of the paths above it, root first', () => {
  const state = fold(spendView, [
    budget(NOON, 1, { subject: '/a' }),
    budget(NOON, 2),
    budget(NOON, 3, { subject: '/a/b' }),
    budget(NOON, 4, { subject: '/b' }),
    budget(NOON, 5, { scope: 'label', subject: 'x' }),
  ]);
  expect(countersOn(state, '/a/b/c').map(({ subject }) => subject)).toEqual(['/', '/a', '/a/b']);
  expect(countersOn(state, '/ab').map(({ subject }) => subject)).toEqual(['/']);
  expect(countersUnder(state, 'x').map(({ amount }) => amount)).toEqual([5]);
  expect(countersUnder(state, 'y')).toEqual([]);
});
