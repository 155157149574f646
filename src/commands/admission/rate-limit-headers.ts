/**
 * `x-ratelimit-*`: the remaining room in the tightest of the limits that a request has passed and whose amounts its
 * key may read.
 */
import { mayReadAmounts, type SightedKey } from '../visibility.ts';
import type { RequestGauges } from './rate-limiter.ts';
import type { SlidingWindow } from './sliding-window.ts';

interface RemainingLimit {
  readonly limit: number;
  readonly remaining: number;
  readonly resetMs: number;
}

/** @returns undefined when none of them limits a period; empty when the key may read the amounts of none */
export function rateLimitHeaders(
  gauges: RequestGauges,
  key: SightedKey | undefined,
  at: number,
): Record<string, string> | undefined {
  let requests: RemainingLimit | undefined;
  let tokens: RemainingLimit | undefined;
  let isHidden = false;
  for (const gauge of gauges) {
    if (!mayReadAmounts(key, gauge.rule)) {
      isHidden ||= gauge.requests !== undefined || gauge.tokens !== undefined;
      continue;
    }
    requests = lower(requests, roomIn(gauge.requests, gauge.rule.maxRequests, at));
    tokens = lower(tokens, roomIn(gauge.tokens, gauge.rule.maxTokens, at));
  }
  if (requests === undefined && tokens === undefined) return isHidden ? {} : undefined;
  const headers: Record<string, string> = {};
  if (requests !== undefined) setHeaders(headers, 'requests', requests);
  if (tokens !== undefined) setHeaders(headers, 'tokens', tokens);
  return headers;
}

function roomIn(window: SlidingWindow | undefined, limit: number | null, at: number): RemainingLimit | undefined {
  if (window === undefined || limit === null) return undefined;
  return { limit, remaining: Math.max(0, limit - window.used(at)), resetMs: window.msUntilLess(at) };
}

function lower(one: RemainingLimit | undefined, other: RemainingLimit | undefined): RemainingLimit | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return other.remaining < one.remaining ? other : one;
}

/** The reset is the time until there is more room than now, in OpenAI's format: `12s`. */
function setHeaders(
  headers: Record<string, string>,
  what: 'requests' | 'tokens',
  { limit, remaining, resetMs }: RemainingLimit,
): void {
  headers[`x-ratelimit-limit-${what}`] = String(limit);
  headers[`x-ratelimit-remaining-${what}`] = String(remaining);
  headers[`x-ratelimit-reset-${what}`] = `${Math.ceil(resetMs / 1000)}s`;
}
