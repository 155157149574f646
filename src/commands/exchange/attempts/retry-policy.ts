/** Whether a failed attempt is repeated, and after which delay. Pure. */

export interface RetryPolicy {
  readonly maxRetries: number;
  readonly initialBackoffMs: number;
  readonly maxBackoffMs: number;
  readonly factor: number;
  /** Share of the wait that is random, 0 to 1. */
  readonly jitter: number;
  /** Provider statuses after which an attempt is repeated. Connection failures always are. */
  readonly onStatuses: readonly number[];
}

export interface AttemptFailure {
  /** 1 for the first attempt. */
  readonly attempt: number;
  readonly status?: number;
  /** The provider could not be reached, or broke off before it answered. */
  readonly transport?: 'unreachable' | 'broken' | 'timeout' | 'idle' | 'too_large' | 'aborted';
  readonly retryAfterMs?: number;
}

/** The wait before the next attempt in milliseconds; undefined when there is none. */
export function retryDelay(failed: AttemptFailure, policy: RetryPolicy, random: () => number): number | undefined {
  if (failed.attempt > policy.maxRetries) return undefined;
  const mayRetry =
    failed.status === undefined
      ? failed.transport === 'unreachable' || failed.transport === 'broken'
      : policy.onStatuses.includes(failed.status);
  if (!mayRetry) return undefined;
  const backoff = Math.min(policy.initialBackoffMs * policy.factor ** (failed.attempt - 1), policy.maxBackoffMs);
  const wait = Math.max(0, backoff * (1 + policy.jitter * (2 * random() - 1)));
  if (failed.retryAfterMs === undefined) return Math.min(wait, policy.maxBackoffMs);
  // A provider whose `Retry-After` exceeds the maximum backoff is not called again.
  return failed.retryAfterMs > policy.maxBackoffMs ? undefined : Math.max(failed.retryAfterMs, 0);
}
