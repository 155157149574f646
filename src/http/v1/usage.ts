/** `GET /v1/usage`: the caller's remaining budgets and limits. For every key; not an exchange, and not counted. */
import { z } from 'zod';
import { usdOf } from '../../commands/limits/budget.ts';
import { budgetPeriodLabel, rateLimitPeriodLabel } from '../../commands/limits/period.ts';
import type { Caller } from '../../commands/model-request/model-request.ts';
import { mayReadAmounts } from '../../commands/visibility.ts';
import type { EpochMs, UserPath } from '../../events/event.ts';
import { ruleMembers, ruleSubject } from '../admin/limits/limit-subject.ts';
import type { Counted } from '../admin/limits/rate-limits.ts';
import { usageSummary } from '../admin/reports/usage-answers.ts';
import { numberParameter, parameterWithDefault, queryOfParameters, textParameter } from '../api/parameters.ts';
import { anyKey, jsonAnswer, type Routes } from '../api/route-schema.ts';
import { type ReportRange, reportRange, timeText } from '../dates.ts';
import { type Query, queryOf, single, wholeNumber } from '../request-head.ts';
import { callerOf, type ReadToPresent } from '../server.ts';

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
  /** Awaited before each read; undefined where no other gateway can use the log. */
  readonly readToPresent?: ReadToPresent | undefined;
  now(): EpochMs;
}

/** Usage in US dollars and tokens; null when it is temporarily unknown. */
export interface UsageFigures {
  (query: UsageFiguresQuery): Promise<object | null>;
  /** Whether usage is not counted: tracking of usage, or analytics, is off. */
  isOff(): boolean;
}

export interface UsageFiguresQuery {
  /** The path and everything below it; undefined is everything. */
  readonly subtree: UserPath | undefined;
  /** Only usage by this key. */
  readonly keyId: string | undefined;
  /** Milliseconds since the epoch: `from` is inclusive, `until` exclusive. */
  readonly from: number;
  readonly until: number;
}

const usd = z.number().nullable().describe('US dollars; null when the key does not see the amounts of the budget');
const count = z.int().nullable().describe('null when the key does not see the amounts of the limit');
const ratio = z.number().nullable();

const budget = z.object({
  ...ruleSubject,
  scope: z.enum(['user_path', 'label']),
  amount: usd,
  spent: usd,
  remaining: usd,
  usage_ratio: ratio.describe('More than 1 when the budget is exceeded'),
  period_start: z.string(),
  period_end: z.string(),
  resets_in_seconds: z.int(),
  exceeded: z.boolean(),
});

const rateLimit = z.object({
  user_path: z.string(),
  subject: z.string(),
  period_seconds: z.int(),
  period_label: z.string(),
  max_requests: count.optional(),
  requests_used: count,
  requests_remaining: count.optional(),
  requests_usage_ratio: ratio.optional(),
  max_tokens: count.optional(),
  tokens_used: count,
  tokens_remaining: count.optional(),
  tokens_usage_ratio: ratio.optional(),
  in_flight: count,
  window_start: z.string().optional(),
  window_end: z.string().optional(),
  resets_in_seconds: z.int().optional(),
  exhausted: z.boolean(),
});

const usage = z.object({
  object: z.literal('usage'),
  user_path: z.string(),
  server_time: z.string(),
  usage: usageSummary.extend({ start_date: z.string(), end_date: z.string() }).nullable(),
  usage_state: z
    .enum(['counted', 'off', 'unknown'])
    .describe('`off`: usage tracking or analytics is off, and the figures are 0; `unknown`: `usage` is null'),
  budgets: z.array(budget),
  rate_limits: z.array(rateLimit),
});

const DAYS = { least: 1, most: 365 };

const getUsage = anyKey('getUsage', "Get the usage of the caller's user path, and its remaining budgets and limits", {
  description:
    'Usage includes all paths below the path. For a key without a path it is the usage of the key itself. It is null when it is temporarily unknown. ' +
    'Budgets and limits are those of the path, of the paths above it and of the labels of the key. ' +
    'Limits above the path of the key and those of labels have null for amounts, and state whether and until when they are reached.',
  tag: 'models',
  querystring: queryOfParameters({
    days: parameterWithDefault(
      numberParameter(DAYS, 'The last days, up to and including today. Ignored with a date'),
      30,
    ),
    start_date: textParameter('First day in UTC, `YYYY-MM-DD`. Default: 29 days before the end', { format: 'date' }),
    end_date: textParameter('Last day in UTC, `YYYY-MM-DD`. Default: today', { format: 'date' }),
  }),
  response: { 200: jsonAnswer('Usage, budgets and rate limits', usage) },
});

export function registerUsage(
  app: Routes,
  { budgetsOf, rateLimitsOf, figures, now, readToPresent }: UsageOptions,
): void {
  app.get('/v1/usage', getUsage, async (request) => {
    await readToPresent?.();
    const caller = callerOf(request);
    const { userPath = '/', key } = caller;
    const at = now();
    const { from, until, startDate, endDate } = rangeIn(queryOf(request), at);
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
      usage_state: used === null ? 'unknown' : figures.isOff() ? 'off' : 'counted',
      budgets: budgetsOf(userPath, key?.labels ?? [], at).map((budget) => of(budget, budgetView)),
      rate_limits: rateLimitsOf(userPath, at).map((limit) => of({ scope: 'user_path', ...limit }, rateLimitView)),
    };
  });
}

/** Usage of the path of a bound key or of the master key; only of the key itself when it has no path. */
function ownOf(userPath: string, { key, visibility }: Caller): Pick<UsageFiguresQuery, 'subtree' | 'keyId'> {
  const isBound = key?.userPath !== undefined && visibility.of !== 'own';
  return { subtree: userPath === '/' ? undefined : (userPath as UserPath), keyId: isBound ? undefined : key?.id };
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
  const days = wholeNumber(query, 'days', DAYS);
  const dates = { start_date: single(query['start_date']), end_date: single(query['end_date']) };
  return reportRange({ days, ...dates }, 'UTC', at);
}
