import { describe, expect, test } from 'vitest';
import { highest } from '../../src/commands/access/authority.ts';
import {
  type BudgetCommand,
  budgetDecider,
  budgetKind,
  budgetSettingsDecider,
  nanoOf,
  usdOf,
} from '../../src/commands/limits/budget.ts';
import { type RateLimitCommand, rateLimitDecider, rateLimitKind } from '../../src/commands/limits/rate-limit.ts';
import {
  budgetRemoved,
  budgetReset,
  budgetSet,
  budgetSettingsChanged,
  rateLimitRemoved,
  rateLimitReset,
  rateLimitSet,
} from '../../src/events/catalogue/budget.ts';
import type { EventContext } from '../../src/events/event.ts';
import { defaultAnchors } from '../../src/projections/budgets.ts';
import { specify } from '../support/decider-spec.ts';

const context = { actor: 'master' } as const;
const authority = highest;

describe('a budget', () => {
  const of = { scope: 'user_path', subject: '/team' } as const;
  const daily = { ...of, periodSeconds: 86_400 };
  const spec = specify(budgetDecider);
  const isSet = (amount: string, source: 'manual' | 'config' = 'manual') =>
    budgetSet.create({ ...daily, amount, source }, context);
  const set = (amount: number): BudgetCommand => ({
    do: 'set',
    of,
    periodSeconds: 86_400,
    value: { amount: String(amount) },
    context,
    authority,
  });
  const remove: BudgetCommand = { do: 'remove', of, periodSeconds: 86_400, context, authority };
  const reset: BudgetCommand = { do: 'reset', of, periodSeconds: 86_400, context, authority };
  const declare = (...amounts: number[]): BudgetCommand => ({
    do: 'declare',
    of,
    limits: amounts.map((amount) => ({ periodSeconds: 86_400, value: { amount: String(amount) } })),
    context,
  });

  test('is made', () =>
    spec
      .given()
      .when(set(10))
      .then([isSet('10')]));
  test('is changed', () =>
    spec
      .given(isSet('10'))
      .when(set(20))
      .then([isSet('20')]));
  test('gives no event when nothing changes', () => spec.given(isSet('10')).when(set(10)).then([]));
  test('of another period is another budget', () => {
    const weekly = { ...of, periodSeconds: 604_800 };
    spec
      .given(isSet('10'))
      .when({ do: 'set', of, periodSeconds: 604_800, value: { amount: '10' }, context, authority })
      .then([budgetSet.create({ ...weekly, amount: '10', source: 'manual' }, context)]);
  });
  test('is removed', () =>
    spec
      .given(isSet('10'))
      .when(remove)
      .then([budgetRemoved.create(daily, context)]));
  test('that does not exist is not removed', () => spec.given().when(remove).then('budget_not_found'));
  test('that was removed is made again', () =>
    spec
      .given(isSet('10'), budgetRemoved.create(daily, context))
      .when(set(10))
      .then([isSet('10')]));
  test('is reset, as often as requested', () =>
    spec
      .given(isSet('10'), budgetReset.create(daily, context))
      .when(reset)
      .then([budgetReset.create(daily, context)]));
  test('that does not exist is not reset', () => spec.given().when(reset).then('budget_not_found'));

  test('that is declared is made', () =>
    spec
      .given()
      .when(declare(10))
      .then([isSet('10', 'config')]));
  test('that is declared replaces one that was made by hand', () =>
    spec
      .given(isSet('10'))
      .when(declare(10))
      .then([isSet('10', 'config')]));
  test('that is declared unchanged gives no event', () => spec.given(isSet('10', 'config')).when(declare(10)).then([]));
  test('that is declared is not changed by hand', () =>
    spec.given(isSet('10', 'config')).when(set(20)).then({ code: 'budget_managed', status: 409 }));
  test('that is declared is not removed by hand', () =>
    spec.given(isSet('10', 'config')).when(remove).then('budget_managed'));
  test('that is declared can be reset', () =>
    spec
      .given(isSet('10', 'config'))
      .when(reset)
      .then([budgetReset.create(daily, context)]));
  test('that is no longer declared is removed', () =>
    spec
      .given(isSet('10', 'config'))
      .when(declare())
      .then([budgetRemoved.create(daily, context)]));
  test('that was made by hand stays when nothing is declared', () => spec.given(isSet('10')).when(declare()).then([]));

  test('is on the stream of its subject', () => {
    expect(budgetKind.streamOf(of)).toBe('budget-/team');
    expect(budgetKind.streamOf({ scope: 'label', subject: 'batch' })).toBe('budget-label:batch');
  });
});

describe('the settings of budgets', () => {
  const spec = specify(budgetSettingsDecider(defaultAnchors));
  const changed = budgetSettingsChanged.create({ ...defaultAnchors, dailyResetHour: 6 }, context);

  test('are changed as a whole', () =>
    spec
      .given()
      .when({ changes: { dailyResetHour: 6 }, context })
      .then([changed]));
  test('keep members that are not named', () =>
    spec
      .given(changed)
      .when({ changes: { monthlyResetDay: 31 }, context })
      .then([budgetSettingsChanged.create({ ...defaultAnchors, dailyResetHour: 6, monthlyResetDay: 31 }, context)]));
  test('give no event when nothing changes', () =>
    spec
      .given(changed)
      .when({ changes: { dailyResetHour: 6, dailyResetMinute: undefined }, context })
      .then([]));
});

describe('a rate limit', () => {
  const of = { scope: 'provider', subject: 'openai' } as const;
  const minute = { ...of, periodSeconds: 60 };
  const spec = specify(rateLimitDecider);
  const isSet = (maxRequests: number | null, maxTokens: number | null = null, source: 'manual' | 'config' = 'manual') =>
    rateLimitSet.create({ ...minute, maxRequests, maxTokens, source }, context);
  const set = (maxRequests: number | null, maxTokens: number | null = null): RateLimitCommand => ({
    do: 'set',
    of,
    periodSeconds: 60,
    value: { maxRequests, maxTokens },
    context,
    authority,
  });
  const remove: RateLimitCommand = { do: 'remove', of, periodSeconds: 60, context, authority };
  const reset: RateLimitCommand = { do: 'reset', of, periodSeconds: 60, context, authority };

  test('is made', () =>
    spec
      .given()
      .when(set(10))
      .then([isSet(10)]));
  test('is replaced as a whole', () =>
    spec
      .given(isSet(10))
      .when(set(null, 500))
      .then([isSet(null, 500)]));
  test('gives no event when nothing changes', () => spec.given(isSet(10, 5)).when(set(10, 5)).then([]));
  test('is removed', () =>
    spec
      .given(isSet(10))
      .when(remove)
      .then([rateLimitRemoved.create(minute, context)]));
  test('that does not exist is not removed', () => spec.given().when(remove).then('rate_limit_not_found'));
  test('is reset', () =>
    spec
      .given(isSet(10))
      .when(reset)
      .then([rateLimitReset.create(minute, context)]));
  test('that does not exist is not reset', () => spec.given().when(reset).then('rate_limit_not_found'));
  test('that is declared is not changed by hand', () =>
    spec
      .given(isSet(10, null, 'config'))
      .when(set(20))
      .then({ code: 'rate_limit_managed', status: 409 }));
  test('that is declared otherwise is changed', () =>
    spec
      .given(isSet(10, null, 'config'))
      .when({
        do: 'declare',
        of,
        limits: [{ periodSeconds: 60, value: { maxRequests: 20, maxTokens: null } }],
        context,
      })
      .then([isSet(20, null, 'config')]));
  test('that is no longer declared is removed', () =>
    spec
      .given(isSet(10, null, 'config'))
      .when({ do: 'declare', of, limits: [], context })
      .then([rateLimitRemoved.create(minute, context)]));

  test('is on the stream of its scope and subject', () => {
    expect(rateLimitKind.streamOf(of)).toBe('rate-limit-provider:openai');
    expect(rateLimitKind.streamOf({ scope: 'user_path', subject: '/team' })).toBe('rate-limit-user_path:/team');
  });
});

describe('an amount', () => {
  test.each([
    [0.1, 100_000_000],
    [10, 10_000_000_000],
    [0.000000001, 1],
    [10.123456789, 10_123_456_789],
    [9_000_000, 9e15],
  ])('of %d dollars is kept exactly', (usd, nano) => {
    expect(nanoOf(usd)).toBe(nano);
    expect(usdOf(nano)).toBe(usd);
  });

  test.each([0, -1, 1e-10, Number.NaN, Number.POSITIVE_INFINITY, 1e13])('is undefined for %d dollars', (usd) => {
    expect(nanoOf(usd)).toBeUndefined();
  });
});

describe('a setting of a higher administrator', () => {
  const lower = { isUnder: (actor: string) => actor === 'master' };
  const own = { actor: 'key:own' } as const;
  const period = { periodSeconds: 60 };

  test('of a budget is lowered and set again, and not raised, removed or reset', () => {
    const of = { scope: 'user_path', subject: '/team' } as const;
    const spec = specify(budgetDecider);
    const said = (amount: string, context: EventContext) =>
      budgetSet.create({ ...of, ...period, amount, source: 'manual' }, context);
    const gone = (context: EventContext) => budgetRemoved.create({ ...of, ...period }, context);
    const set = (amount: number): BudgetCommand => ({
      do: 'set',
      of,
      ...period,
      value: { amount: String(amount) },
      context: own,
      authority: lower,
    });
    const others = (['remove', 'reset'] as const).map(
      (what): BudgetCommand => ({ do: what, of, ...period, context: own, authority: lower }),
    );
    for (const history of [[said('10', context)], [said('10', context), said('5', own)]]) {
      spec
        .given(...history)
        .when(set(7))
        .then([said('7', own)]);
      for (const command of [set(11), ...others]) {
        spec
          .given(...history)
          .when(command)
          .then({ status: 403, code: 'set_by_higher_administrator' });
      }
    }
    spec
      .given(said('10', context), said('5', own))
      .when(set(10))
      .then([said('10', own)]);
    spec
      .given(said('10', context), gone(context), said('5', own))
      .when(set(99))
      .then([said('99', own)]);
    spec.given(said('10', context), gone(own)).when(set(11)).then('set_by_higher_administrator');
  });

  test('of a rate limit is kept for each of its two numbers', () => {
    const of = { scope: 'user_path', subject: '/team' } as const;
    const spec = specify(rateLimitDecider);
    const said = (maxRequests: number | null, maxTokens: number | null, by: EventContext) =>
      rateLimitSet.create({ ...of, ...period, maxRequests, maxTokens, source: 'manual' }, by);
    const set = (maxRequests: number | null, maxTokens: number | null): RateLimitCommand => ({
      do: 'set',
      of,
      ...period,
      value: { maxRequests, maxTokens },
      context: own,
      authority: lower,
    });
    for (const [requests, tokens] of [
      [10, 5],
      [9, null],
      [10, null],
    ] as const) {
      spec
        .given(said(10, null, context), said(1, 1, own))
        .when(set(requests, tokens))
        .then([said(requests, tokens, own)]);
    }
    for (const [requests, tokens] of [
      [11, 1],
      [null, 1],
    ] as const) {
      spec
        .given(said(10, null, context), said(1, 1, own))
        .when(set(requests, tokens))
        .then('set_by_higher_administrator');
    }
  });
});
