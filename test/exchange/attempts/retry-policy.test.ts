import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type RetryPolicy, retryDelay } from '../../../src/commands/exchange/attempts/retry-loop.ts';

const policy: RetryPolicy = {
  maxRetries: 3,
  initialBackoffMs: 1000,
  maxBackoffMs: 30_000,
  factor: 2,
  jitter: 0.1,
  onStatuses: [429, 502, 503, 504, 522, 524],
};
const middle = () => 0.5;

describe('a failed attempt', () => {
  it('is made again after a wait that doubles each time', () => {
    const waits = [1, 2, 3].map((attempt) => retryDelay({ attempt, status: 503 }, policy, middle));
    expect(waits).toEqual([1000, 2000, 4000]);
  });

  it('is not made again once the retries are used up', () => {
    expect(retryDelay({ attempt: 4, status: 503 }, policy, middle)).toBeUndefined();
  });

  it.each([400, 401, 403, 404, 409, 422, 500, 501])('with status %i is not made again', (status) => {
    expect(retryDelay({ attempt: 1, status }, policy, middle)).toBeUndefined();
  });

  it.each(['unreachable', 'broken'] as const)(
    'that was %s is made again, whatever the list of statuses',
    (transport) => {
      expect(retryDelay({ attempt: 1, transport }, { ...policy, onStatuses: [] }, middle)).toBe(1000);
    },
  );

  it.each(['timeout', 'idle', 'too_large', 'aborted'] as const)('that ended with %s is not made again', (transport) => {
    expect(retryDelay({ attempt: 1, transport }, policy, middle)).toBeUndefined();
  });

  it("waits for the provider's Retry-After, also when that is zero", () => {
    expect(retryDelay({ attempt: 1, status: 429, retryAfterMs: 7000 }, policy, middle)).toBe(7000);
    expect(retryDelay({ attempt: 1, status: 429, retryAfterMs: 0 }, policy, middle)).toBe(0);
  });

  it('is not made again when Retry-After is longer than the longest wait', () => {
    expect(retryDelay({ attempt: 1, status: 429, retryAfterMs: 30_001 }, policy, middle)).toBeUndefined();
  });

  it('never has a negative wait, or one above the longest', () => {
    const any = fc.record({
      attempt: fc.integer({ min: 1, max: 50 }),
      maxRetries: fc.integer({ min: 0, max: 60 }),
      jitter: fc.double({ min: 0, max: 1, noNaN: true }),
      random: fc.double({ min: 0, max: 1, noNaN: true }),
      retryAfterMs: fc.option(fc.integer({ min: 0, max: 1e9 }), { nil: undefined }),
    });
    fc.assert(
      fc.property(any, ({ attempt, maxRetries, jitter, random, retryAfterMs }) => {
        const wait = retryDelay(
          { attempt, status: 503, retryAfterMs },
          { ...policy, maxRetries, jitter },
          () => random,
        );
        if (attempt > maxRetries) expect(wait).toBeUndefined();
        if (wait !== undefined) {
          expect(wait).toBeGreaterThanOrEqual(0);
          expect(wait).toBeLessThanOrEqual(policy.maxBackoffMs);
        }
      }),
    );
  });
});
