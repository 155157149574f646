/** The settings of budgets and rate limits, and their declared rows. */
import type { z } from 'zod';
import {
  decimal,
  duration,
  mapping,
  optionalSetting,
  rows,
  type SettingFacts,
  section,
  setting,
  text,
  toggle,
  whole,
} from './setting.ts';

const LONGEST_SECONDS = 366 * 86_400;
const userPath = text('a user path such as /team/alpha', /^\/?([^\s/]+\/)*[^\s/]*$/);

/** One of two ways to set the length of a period. */
function periodKinds(words: RegExp, expected: string, least: number) {
  return { period: text(expected, words).optional(), period_seconds: whole(least, LONGEST_SECONDS).optional() };
}

interface PeriodInput {
  readonly period?: string | undefined;
  readonly period_seconds?: number | undefined;
}

function hasOnePeriod({ period, period_seconds }: PeriodInput): boolean {
  return (period === undefined) !== (period_seconds === undefined);
}

const onePeriod = { error: () => 'expected period or period_seconds, one of the two' };

const budgetLimit = mapping({
  ...periodKinds(/^(hours?|hourly|days?|daily|weeks?|weekly|months?|monthly)$/i, 'hourly, daily, weekly or monthly', 1),
  amount: decimal(1e-9, 1e12),
}).refine(hasOnePeriod, onePeriod);

const rateLimit = mapping({
  ...periodKinds(
    /^(minutes?|hours?|hourly|days?|daily|concurrent)$/i,
    'minute, hour, day or concurrent (in a variable rpm, tpm, rph, tph, rpd, tpd or concurrent)',
    0,
  ),
  max_requests: whole(1, 1e12).optional(),
  max_tokens: whole(1, 1e15).optional(),
})
  .refine(hasOnePeriod, onePeriod)
  .refine((row) => (row.max_requests ?? row.max_tokens) !== undefined, {
    error: () => 'expected max_requests, max_tokens or both',
  });

function rowsOf<Shape extends z.ZodRawShape>(shape: Shape, facts: SettingFacts = {}) {
  return optionalSetting(rows(mapping(shape)), facts);
}

export const budgetSection = section({
  enabled: setting(toggle(), true, { env: 'BUDGETS_ENABLED', describe: 'enforce budgets; requires usage.enabled' }),
  max_wait: setting(duration(0), '30s', {
    env: 'BUDGETS_MAX_WAIT',
    describe:
      'how long a request waits while others have reserved the rest of its budget and are likely to leave enough; 0 refuses it at once',
  }),
  send_output_limit: setting(toggle(), true, {
    env: 'BUDGETS_SEND_OUTPUT_LIMIT',
    describe:
      "send providers a limit of the answer's tokens for requests under a budget that have none or a larger one than the budget allows; without it, such requests are refused near the end of a budget",
  }),
  default_output_tokens: setting(whole(1, 100_000_000), 32_768, {
    env: 'BUDGETS_DEFAULT_OUTPUT_TOKENS',
    describe: 'tokens of the longest answer of a model whose output limit and context window are not known',
  }),
  user_paths: rowsOf(
    { path: userPath, limits: rows(budgetLimit) },
    { describe: 'spending limits in US dollars; in the environment SET_BUDGET_TEAM__ALPHA="daily=10,weekly=50"' },
  ),
  labels: rowsOf({ label: text('a label', /\S/), limits: rows(budgetLimit) }),
});

export const rateLimitSection = section({
  enabled: setting(toggle(), true, { env: 'RATE_LIMITS_ENABLED', describe: 'enforce rate limits' }),
  user_paths: rowsOf(
    { path: userPath, limits: rows(rateLimit) },
    { describe: 'rate limits; in the environment SET_RATE_LIMIT_TEAM__ALPHA="rpm=100,tpm=50000,concurrent=10"' },
  ),
  providers: rowsOf(
    { name: text('a provider', /\S/), limits: rows(rateLimit) },
    { describe: 'in the environment SET_PROVIDER_RATE_LIMIT_OPENAI="rpm=500"' },
  ),
  models: rowsOf({ model: text('a model, or provider/model', /\S/), limits: rows(rateLimit) }),
});

/** How requests under budgets reserve their cost. */
export interface ReservationSettings {
  /** 0: requests do not wait for room. */
  readonly maxWaitMs: number;
  readonly sendsLimits: boolean;
  /** Tokens of the longest answer of a model whose limits are not known. */
  readonly usualOutput: number;
}

export interface BudgetConfig {
  readonly enabled: boolean;
  readonly declared: ReturnType<typeof declaredBudgets>;
  readonly reservations?: ReservationSettings;
}
export type RateLimitConfig = ReturnType<typeof rateLimitConfig>;

export function budgetConfig(settings: z.output<typeof budgetSection>): BudgetConfig {
  const { enabled, max_wait: maxWaitMs, send_output_limit: sendsLimits, default_output_tokens: usualOutput } = settings;
  return { enabled, declared: declaredBudgets(settings), reservations: { maxWaitMs, sendsLimits, usualOutput } };
}

/** Subjects and periods are not normalised; amounts are US dollars. */
function declaredBudgets({ user_paths, labels }: Pick<z.output<typeof budgetSection>, 'user_paths' | 'labels'>) {
  const declared = [
    ...(user_paths ?? []).map(({ path, limits }) => ({ scope: 'user_path' as const, subject: path, limits })),
    ...(labels ?? []).map(({ label, limits }) => ({ scope: 'label' as const, subject: label, limits })),
  ];
  return declared.flatMap(({ limits, ...subject }) =>
    limits.map((limit) => ({ ...subject, period: periodOf(limit), amount: limit.amount })),
  );
}

/** Subjects and periods are not normalised. */
export function rateLimitConfig(settings: z.output<typeof rateLimitSection>) {
  const { enabled, user_paths, providers, models } = settings;
  const declared = [
    ...(user_paths ?? []).map(({ path, limits }) => ({ scope: 'user_path' as const, subject: path, limits })),
    ...(providers ?? []).map(({ name, limits }) => ({ scope: 'provider' as const, subject: name, limits })),
    ...(models ?? []).map(({ model, limits }) => ({ scope: 'model' as const, subject: model, limits })),
  ];
  return {
    enabled,
    declared: declared.flatMap(({ limits, ...subject }) =>
      limits.map((limit) => ({
        ...subject,
        period: periodOf(limit),
        maxRequests: limit.max_requests ?? null,
        maxTokens: limit.max_tokens ?? null,
      })),
    ),
  };
}

function periodOf({ period, period_seconds }: PeriodInput): string {
  return period ?? String(period_seconds);
}
