import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { CountedBudget } from '../../src/commands/admission/budget-decision.ts';
import { BudgetGate } from '../../src/commands/admission/budget-gate.ts';
import { CostForecaster } from '../../src/commands/admission/cost-forecast.ts';
import { LimitAdmission } from '../../src/commands/admission/limit-admission.ts';
import { RateLimiter } from '../../src/commands/admission/rate-limiter.ts';
import type { RateLimitRule } from '../../src/commands/admission/sliding-window.ts';
import type { RequestReservation } from '../../src/commands/model-request/admission.ts';
import { unknownUsage } from '../../src/commands/model-request/usage.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import { unpriced } from '../support/nothing-configured.ts';
import { admittedNow, requestFor, targetOf } from './request.ts';

const START = Date.parse('2026-03-01T00:00:00Z');

/** Admission by these rules, and a clock. */
function admissionBy(...given: (Partial<RateLimitRule> & { subject: string })[]) {
  const rules = new Map<string, RateLimitRule>();
  const state = { changes: 0, rules };
  let now = START;
  let requests = 0;
  const refused: string[] = [];
  const limits = new RateLimiter({ state }, () => now);
  const admission = new LimitAdmission({
    limits,
    budgets: new BudgetGate({ any: false, countersOf: () => [] }, () => now),
    forecaster: new CostForecaster(unpriced),
    now: () => now,
    refused: ({ code }) => refused.push(code ?? ''),
  });
  const it = {
    admission,
    limits,
    refused,
    set(key: string, rule: Partial<RateLimitRule> & { subject: string }) {
      rules.set(key, { scope: 'user_path', periodSeconds: 60, maxRequests: null, maxTokens: null, ...rule });
      state.changes += 1;
    },
    pass(ms: number) {
      now += ms;
    },
    admitPlugin(userPath: string): RequestReservation {
      const request = requestFor({ exchangeId: String(requests++), userPath });
      return admittedNow(admission, { ...request, caller: { ...request.caller, origin: 'plugin' } });
    },
    admit: (userPath?: string): RequestReservation =>
      admittedNow(
        admission,
        requestFor({ exchangeId: String(requests++), ...(userPath === undefined ? {} : { userPath }) }),
      ),
  };
  for (const [index, rule] of given.entries()) it.set(String(index), rule);
  return it;
}

const tokens = (totalTokens: number | null) => ({
  usage: { ...unknownUsage, totalTokens },
  totalCost: null,
  isFailed: false,
});

function refusalOf(attempt: () => unknown): Refusal {
  try {
    attempt();
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error('it was let through');
}

describe('requests per minute', () => {
  test('are let through up to the limit, and again when the first is a minute old', () => {
    const { admit, pass } = admissionBy({ subject: '/', maxRequests: 2 });
    admit();
    pass(30_000);
    admit();
    const refusal = refusalOf(() => admit());
    expect(refusal).toMatchObject({ status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded' });
    expect(refusal.retryAfterSeconds).toBeGreaterThanOrEqual(30);
    expect(refusal.retryAfterSeconds).toBeLessThanOrEqual(31);
    expect(refusal.retryHelps).toBeUndefined();
    pass((refusal.retryAfterSeconds ?? 0) * 1000);
    expect(() => admit()).not.toThrow();
  });

  test('of a path count those of all below it, together', () => {
    const { admit } = admissionBy({ subject: '/team', maxRequests: 2 });
    admit('/team/a');
    admit('/team');
    expect(refusalOf(() => admit('/team/b')).message).toContain("'/team'");
    expect(() => admit('/team-b')).not.toThrow();
    expect(() => admit()).not.toThrow();
  });

  test('that are refused do not count, whichever limit refused them', () => {
    const { admit, limits } = admissionBy({ subject: '/', maxRequests: 5 }, { subject: '/a', maxRequests: 1 });
    admit('/a');
    for (let request = 0; request < 10; request++) refusalOf(() => admit('/a'));
    expect(limits.counts('0')?.read(START).requests).toBe(1);
    for (let request = 0; request < 4; request++) admit('/b');
    refusalOf(() => admit('/b'));
  });

  test('count also when they fail', () => {
    const { admit } = admissionBy({ subject: '/', maxRequests: 1 });
    const reservation = admit();
    reservation.enter(targetOf('a', 'm'));
    reservation.settle(true, true);
    expect(refusalOf(() => admit()).code).toBe('rate_limit_exceeded');
  });

  test('do not count when no target had room for them', () => {
    const { admit } = admissionBy(
      { subject: '/', maxRequests: 2 },
      { scope: 'provider', subject: 'a', maxRequests: 1 },
    );
    const first = admit();
    first.enter(targetOf('a', 'm'));
    for (let request = 0; request < 5; request++) {
      const refused = admit();
      expect(refused.enter(targetOf('a', 'm'))).toBeInstanceOf(Refusal);
      refused.settle(true, false);
    }
    expect(() => admit()).not.toThrow();
    refusalOf(() => admit());
  });
});

describe('tokens per minute', () => {
  test('count when they are known, and refuse later requests', () => {
    const { admit, pass } = admissionBy({ subject: '/', maxTokens: 100 });
    const [one, other] = [admit(), admit()];
    one.charge(tokens(99));
    one.settle(true, true);
    const third = admit();
    other.charge(tokens(1));
    other.settle(true, true);
    expect(refusalOf(() => admit()).message).toContain('100 tokens per minute');
    third.charge(tokens(null));
    third.settle(true, true);
    pass(61_000);
    expect(() => admit()).not.toThrow();
  });
});

describe('the number of requests under way', () => {
  test('is let through up to the limit, and again when one has ended', () => {
    const { admit } = admissionBy({ subject: '/a', periodSeconds: 0, maxRequests: 2 });
    const first = admit('/a');
    admit('/a/b');
    expect(refusalOf(() => admit('/a')).retryAfterSeconds).toBe(1);
    first.settle(true, true);
    first.settle(true, true);
    expect(() => admit('/a')).not.toThrow();
    refusalOf(() => admit('/a'));
  });

  test('is zero in the end, in any order of requests, failovers and ends', () => {
    const targets = [targetOf('a', 'm'), targetOf('a', 'n'), targetOf('b', 'm')];
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.constantFrom('admit', 'enter', 'settle'), fc.nat(100)), { maxLength: 100 }),
        (moves) => {
          const rules = [
            { subject: '/', maxRequests: 8 },
            { scope: 'provider', subject: 'a', maxRequests: 3 },
            { scope: 'model', subject: 'm', maxRequests: 4 },
            { scope: 'model', subject: 'b/m', maxRequests: 2 },
          ] as const;
          const one = admissionBy(...rules.map((rule) => ({ ...rule, periodSeconds: 0 })));
          const open: RequestReservation[] = [];
          for (const [move, choice] of moves) {
            const reservation = open[choice % Math.max(1, open.length)];
            if (move === 'admit') {
              try {
                open.push(one.admit());
              } catch (error) {
                if (!(error instanceof Refusal)) throw error;
              }
            } else if (reservation !== undefined && move === 'enter')
              reservation.enter(targets[choice % 3] ?? targetOf('c', 'm'));
            else if (reservation !== undefined) {
              reservation.settle(true, true);
              open.splice(open.indexOf(reservation), 1);
            }
            for (const [index, { maxRequests }] of rules.entries()) {
              const inFlight = one.limits.counts(String(index))?.inFlight ?? 0;
              expect(inFlight).toBeGreaterThanOrEqual(0);
              expect(inFlight).toBeLessThanOrEqual(maxRequests);
            }
          }
          for (const reservation of open) reservation.settle(true, true);
          for (const index of rules.keys()) expect(one.limits.counts(String(index))?.inFlight).toBe(0);
          expect(one.admission.open.size).toBe(0);
        },
      ),
    );
  });
});

describe('a provider or a model', () => {
  test('that has no room refuses, and the reservation enters another', () => {
    const { admit, admission, refused } = admissionBy({
      scope: 'provider',
      subject: 'a',
      periodSeconds: 0,
      maxRequests: 1,
    });
    const a = targetOf('a', 'm');
    const b = targetOf('b', 'm');
    expect(admission.hasRoom(a)).toBe(true);
    const first = admit();
    expect(first.enter(a)).toBeUndefined();
    expect(admission.hasRoom(a)).toBe(false);
    const second = admit();
    expect(second.enter(a)).toMatchObject({ status: 429, code: 'rate_limit_exceeded' });
    expect(refused).toEqual(['rate_limit_exceeded']);
    expect(second.enter(b)).toBeUndefined();
    first.enter(b);
    expect(admission.hasRoom(a)).toBe(true);
  });

  test('is limited as a model of every provider, or as a model of one', () => {
    const { admit, admission } = admissionBy(
      { scope: 'model', subject: 'm', maxRequests: 2 },
      { scope: 'model', subject: 'a/m', maxRequests: 1 },
      { scope: 'model', subject: 'org/x', maxRequests: 1 },
    );
    admit().enter(targetOf('a', 'm'));
    expect(admission.hasRoom(targetOf('a', 'm'))).toBe(false);
    expect(admission.hasRoom(targetOf('a', 'n'))).toBe(true);
    admit().enter(targetOf('b', 'm'));
    expect(admission.hasRoom(targetOf('b', 'm'))).toBe(false);
    admit().enter(targetOf('c', 'org/x'));
    expect(admission.hasRoom(targetOf('c', 'org/x'))).toBe(false);
  });

  test('counts the tokens of its answers', () => {
    const { admit, admission } = admissionBy({ scope: 'provider', subject: 'a', maxTokens: 10 });
    const reservation = admit();
    reservation.enter(targetOf('b', 'm'));
    reservation.enter(targetOf('a', 'm'));
    reservation.charge(tokens(10));
    reservation.settle(true, true);
    expect(admission.hasRoom(targetOf('a', 'm'))).toBe(false);
  });
});

describe('the headers', () => {
  test('report the tightest limit of each kind', () => {
    const { admit } = admissionBy(
      { subject: '/', maxRequests: 100, maxTokens: 50 },
      { subject: '/a', maxRequests: 10, periodSeconds: 3600 },
      { scope: 'provider', subject: 'p', maxTokens: 40 },
      { subject: '/a', periodSeconds: 0, maxRequests: 1 },
    );
    const first = admit('/a');
    first.enter(targetOf('p', 'm'));
    first.charge(tokens(7));
    first.settle(true, true);
    const second = admit('/a');
    second.enter(targetOf('p', 'm'));
    expect(second.headers()).toEqual({
      'x-ratelimit-limit-requests': '10',
      'x-ratelimit-remaining-requests': '8',
      'x-ratelimit-reset-requests': '3660s',
      'x-ratelimit-limit-tokens': '40',
      'x-ratelimit-remaining-tokens': '33',
      'x-ratelimit-reset-tokens': '61s',
    });
  });

  test('are absent where nothing is limited over a period', () => {
    const { admit } = admissionBy(
      { subject: '/a', maxRequests: 10 },
      { subject: '/', periodSeconds: 0, maxRequests: 9 },
    );
    expect(admit('/b').headers()).toBeUndefined();
  });
});

describe('a rule that is changed', () => {
  test('keeps its counts', () => {
    const { admit, set } = admissionBy({ subject: '/', maxRequests: 2 });
    admit();
    set('0', { subject: '/', maxRequests: 1 });
    expect(refusalOf(() => admit()).code).toBe('rate_limit_exceeded');
  });

  test('clears them when it is reset', () => {
    const { admit, set } = admissionBy({ subject: '/', maxRequests: 1 });
    admit();
    set('0', { subject: '/', maxRequests: 1, lastResetAt: START });
    expect(() => admit()).not.toThrow();
  });

  test('keeps the requests under way', () => {
    const { admit, set } = admissionBy({ subject: '/', periodSeconds: 0, maxRequests: 1 });
    admit();
    set('0', { subject: '/', periodSeconds: 0, maxRequests: 1, lastResetAt: START });
    expect(refusalOf(() => admit()).code).toBe('rate_limit_exceeded');
  });
});

test('a request that a rate limit refuses reserves nothing of its budget', () => {
  const counter: CountedBudget = {
    scope: 'user_path',
    subject: '/',
    periodSeconds: 3600,
    amount: 1000,
    end: START + 1000,
    spent: 0,
  };
  const budgets = new BudgetGate({ any: true, countersOf: () => [counter] }, () => START);
  const rule: RateLimitRule = {
    scope: 'user_path',
    subject: '/',
    periodSeconds: 60,
    maxRequests: 1,
    maxTokens: null,
  };
  const admission = new LimitAdmission({
    limits: new RateLimiter({ state: { changes: 0, rules: new Map([['0', rule]]) } }, () => START),
    budgets,
    forecaster: new CostForecaster({ costOf: () => ({ inputCost: '0', outputCost: '0', totalCost: '100' }) }),
    now: () => START,
    refused: () => {},
  });
  admittedNow(admission, requestFor({ exchangeId: 'first' }));
  const reserved = budgets.reserved('user_path', '/');
  expect(reserved).toBe(100);
  expect(refusalOf(() => admittedNow(admission, requestFor({ exchangeId: 'second' }))).code).toBe(
    'rate_limit_exceeded',
  );
  expect(budgets.reserved('user_path', '/')).toBe(reserved);
  expect([...admission.open]).toEqual(['first']);
});

test('without a rule and a budget, no request gets a reservation', () => {
  const { admission } = admissionBy();
  expect(admission.admit(requestFor({}), new AbortController().signal)).toBeUndefined();
});

describe("a guardrail's own call", () => {
  test('needs no place of its own beside the request that holds one', () => {
    const { admit, admitPlugin, limits } = admissionBy({ subject: '/team', periodSeconds: 0, maxRequests: 1 });
    const request = admit('/team');
    const call = admitPlugin('/team/guardrails/judge');
    call.settle(true, true);
    expect(refusalOf(() => admit('/team')).code).toBe('rate_limit_exceeded');
    request.settle(true, true);
    expect(limits.counts('0')?.msUntilRoom(START)).toBe(0);
  });

  test('counts in the periods', () => {
    const { admitPlugin } = admissionBy({ subject: '/team', maxRequests: 1 });
    admitPlugin('/team/guardrails/judge').settle(true, true);
    expect(refusalOf(() => admitPlugin('/team/guardrails/judge')).code).toBe('rate_limit_exceeded');
  });
});
