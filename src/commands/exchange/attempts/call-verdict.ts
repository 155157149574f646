/** How the end of a call counts for the circuit breaker of its provider. Pure, and the only place that decides it. */
import type { Refusal } from '../../refusal.ts';
import type { Outcome } from '../outcome.ts';
import type { CircuitBreakerPolicy, Verdict } from './circuit-breaker.ts';

/** The provider limits a caller (429: see paused-credentials.ts), or does not have the operation (501). */
const NEUTRAL_STATUSES = new Set([429, 501]);

/**
 * `failed`: the provider gave no answer, a malformed one, or one whose status the policy names. A status below 500
 * that the policy does not name is `succeeded`: the provider works, and the request was at fault.
 */
export function verdictOf(outcome: Outcome, { isFailure }: Pick<CircuitBreakerPolicy, 'isFailure'>): Verdict {
  switch (outcome.kind) {
    case 'whole':
    case 'streamed':
    case 'blocked':
      return 'succeeded';
    case 'abandoned':
      return 'neutral';
    case 'broken':
      return ofBrokenStream(outcome.refusal);
    case 'refused': {
      const { status, failure, isMalformed, reason } = outcome;
      if (reason !== undefined || failure === 'aborted') return 'neutral';
      if (status !== undefined && NEUTRAL_STATUSES.has(status)) return 'neutral';
      // The length of an answer depends on the request, not on the provider's health.
      if (failure === 'too_large') return 'neutral';
      return isMalformed || status === undefined || isFailure(status) ? 'failed' : 'succeeded';
    }
  }
}

/** A stream may also report after its start that the request was at fault, or that a limit was reached. */
function ofBrokenStream({ status, code }: Refusal): Verdict {
  if (NEUTRAL_STATUSES.has(status) || code === 'answer_too_large' || code === 'answer_too_long') return 'neutral';
  return status < 500 ? 'succeeded' : 'failed';
}
