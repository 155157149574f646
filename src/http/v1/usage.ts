/** `GET /v1/usage`: the caller's remaining budgets and limits. For every key; not an exchange, and not counted. */

import { usdOf } from '../../commands/budgets/money.ts';
import type { Caller } from '../../commands/model-request/caller.ts';
import { budgetPeriodLabel, rateLimitPeriodLabel } from '../../commands/period.ts';
import { mayReadAmounts } from '../../commands/visibility.ts';
import type { UserPath } from '../../events/event.ts';
import { anyKey } from '../access-class.ts';
import { ruleMembers } from '../admin/limit-subject.ts';
import type { Counted } from '../admin/rate-limit-rows.ts';
import type { Routes } from '../api/route-schema.ts';
import { type ReportRange, reportRange } from '../date-range.ts';
import { type Query, single, wholeNumber } from '../query.ts';
import { callerOf } from '../server.ts';
import { timeText } from '../time-text.ts';

/** A budget in its current period. Nano-dollars; milliseconds since the epoch. */
export interface UsableBudget {
  readonly scope: 'user_path' | 'label';
  readonly subject: string;
  readonly periodSeconds: number;
  readonly amount: number;
  readonly spent: number;
  readonly start: number;
  readonly end: number;
}

export interface UsableRateLimit extends Counted {
  readonly subject: string;
  /** 0: a limit of concurrent requests. */
  readonly periodSeconds: number;
  readonly maxRequests: number | null;
  readonly maxTokens: number | null;
  /** Time until the window has more room. */
  readonly resetMs: number;
}

export interface UsageOptions {
  /** None while budgets are off. */
  budgetsOf(userPath: string, labels: readonly string[], at: number): readonly UsableBudget[];
  /** Those of the path and of its ancestors; none while rate limits are off. */
  rateLimitsOf(userPath: string, at: number): readonly UsableRateLimit[];
  readonly figures: UsageFigures;
  /** Milliseconds since the epoch. */
  now(): number;
}

/** Usage in US dollars and tokens; null when it is temporarily unknown. */
export type UsageFigures = (query: UsageFiguresQuery) => Promise<object | null>;

export interface UsageFiguresQuery {
  /** The path and everything below it; undefined is everything. */
  readonly subtree: UserPath | undefined;
  /** Only usage by this key. */
  readonly keyId: string | undefined;
  /** Milliseconds since the epoch: `from` is inclusive, `until` exclusive. */
  readonly from: number;
  readonly until: number;
}

export function registerUsage(app: Routes, { budgetsOf, rateLimitsOf, figures, now }: UsageOptions): void {
  app.get<{ Querystring: Query }>('/v1/usage', anyKey, async (request) => {
    const caller = callerOf(request);
    const { userPath = '/', key } = caller;
    const at = now();
    const { from, until, startDate, endDate } = rangeIn(request.query, at);
    const used = await figures({ from, until, ...ownOf(userPath, caller) });
    const of = <Limit extends { readonly scope: string; readonly subject: string }, View extends object>(
      limit: Limit,
      view: (limit: Limit, at: number) => View,
    ) => (mayReadAmounts(key, limit) ? view(limit, at) : withoutAmounts(view(limit, at)));
    return {
      object: 'usage',
      user_path: userPath,
      server_time: timeText(at),
      usage: used === null ? null : { start_date: startDate, end_date: endDate, ...used },
      budgets: budgetsOf(userPath, key?.labels ?? [], at).map((budget) => of(budget, budgetView)),
      rate_limits: rateLimitsOf(userPath, at).map((limit) => of({ scope: 'user_path', ...limit }, rateLimitView)),
    };
  });
}

/** Usage of the path of a bound key or of the master key; only of the key itself when it has no path. */
function ownOf(userPath: string, { key, sight }: Caller): Pick<UsageFiguresQuery, 'subtree' | 'keyId'> {
  const isBound = key?.userPath !== undefined && sight.of !== 'own';
  return {
    subtree: userPath === '/' ? undefined : (userPath as UserPath),
    keyId: isBound ? undefined : key?.id,
  };
}

/** Members with allowed and used amounts. */
const AMOUNTS: ReadonlySet<string> = new Set([
  'amount',
  'spent',
  'remaining',
  'usage_ratio',
  'max_requests',
  'requests_used',
  'requests_remaining',
  'requests_usage_ratio',
  'max_tokens',
  'tokens_used',
  'tokens_remaining',
  'tokens_usage_ratio',
  'in_flight',
]);

/** The remaining members state whether the limit is reached, and until when. */
function withoutAmounts(view: object): object {
  return Object.fromEntries(Object.entries(view).map(([name, value]) => [name, AMOUNTS.has(name) ? null : value]));
}

function budgetView(budget: UsableBudget, at: number) {
  const { amount, spent, start, end } = budget;
  return {
    ...ruleMembers(budget, budgetPeriodLabel),
    amount: usdOf(amount),
    spent: usdOf(spent),
    remaining: usdOf(amount - spent),
    usage_ratio: spent / amount,
    period_start: timeText(start),
    period_end: timeText(end),
    resets_in_seconds: Math.ceil((end - at) / 1000),
    exceeded: spent >= amount,
  };
}

function rateLimitView(limit: UsableRateLimit, at: number) {
  const { subject, periodSeconds, maxRequests, maxTokens, tokens, inFlight, resetMs } = limit;
  const isConcurrent = periodSeconds === 0;
  const requests = isConcurrent ? inFlight : limit.requests;
  return {
    user_path: subject,
    subject,
    period_seconds: periodSeconds,
    period_label: rateLimitPeriodLabel(periodSeconds),
    ...(maxRequests === null ? {} : { max_requests: maxRequests }),
    requests_used: requests,
    ...(maxRequests === null
      ? {}
      : { requests_remaining: Math.max(0, maxRequests - requests), requests_usage_ratio: requests / maxRequests }),
    ...(maxTokens === null ? {} : { max_tokens: maxTokens }),
    tokens_used: tokens,
    ...(maxTokens === null
      ? {}
      : { tokens_remaining: Math.max(0, maxTokens - tokens), tokens_usage_ratio: tokens / maxTokens }),
    in_flight: inFlight,
    ...(isConcurrent
      ? {}
      : {
          window_start: timeText(at - periodSeconds * 1000),
          window_end: timeText(at),
          resets_in_seconds: Math.ceil(resetMs / 1000),
        }),
    exhausted: (maxRequests !== null && requests >= maxRequests) || (maxTokens !== null && tokens >= maxTokens),
  };
}

/** Days in UTC, both inclusive; dates win over `days`. @throws Refusal 400 */
function rangeIn(query: Query, at: number): ReportRange {
  const days = wholeNumber(query, 'days', { least: 1, most: 365 });
  const dates = { start_date: single(query['start_date']), end_date: single(query['end_date']) };
  return reportRange({ days, ...dates }, 'UTC', at);
}
