/** `GET /v1/usage`: what is left to whoever asks. For every key, and no exchange: it counts against no limit. */
import type { FastifyInstance } from 'fastify';
import { usdOf } from '../../commands/budgets/money.ts';
import { budgetPeriodLabel, rateLimitPeriodLabel } from '../../commands/period.ts';
import { refusals } from '../../commands/refusal.ts';
import type { Counted } from '../admin/rate-limit-rows.ts';
import { type Query, single } from '../query.ts';
import { callerOf } from '../server.ts';

/** A budget in the period it is in. Nano-dollars; milliseconds since the epoch. */
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
  /** 0: of what is under way at the same time. */
  readonly periodSeconds: number;
  readonly maxRequests: number | null;
  readonly maxTokens: number | null;
  /** Until there is more room than now. */
  readonly resetMs: number;
}

export interface UsageOptions {
  /** None while budgets are off. */
  budgetsOf(userPath: string, labels: readonly string[], at: number): readonly UsableBudget[];
  /** Those of the path and of the paths above it; none while rate limits are off. */
  rateLimitsOf(userPath: string, at: number): readonly UsableRateLimit[];
  /** Milliseconds since the epoch. */
  now(): number;
}

export function registerUsage(app: FastifyInstance, { budgetsOf, rateLimitsOf, now }: UsageOptions): void {
  app.get<{ Querystring: Query }>('/v1/usage', (request) => {
    const { userPath = '/', key } = callerOf(request);
    const at = now();
    const range = rangeIn(request.query, at);
    return {
      object: 'usage',
      user_path: userPath,
      server_time: time(at),
      usage: { ...range, ...nothingCounted },
      budgets: budgetsOf(userPath, key?.labels ?? [], at).map((budget) => budgetView(budget, at)),
      rate_limits: rateLimitsOf(userPath, at).map((limit) => rateLimitView(limit, at)),
    };
  });
}

/** The figures of the range are not told yet. */
const nothingCounted = {
  total_requests: 0,
  total_input_tokens: 0,
  total_output_tokens: 0,
  total_tokens: 0,
  uncached_input_tokens: 0,
  cached_input_tokens: 0,
  cache_write_input_tokens: 0,
  total_input_cost: null,
  total_output_cost: null,
  total_cost: null,
  rewrite_tokens_saved: 0,
  rewrite_cost_saved: null,
};

function budgetView({ scope, subject, periodSeconds, amount, spent, start, end }: UsableBudget, at: number) {
  return {
    scope,
    subject,
    ...(scope === 'user_path' ? { user_path: subject } : {}),
    per_child: false,
    period_seconds: periodSeconds,
    period_label: budgetPeriodLabel(periodSeconds),
    amount: usdOf(amount),
    spent: usdOf(spent),
    remaining: usdOf(amount - spent),
    usage_ratio: spent / amount,
    period_start: time(start),
    period_end: time(end),
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
          window_start: time(at - periodSeconds * 1000),
          window_end: time(at),
          resets_in_seconds: Math.ceil(resetMs / 1000),
        }),
    exhausted: (maxRequests !== null && requests >= maxRequests) || (maxTokens !== null && tokens >= maxTokens),
  };
}

const DAY_MS = 86_400_000;
const USUAL_DAYS = 30;

/** Days in UTC, both inclusive. @throws Refusal 400 */
function rangeIn(query: Query, at: number): { readonly start_date: string; readonly end_date: string } {
  const days = daysIn(single(query['days']));
  const end = dateIn(query, 'end_date') ?? Math.floor(at / DAY_MS) * DAY_MS;
  const given = dateIn(query, 'start_date');
  const start = given ?? end - ((single(query['end_date']) === undefined ? days : USUAL_DAYS) - 1) * DAY_MS;
  if (start > end) throw refusals.invalidRequest("'start_date' is after 'end_date'.", 'start_date');
  return { start_date: time(start).slice(0, 10), end_date: time(end).slice(0, 10) };
}

function daysIn(written: string | undefined): number {
  if (written === undefined) return USUAL_DAYS;
  const days = Number(written);
  if (Number.isInteger(days) && days >= 1 && days <= 365) return days;
  throw refusals.invalidRequest("'days' must be a whole number from 1 to 365.", 'days');
}

/** Milliseconds since the epoch at which the day begins. */
function dateIn(query: Query, name: 'start_date' | 'end_date'): number | undefined {
  const written = single(query[name]);
  if (written === undefined) return undefined;
  const at = /^\d{4}-\d\d-\d\d$/.test(written) ? Date.parse(`${written}T00:00:00Z`) : Number.NaN;
  // A day that there is not, such as the 30th of February, would become another.
  if (!Number.isNaN(at) && time(at).startsWith(written)) return at;
  throw refusals.invalidRequest(`'${name}' must be a date such as 2026-03-01.`, name);
}

function time(ms: number): string {
  return new Date(ms).toISOString();
}
