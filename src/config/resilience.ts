import type { FileSettings } from './schema.ts';

export interface ResilienceConfig {
  readonly retry: {
    /** Further attempts after the first. */
    readonly maxRetries: number;
    readonly initialBackoffMs: number;
    readonly maxBackoffMs: number;
    readonly factor: number;
    /** Share of the wait that is random, 0 to 1. */
    readonly jitter: number;
    /** Ascending. */
    readonly onStatuses: readonly number[];
  };
  readonly circuitBreaker: {
    readonly enabled: boolean;
    readonly failureThreshold: number;
    readonly successThreshold: number;
    readonly openMs: number;
    /** Ascending. */
    readonly failureOnStatuses: readonly number[];
  };
}

type Own = NonNullable<FileSettings['providers'][string]['resilience']>;

/** The settings for all, overridden by a provider's own. */
export function resilienceOf(all: FileSettings['resilience'], own: Own = {}): ResilienceConfig {
  const retry = { ...all.retry, ...own.retry };
  const breaker = { ...all.circuit_breaker, ...own.circuit_breaker };
  return {
    retry: {
      maxRetries: retry.max_retries,
      initialBackoffMs: retry.initial_backoff,
      maxBackoffMs: retry.max_backoff,
      factor: retry.backoff_factor,
      jitter: retry.jitter_factor,
      onStatuses: retry.on_statuses,
    },
    circuitBreaker: {
      enabled: breaker.enabled,
      failureThreshold: breaker.failure_threshold,
      successThreshold: breaker.success_threshold,
      openMs: breaker.timeout,
      failureOnStatuses: breaker.failure_on_statuses,
    },
  };
}
