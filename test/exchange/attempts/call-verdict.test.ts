import { describe, expect, it } from 'vitest';
import { verdictOf } from '../../../src/commands/exchange/attempts/circuit-breaker.ts';
import type { Outcome } from '../../../src/commands/exchange/plan.ts';
import type { RefusedTarget } from '../../../src/commands/model-request/routing-types.ts';
import { Refusal } from '../../../src/commands/refusal.ts';

const policy = { isFailure: (status: number) => status >= 500 };

function refusal(status: number, code: string | null = null): Refusal {
  return new Refusal({ status, type: 'provider_error', code, message: 'no' });
}

function refused(more: Partial<RefusedTarget>): RefusedTarget {
  return { kind: 'refused', refusal: refusal(more.status ?? 502), attempts: 1, ...more };
}

const broken = (status: number, code?: string) =>
  ({ kind: 'broken', refusal: refusal(status, code), rest: [] }) as unknown as Outcome;

describe('the end of a call', () => {
  it.each([400, 401, 403, 404, 408, 409, 413, 414, 415, 422, 431])(
    'with %i is the fault of the request, and the provider works',
    (status) => {
      expect(verdictOf(refused({ status }), policy)).toBe('succeeded');
      expect(verdictOf(broken(status), policy)).toBe('succeeded');
    },
  );

  it.each([429, 501])('with %i is neutral, whatever the configured statuses', (status) => {
    expect(verdictOf(refused({ status }), { isFailure: () => true })).toBe('neutral');
    expect(verdictOf(broken(status), policy)).toBe('neutral');
  });

  it.each([500, 502, 503, 504, 529])('with %i is a failure', (status) => {
    expect(verdictOf(refused({ status }), policy)).toBe('failed');
    expect(verdictOf(broken(status), policy)).toBe('failed');
  });

  it.each(['unreachable', 'timeout', 'idle', 'broken'] as const)('without an answer, %s, is a failure', (failure) => {
    expect(verdictOf(refused({ failure }), policy)).toBe('failed');
  });

  it('with a malformed answer is a failure, whatever the configured statuses', () => {
    expect(verdictOf(refused({ status: 502, isMalformed: true }), { isFailure: () => false })).toBe('failed');
  });

  it('with an answer that is too large is neutral: the request decides how long an answer gets', () => {
    expect(verdictOf(refused({ failure: 'too_large' }), policy)).toBe('neutral');
    expect(verdictOf(broken(502, 'answer_too_large'), policy)).toBe('neutral');
  });

  it('by the client is neutral', () => {
    expect(verdictOf(refused({ failure: 'aborted' }), policy)).toBe('neutral');
    expect(verdictOf(refused({ reason: 'upload_failed' }), policy)).toBe('neutral');
    expect(verdictOf({ kind: 'abandoned' } as unknown as Outcome, policy)).toBe('neutral');
  });
});
