import type { FileSettings } from './schema.ts';

type Own = NonNullable<FileSettings['providers'][string]['resilience']>;

export type ResilienceConfig = Readonly<ReturnType<typeof resilienceOf>>;

/** The settings for all, overridden by a provider's own. Statuses are ascending. */
export function resilienceOf(all: FileSettings['resilience'], own: Own = {}) {
  const retry = { ...all.retry, ...own.retry };
  const breaker = { ...all.circuit_breaker, ...own.circuit_breaker };
  return {
    retry: {
      /** Further attempts after the first. */
      maxRetries: retry.max_retries,
      initialBackoffMs: retry.initial_backoff,
      maxBackoffMs: retry.max_backoff,
      factor: retry.backoff_factor,
      /** Share of the wait that is random, 0 to 1. */
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
