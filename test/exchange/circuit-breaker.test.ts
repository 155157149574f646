import { beforeEach, describe, expect, it } from 'vitest';
import { CircuitBreaker, type CircuitState } from '../../src/commands/exchange/circuit-breaker.ts';

let now: number;
let changes: CircuitState[];
let breaker: CircuitBreaker;

beforeEach(() => {
  now = 0;
  changes = [];
  breaker = create(true);
});

function create(enabled: boolean): CircuitBreaker {
  const isFailure = (status: number) => status === 429 || status >= 500;
  const policy = { enabled, failureThreshold: 5, successThreshold: 2, openMs: 30_000, isFailure };
  return new CircuitBreaker(
    policy,
    () => now,
    (state) => changes.push(state),
  );
}

function fail(times: number): void {
  for (let i = 0; i < times; i++) breaker.ended(503);
}

describe('a circuit breaker', () => {
  it('stays closed while failures are fewer than its threshold, or are interrupted by a success', () => {
    fail(4);
    breaker.succeeded();
    fail(4);
    expect(breaker.state).toBe('closed');
    expect(breaker.refusal()).toBeUndefined();
  });

  it('opens at the threshold and says how long it will stay open', () => {
    fail(5);
    now = 10_000;
    expect(breaker.state).toBe('open');
    expect(breaker.refusal()).toBe(20_000);
  });

  it('lets one probe through when its time is over, and no second one beside it', () => {
    fail(5);
    now = 30_000;
    expect(breaker.refusal()).toBeUndefined();
    expect(breaker.state).toBe('half_open');
    expect(breaker.refusal()).toBe(1000);
  });

  it('closes after enough successful probes', () => {
    fail(5);
    now = 30_000;
    for (let probe = 0; probe < 2; probe++) {
      expect(breaker.refusal()).toBeUndefined();
      breaker.succeeded();
    }
    expect(breaker.state).toBe('closed');
    expect(changes).toEqual(['open', 'half_open', 'closed']);
  });

  it('opens again, for the whole time, when a probe fails', () => {
    fail(5);
    now = 30_000;
    breaker.refusal();
    breaker.ended(undefined);
    expect(breaker.refusal()).toBe(30_000);
  });

  it('lets the next probe through when one was abandoned', () => {
    fail(5);
    now = 30_000;
    breaker.refusal();
    breaker.abandoned();
    expect(breaker.refusal()).toBeUndefined();
  });

  it("does not count a client's mistake as the provider's failure", () => {
    for (let i = 0; i < 20; i++) breaker.ended(400);
    expect(breaker.state).toBe('closed');
  });

  it('counts a provider that cannot be reached', () => {
    for (let i = 0; i < 5; i++) breaker.ended(undefined);
    expect(breaker.state).toBe('open');
  });

  it('says beforehand whether it would refuse, and takes no probe away by that', () => {
    expect(breaker.refuses).toBe(false);
    fail(5);
    expect(breaker.refuses).toBe(true);
    now = 30_000;
    expect([breaker.refuses, breaker.refuses, breaker.state]).toEqual([false, false, 'open']);
    expect(breaker.refusal()).toBeUndefined();
    expect(breaker.refuses).toBe(true);
    breaker.succeeded();
    expect(breaker.refuses).toBe(false);
  });

  it('never opens when it is switched off', () => {
    breaker = create(false);
    fail(100);
    expect(breaker.refusal()).toBeUndefined();
    expect(changes).toEqual([]);
  });
});
