/** Rate limits as rows of the API, with the counts of their windows. */
import { z } from 'zod';
import { rateLimitPeriodLabel } from '../../commands/period.ts';
import type { UserPath } from '../../events/event.ts';
import {
  type RateLimitRule,
  type RateLimitScope,
  type RateLimitsState,
  rateLimitKey,
  rateLimitRevision,
} from '../../projections/rate-limits.ts';
import { timeText } from '../dates.ts';
import { isSubjectWithin, ruleAnswer, ruleMembers } from './limit-subject.ts';

const count = z.int().nullable().describe('null in a list of a past time');

export const rateLimitAnswer = z.object({
  ...ruleAnswer,
  scope: z.enum(['user_path', 'provider', 'model']),
  max_requests: z.int().optional(),
  max_tokens: z.int().optional(),
  window_start: z.string().optional().describe('Absent for `concurrent`'),
  window_end: z.string().optional(),
  requests_used: count,
  requests_remaining: count.optional(),
  tokens_used: count,
  tokens_remaining: count.optional(),
  in_flight: count,
});

/** Current counts. */
export interface Counted {
  readonly requests: number;
  readonly tokens: number;
  readonly inFlight: number;
}

/** @returns undefined when the counts are unknown: at a past time */
export type ReadGauge = (key: string) => Counted | undefined;

/**
 * The rate limits that an administrator of the scope may see: user paths, providers, models; the longest period first.
 * @param state of `at`: now or any other time
 */
export function rateLimitRows(
  state: RateLimitsState,
  { gauge, at, scope }: { readonly gauge: ReadGauge; readonly at: number; readonly scope: UserPath | undefined },
) {
  return [...state.rules.values()]
    .filter((rule) => isSubjectWithin(scope, rule))
    .sort(inOrder)
    .map((rule) => rateLimitRow(rule, state, gauge(rateLimitKey(rule.scope, rule.subject, rule.periodSeconds)), at));
}

/** The row of one rate limit; undefined when there is no such limit. */
export function oneRateLimit(
  { scope, subject, periodSeconds }: Pick<RateLimitRule, 'scope' | 'subject' | 'periodSeconds'>,
  state: RateLimitsState,
  gauge: ReadGauge,
  at: number,
) {
  const key = rateLimitKey(scope, subject, periodSeconds);
  const rule = state.rules.get(key);
  return rule === undefined ? undefined : rateLimitRow(rule, state, gauge(key), at);
}

function rateLimitRow(rule: RateLimitRule, state: RateLimitsState, counted: Counted | undefined, at: number) {
  const { scope, subject, periodSeconds, maxRequests, maxTokens, source, createdAt, updatedAt } = rule;
  const isConcurrent = periodSeconds === 0;
  const used = isConcurrent ? counted?.inFlight : counted?.requests;
  return {
    ...ruleMembers(rule, rateLimitPeriodLabel),
    ...(maxRequests === null ? {} : { max_requests: maxRequests }),
    ...(maxTokens === null ? {} : { max_tokens: maxTokens }),
    source,
    created_at: timeText(createdAt),
    updated_at: timeText(updatedAt),
    revision: rateLimitRevision(state, scope, subject),
    ...(isConcurrent ? {} : { window_start: timeText(at - periodSeconds * 1000), window_end: timeText(at) }),
    requests_used: used ?? null,
    ...(maxRequests === null ? {} : { requests_remaining: remaining(maxRequests, used) }),
    tokens_used: counted?.tokens ?? null,
    ...(maxTokens === null ? {} : { tokens_remaining: remaining(maxTokens, counted?.tokens) }),
    in_flight: counted?.inFlight ?? null,
  };
}

function remaining(most: number, used: number | undefined): number | null {
  return used === undefined ? null : Math.max(0, most - used);
}

const ORDER: Record<RateLimitScope, number> = { user_path: 0, provider: 1, model: 2 };

function inOrder(a: RateLimitRule, b: RateLimitRule): number {
  if (a.scope !== b.scope) return ORDER[a.scope] - ORDER[b.scope];
  if (a.subject !== b.subject) return a.subject < b.subject ? -1 : 1;
  return b.periodSeconds - a.periodSeconds;
}
