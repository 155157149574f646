import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { CountedBudget } from '../../src/commands/admission/budget-decision.ts';
import { BudgetGate, type BudgetReservation } from '../../src/commands/admission/budget-gate.ts';
import type { CostForecast } from '../../src/commands/admission/cost-forecast.ts';
import { SharedBudgetGate } from '../../src/commands/admission/shared-budget-gate.ts';
import type { Charge } from '../../src/commands/model-request/admission.ts';
import { unknownUsage } from '../../src/commands/model-request/usage.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import { streamName } from '../../src/events/event.ts';
import { requestFor } from './request.ts';

const NOW = 1_000_000;

function charge(totalCost: number | null, isFailed = false): Charge {
  return { usage: unknownUsage, totalCost: totalCost === null ? null : String(totalCost), isFailed };
}

/** The end of an exchange with or without a cost. */
function end(reservation: BudgetReservation, cost?: number): void {
  if (cost !== undefined) reservation.charge(charge(cost));
  reservation.settle(true);
}

/** A ledger with one budget for everything, and a gate before it. */
function gateOf(amount: number, more: Partial<CountedBudget> = {}) {
  const counter = {
    scope: 'user_path',
    subject: '/',
    periodSeconds: 3600,
    amount,
    end: NOW + 90_500,
    spent: 0,
    ...more,
  };
  const spending = counter as { spent: number };
  const gate = new BudgetGate({ any: true, countersOf: () => [counter as CountedBudget] }, () => NOW);
  let exchanges = 0;
  return {
    gate,
    counter: spending,
    admit(forecast: Partial<CostForecast> = {}) {
      const exchangeId = String(exchanges++);
      const reservation = gate.admit(requestFor({ exchangeId }), () => ({
        least: 0,
        likely: 0,
        most: undefined,
        learned: true,
        ...forecast,
      }));
      if (reservation === undefined) throw new Error('the budget does not concern it');
      return { reservation, exchangeId };
    },
    /** The ledger reads the record of an exchange. */
    count(exchangeId: string, cost: number) {
      spending.spent += cost;
      gate.releaseCounted(streamName('exchange', exchangeId), cost);
    },
    get reserved() {
      return gate.reserved('user_path', '/');
    },
  };
}

function refusalOf(attempt: () => unknown): Refusal {
  try {
    attempt();
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error('it was let through');
}

describe('a request', () => {
  test('is refused when the amount is spent', () => {
    const { admit, counter } = gateOf(100);
    counter.spent = 100;
    const refusal = refusalOf(() => admit());
    expect(refusal).toMatchObject({
      status: 429,
      type: 'rate_limit_error',
      code: 'budget_exceeded',
      retryAfterSeconds: 91,
      retryHelps: false,
    });
  });

  test('is refused when its known cost does not fit any more', () => {
    const { admit, counter } = gateOf(100);
    counter.spent = 95;
    expect(refusalOf(() => admit({ likely: 6 })).code).toBe('budget_exceeded');
    expect(() => admit({ likely: 5 })).not.toThrow();
  });

  test('is let through on an estimate when it is alone, and not when others have reserved', () => {
    const one = gateOf(100);
    const { reservation } = one.admit({ likely: 500, learned: false });
    expect(refusalOf(() => one.admit({ likely: 1, learned: false })).message).toContain('reserved');
    end(reservation);
    expect(() => one.admit({ likely: 500, learned: false })).not.toThrow();
  });

  test('is refused for its price per request, also when it is alone', () => {
    const { admit, counter } = gateOf(10);
    counter.spent = 9;
    expect(refusalOf(() => admit({ least: 2, likely: 2, learned: false })).code).toBe('budget_exceeded');
  });

  test('reserves the longest answer that it allows, and is refused beside others when that does not fit', () => {
    const one = gateOf(100);
    const { reservation } = one.admit({ likely: 5, most: 60 });
    expect(one.reserved).toBe(60);
    expect(refusalOf(() => one.admit({ likely: 5, most: 60 })).code).toBe('budget_exceeded');
    expect(() => one.admit({ likely: 5, most: 40 })).not.toThrow();
    end(reservation);
  });

  test('is let through alone when it is likely to fit, although the longest answer would not', () => {
    expect(() => gateOf(100).admit({ likely: 5, most: 1000 })).not.toThrow();
  });

  test('is refused later when earlier turns turn out not to fit, and then reserves nothing', () => {
    const one = gateOf(100);
    const first = one.admit({ likely: 5, most: 60 });
    const second = one.admit({ likely: 5, most: 10 });
    const more = { least: 0, likely: 30, most: 50, learned: true };
    expect(refusalOf(() => second.reservation.expect(more)).code).toBe('budget_exceeded');
    expect(one.reserved).toBe(60);
    end(first.reservation);
    second.reservation.expect(more);
    expect(one.reserved).toBe(50);
  });

  test('of unknown cost reserves a tenth of the budget', () => {
    const one = gateOf(100);
    for (let request = 0; request < 10; request++) one.admit({ likely: undefined, learned: false });
    expect(refusalOf(() => one.admit({ likely: undefined, learned: false })).code).toBe('budget_exceeded');
    expect(one.reserved).toBe(100);
  });

  test('of unknown cost reserves a tenth of its smallest budget, once for all budgets of a path', () => {
    const counters: CountedBudget[] = [
      { scope: 'user_path', subject: '/', periodSeconds: 3600, amount: 1000, end: NOW + 1000, spent: 0 },
      { scope: 'user_path', subject: '/', periodSeconds: 86_400, amount: 5000, end: NOW + 9000, spent: 0 },
      { scope: 'user_path', subject: '/a', periodSeconds: 3600, amount: 200, end: NOW + 1000, spent: 0 },
      { scope: 'label', subject: '/a', periodSeconds: 3600, amount: 300, end: NOW + 1000, spent: 0 },
    ];
    const gate = new BudgetGate({ any: true, countersOf: () => counters }, () => NOW);
    gate.admit(requestFor({}), () => ({ least: 0, likely: undefined, most: undefined, learned: false }));
    expect(gate.reserved('user_path', '/')).toBe(20);
    expect(gate.reserved('user_path', '/a')).toBe(20);
    expect(gate.reserved('label', '/a')).toBe(20);
  });

  test('without a budget reserves nothing, and its cost is not forecast', () => {
    const gate = new BudgetGate({ any: true, countersOf: () => [] }, () => NOW);
    const send = () => {
      throw new Error('nobody is to ask');
    };
    expect(gate.admit(requestFor({}), send)).toBeUndefined();
  });

  test('gets the refusal of the budget that lasts longest', () => {
    const counters: CountedBudget[] = [
      { scope: 'user_path', subject: '/', periodSeconds: 3600, amount: 10, end: NOW + 1000, spent: 10 },
      { scope: 'user_path', subject: '/a', periodSeconds: 86_400, amount: 10, end: NOW + 9000, spent: 10 },
      { scope: 'user_path', subject: '/a', periodSeconds: 2_592_000, amount: 100, end: NOW + 99_000, spent: 10 },
    ];
    const gate = new BudgetGate({ any: true, countersOf: () => counters }, () => NOW);
    const refusal = refusalOf(() =>
      gate.admit(requestFor({}), () => ({ least: 0, likely: 1, most: 1, learned: true })),
    );
    expect(refusal).toMatchObject({ retryAfterSeconds: 9 });
    expect(refusal.message).toContain("daily budget of '/a'");
  });
});

describe('a reservation', () => {
  test('becomes the actual cost at the end, and nothing once the ledger has counted it', () => {
    const one = gateOf(100);
    const { reservation, exchangeId } = one.admit({ likely: 30 });
    expect(one.reserved).toBe(30);
    end(reservation, 40);
    expect(one.reserved).toBe(40);
    one.count(exchangeId, 40);
    expect(one.reserved).toBe(0);
  });

  test('is given back at once when the ledger counts before the end', () => {
    const one = gateOf(100);
    const { reservation, exchangeId } = one.admit({ likely: 30 });
    reservation.charge(charge(40));
    one.count(exchangeId, 40);
    expect(one.reserved).toBe(0);
    reservation.settle(true);
    expect(one.reserved).toBe(0);
  });

  test('stays for the next attempt after a failed one, beside the cost of that', () => {
    const one = gateOf(1000);
    const { reservation, exchangeId } = one.admit({ likely: 30 });
    reservation.charge(charge(25, true));
    expect(one.reserved).toBe(55);
    one.count(exchangeId, 25);
    expect(one.reserved).toBe(30);
    reservation.charge(charge(40));
    reservation.settle(true);
    expect(one.reserved).toBe(40);
    one.count(exchangeId, 40);
    expect(one.reserved).toBe(0);
  });

  test('is the cost of failed attempts, when there was no answer in the end and the ledger is slow', () => {
    const one = gateOf(1000);
    const { reservation, exchangeId } = one.admit({ likely: 30 });
    reservation.charge(charge(25, true));
    reservation.charge(charge(7, true));
    reservation.settle(true);
    expect(one.reserved).toBe(32);
    one.count(exchangeId, 25);
    expect(one.reserved).toBe(7);
    one.count(exchangeId, 7);
    expect(one.reserved).toBe(0);
  });

  test('is given back when the charge is not on record', () => {
    const one = gateOf(1000);
    const { reservation, exchangeId } = one.admit({ likely: 30 });
    reservation.charge(charge(25));
    reservation.settle(false);
    expect(one.reserved).toBe(0);
    one.count(exchangeId, 25);
    expect(one.reserved).toBe(0);
  });

  test('is given back when nothing was spent', () => {
    const one = gateOf(100);
    end(one.admit({ likely: 30 }).reservation);
    expect(one.reserved).toBe(0);
  });

  test('is nothing once the ledger has counted the exchange, also when it counted another amount', () => {
    const one = gateOf(1000);
    const { reservation, exchangeId } = one.admit({ likely: 30 });
    end(reservation, 40);
    one.count(exchangeId, 33);
    expect(one.reserved).toBe(0);
  });

  test('of deferred work stays after the end of the exchange until it is released', () => {
    const one = gateOf(1000);
    const { reservation, exchangeId } = one.admit({ likely: 30 });
    const other = one.admit({ likely: 8 });
    expect(reservation.defer()).toBe(30);
    reservation.settle(true);
    expect(one.reserved).toBe(38);
    one.gate.releaseDeferred(streamName('exchange', exchangeId));
    one.gate.releaseDeferred(streamName('exchange', exchangeId));
    expect(one.reserved).toBe(8);
    end(other.reservation);
    expect(one.reserved).toBe(0);
  });

  test('of deferred work that is released before its exchange ends is given back at the end', () => {
    const one = gateOf(1000);
    const { reservation, exchangeId } = one.admit({ likely: 30 });
    reservation.defer();
    one.gate.releaseDeferred(streamName('exchange', exchangeId));
    expect(one.reserved).toBe(30);
    reservation.settle(true);
    expect(one.reserved).toBe(0);
  });

  test('of deferred work is restored after a restart, and counts against the budget until it is released', () => {
    const one = gateOf(100);
    const stream = streamName('exchange', 'from before');
    one.gate.restore(stream, { userPath: '/', labels: undefined }, 95);
    expect(one.reserved).toBe(95);
    expect(refusalOf(() => one.admit({ likely: 10 })).code).toBe('budget_exceeded');
    one.gate.releaseDeferred(stream);
    expect(one.reserved).toBe(0);
    expect(() => one.admit({ likely: 10 })).not.toThrow();
  });

  test('is not changed by exchanges without a reservation', () => {
    const one = gateOf(100);
    one.admit({ likely: 30 });
    one.count('somebody else', 5);
    expect(one.reserved).toBe(30);
  });
});

function sumOf(numbers: Iterable<number>): number {
  let sum = 0;
  for (const number of numbers) sum += number;
  return sum;
}

/** The steps that a request can take next. */
type Move = 'admit' | 'settle' | 'count' | 'free';
const moves = fc.array(
  fc.tuple(
    fc.constantFrom<Move>('admit', 'admit', 'settle', 'count', 'free'),
    fc.nat(1000),
    fc.integer({ min: 0, max: 50 }),
  ),
  { maxLength: 200 },
);

describe('in any order of beginnings, ends and countings', () => {
  test('what is reserved is the forecast of running requests and the cost that the ledger has not counted', () => {
    fc.assert(
      fc.property(moves, (steps) => {
        const one = gateOf(1000);
        const open = new Map<string, { reservation: BudgetReservation; cost: number }>();
        const ended = new Map<string, number>();
        for (const [move, choice, cost] of steps) {
          const [id, running] = [...open][choice % Math.max(1, open.size)] ?? [];
          const [endedId, endedCost] = [...ended][choice % Math.max(1, ended.size)] ?? [];
          if (move === 'admit') {
            try {
              const { reservation, exchangeId } = one.admit({ likely: cost });
              open.set(exchangeId, { reservation, cost });
            } catch (error) {
              if (!(error instanceof Refusal)) throw error;
            }
          } else if (move === 'count' && endedId !== undefined && endedCost !== undefined) {
            one.count(endedId, endedCost);
            ended.delete(endedId);
          } else if (id !== undefined && running !== undefined) {
            end(running.reservation, move === 'free' ? undefined : running.cost);
            open.delete(id);
            if (move !== 'free') ended.set(id, running.cost);
          }
          const expected = sumOf([...open.values()].map((each) => each.cost)) + sumOf(ended.values());
          expect(one.reserved).toBe(expected);
        }
        for (const { reservation } of open.values()) end(reservation);
        for (const [id, cost] of ended) one.count(id, cost);
        expect(one.reserved).toBe(0);
      }),
    );
  });

  test('no more is spent than the amount, as long as every cost is within its forecast', () => {
    fc.assert(
      fc.property(moves, fc.integer({ min: 1, max: 300 }), (steps, amount) => {
        const one = gateOf(amount);
        const open: { reservation: BudgetReservation; exchangeId: string; cost: number }[] = [];
        let due = 0;
        for (const [move, choice, cost] of steps) {
          if (move === 'admit') {
            try {
              open.push({ ...one.admit({ likely: cost }), cost });
            } catch (error) {
              if (!(error instanceof Refusal)) throw error;
            }
            continue;
          }
          const [next] = open.splice(choice % Math.max(1, open.length), 1);
          if (next === undefined) continue;
          const actual = Math.floor(next.cost * ((choice % 10) / 10));
          due += actual;
          next.reservation.charge(charge(actual));
          // The ledger may be faster than the end of the exchange, or slower.
          if (choice % 2 === 0) one.count(next.exchangeId, actual);
          next.reservation.settle(true);
          if (choice % 2 === 1) one.count(next.exchangeId, actual);
        }
        expect(one.counter.spent).toBe(due);
        expect(due).toBeLessThanOrEqual(amount);
      }),
    );
  });
});

test('of two hundred requests at once against a budget for ten, ten are let through', () => {
  const one = gateOf(10 * 7);
  const outcomes = Array.from({ length: 200 }, () => {
    try {
      one.admit({ likely: 7 });
      return 'served';
    } catch {
      return 'refused';
    }
  });
  expect(outcomes.filter((outcome) => outcome === 'served')).toHaveLength(10);
});

describe.each(['one gateway', 'several gateways'])('with %s', (kind) => {
  /** 60 of 100 are reserved by others. */
  function half() {
    const budget: CountedBudget = {
      ...{ scope: 'user_path', subject: '/', periodSeconds: 3600, amount: 100, end: NOW + 90_500, spent: 0 },
    };
    if (kind === 'one gateway') {
      const gate = new BudgetGate({ any: true, countersOf: () => [budget] }, () => NOW, 60_000);
      gate.admit(requestFor({ exchangeId: 'other' }), () => ({
        least: 0,
        likely: 0,
        most: 60,
        bound: 60,
        learned: true,
      }));
      return gate;
    }
    const ledger = {
      any: true,
      reservedBy: () => 0,
      roomsFor: () => [{ budget, reserved: 60 }],
      fitsWithoutBound: () => true,
      deferred: () => 0,
      whenProcessed: async () => {},
    };
    return new SharedBudgetGate(ledger, () => NOW, 60_000);
  }
  const forecast = (likely: number, bound?: number) => () => ({ least: 0, likely, most: likely, bound, learned: true });

  test('a request that waits for room is not overtaken by one that cannot wait', async () => {
    const gate = half();
    const leaves = new AbortController();
    const waiting = gate.admitWhenRoom(requestFor({ exchangeId: 'a' }), forecast(5, 50), leaves.signal);
    expect(waiting).toBeInstanceOf(Promise);
    const other = () => gate.admitWhenRoom(requestFor({ exchangeId: 'b' }), forecast(5), leaves.signal);
    expect(refusalOf(other).code).toBe('budget_exceeded');
    leaves.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'budget_exceeded' });
    expect(other()).toMatchObject({ reservation: {} });
  });
});
