/** Rate limits: limits in requests and tokens, on streams `rate-limit-<scope>:<subject>`. */
import { rateLimitRemoved, rateLimitReset, rateLimitSet } from '../../events/catalogue/budget.ts';
import { streamName } from '../../events/event.ts';
import { refusals } from '../refusal.ts';
import { type LimitCommand, type LimitKind, limitDecider } from './limit.ts';
import { rateLimitPeriod, rateLimitPeriodLabel } from './period.ts';

export type RateLimitScope = 'user_path' | 'provider' | 'model';

/** Null when not limited. At least one of the two is set. */
export interface RateLimits {
  readonly maxRequests: number | null;
  readonly maxTokens: number | null;
}

/** A period of 0 seconds limits concurrent requests. */
export const rateLimitKind: LimitKind<RateLimitScope, RateLimits> = {
  set: rateLimitSet,
  removed: rateLimitRemoved,
  reset: rateLimitReset,
  noun: 'rate limit',
  notFound: 'rate_limit_not_found',
  streamOf: ({ scope, subject }) => streamName('rate-limit', `${scope}:${subject}`),
  periodOf: rateLimitPeriod,
  periodLabel: rateLimitPeriodLabel,
  isWithin: (bound, { maxRequests, maxTokens }) =>
    isAtMost(bound.maxRequests, maxRequests) && isAtMost(bound.maxTokens, maxTokens),
  textOf({ maxRequests, maxTokens }) {
    const requests = maxRequests === null ? [] : [`${maxRequests} requests`];
    const tokens = maxTokens === null ? [] : [`${maxTokens} tokens`];
    return [...requests, ...tokens].join(' and ');
  },
  managed: refusals.rateLimitManaged,
};

export type RateLimitCommand = LimitCommand<RateLimitScope, RateLimits>;
export const rateLimitDecider = limitDecider(rateLimitKind);

function isAtMost(most: number | null, value: number | null): boolean {
  return most === null || (value !== null && value <= most);
}
