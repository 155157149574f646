/** OpenAPI operations of budgets, rate limits and their current usage. */
import { z } from 'zod';
import { asOf, ifMatchHeader, json, type Operation, query } from './openapi-operation.ts';

const usd = z.number().describe('US dollars');
const periodName = z.string().describe('`hourly`, `daily`, `weekly`, `monthly`, or a number of seconds');
const rateName = z.string().describe('`minute`, `hour`, `day`, `concurrent`, or a number of seconds');
const source = z.enum(['manual', 'config']).describe('`config`: declared in the configuration, and read-only here');

const budget = z.object({
  scope: z.enum(['user_path', 'label']),
  subject: z.string(),
  user_path: z.string().optional(),
  per_child: z.boolean(),
  period_seconds: z.int(),
  period_label: z.string(),
  amount: usd,
  source,
  last_reset_at: z.string().optional(),
  created_at: z.string(),
  updated_at: z.string(),
  revision: z.string().optional(),
  period_start: z.string(),
  period_end: z.string(),
  spent: usd.nullable().describe('US dollars; null in a list of another time'),
  has_usage: z.boolean().nullable(),
  remaining: usd.nullable().describe('may be negative'),
  usage_ratio: z.number().nullable().describe('from 0 to 1'),
  period_ratio: z.number().describe('from 0 to 1'),
});
const budgets = z.object({
  budgets: z.array(budget),
  server_time: z.string(),
});

const rateLimit = z.object({
  scope: z.enum(['user_path', 'provider', 'model']),
  subject: z.string(),
  user_path: z.string().optional(),
  per_child: z.boolean(),
  period_seconds: z.int(),
  period_label: z.string(),
  max_requests: z.int().optional(),
  max_tokens: z.int().optional(),
  source,
  created_at: z.string(),
  updated_at: z.string(),
  revision: z.string().optional(),
  window_start: z.string().optional(),
  window_end: z.string().optional(),
  requests_used: z.int().nullable(),
  requests_remaining: z.int().nullable().optional(),
  tokens_used: z.int().nullable(),
  tokens_remaining: z.int().nullable().optional(),
  in_flight: z.int().nullable(),
});
const rateLimits = z.object({
  rate_limits: z.array(rateLimit),
  server_time: z.string(),
});

const subject = {
  scope: z.string().optional().describe('`user_path` when absent'),
  subject: z.string().optional(),
  user_path: z.string().optional().describe('instead of `subject`, for a user path'),
  per_child: z.boolean().optional().describe('only `false`'),
};
const budgetKey = z.object({ period: periodName.optional(), period_seconds: z.int().optional() });
const limitKey = z.object({ period: rateName.optional(), period_seconds: z.int().optional() });
const amount = z.number().describe('US dollars, greater than 0');

const settingsMembers = {
  daily_reset_hour: z.int().min(0).max(23),
  daily_reset_minute: z.int().min(0).max(59),
  weekly_reset_weekday: z.int().min(0).max(6).describe('0 is Sunday'),
  weekly_reset_hour: z.int().min(0).max(23),
  weekly_reset_minute: z.int().min(0).max(59),
  monthly_reset_day: z.int().min(1).max(31).describe('a day beyond the end of the month is its last'),
  monthly_reset_hour: z.int().min(0).max(23),
  monthly_reset_minute: z.int().min(0).max(59),
};
const settings = z.object({ ...settingsMembers, updated_at: z.string().nullable() });
const confirmation = z.object({ confirmation: z.literal('reset') });
const done = z.object({ status: z.literal('ok') });

const usage = z.object({
  object: z.literal('usage'),
  user_path: z.string(),
  server_time: z.string(),
  usage: z
    .object({
      start_date: z.string(),
      end_date: z.string(),
      total_requests: z.int(),
      total_input_tokens: z.int(),
      total_output_tokens: z.int(),
      total_tokens: z.int(),
      uncached_input_tokens: z.int(),
      cached_input_tokens: z.int(),
      cache_write_input_tokens: z.int(),
      total_input_cost: z.number().nullable(),
      total_output_cost: z.number().nullable(),
      total_cost: z.number().nullable(),
      rewrite_tokens_saved: z.int(),
      rewrite_cost_saved: z.number().nullable(),
    })
    .nullable(),
  budgets: z.array(
    z.object({
      scope: z.enum(['user_path', 'label']),
      subject: z.string(),
      user_path: z.string().optional(),
      per_child: z.boolean(),
      period_seconds: z.int(),
      period_label: z.string(),
      amount: usd.nullable(),
      spent: usd.nullable(),
      remaining: usd.nullable(),
      usage_ratio: z.number().nullable().describe('above 1 when it is exceeded'),
      period_start: z.string(),
      period_end: z.string(),
      resets_in_seconds: z.int(),
      exceeded: z.boolean(),
    }),
  ),
  rate_limits: z.array(
    z.object({
      user_path: z.string(),
      subject: z.string(),
      period_seconds: z.int(),
      period_label: z.string(),
      max_requests: z.int().nullish(),
      requests_used: z.int().nullable(),
      requests_remaining: z.int().nullish(),
      requests_usage_ratio: z.number().nullish(),
      max_tokens: z.int().nullish(),
      tokens_used: z.int().nullable(),
      tokens_remaining: z.int().nullish(),
      tokens_usage_ratio: z.number().nullish(),
      in_flight: z.int().nullable(),
      window_start: z.string().optional(),
      window_end: z.string().optional(),
      resets_in_seconds: z.int().optional(),
      exhausted: z.boolean(),
    }),
  ),
});

const ofPath = {
  user_path: 'A user path, with its slashes as `%2F`',
  period: 'The name of a period, or its seconds',
};
const allBudgets = { description: 'All budgets that the caller may see', content: json(budgets) };
const allRateLimits = { description: 'All rate limits that the caller may see', content: json(rateLimits) };
const changeErrors = [400, 401, 403, 404, 409, 503];

export const limitOperations: readonly Operation[] = [
  {
    operationId: 'getUsage',
    methods: ['GET'],
    path: '/v1/usage',
    summary: 'What is left to the caller',
    description:
      "What the caller's user path used, with all below it, and the budgets and rate limits of that path and of the paths " +
      'above it. To a key that is bound to no path the usage is what it used itself; null when it is not known at the moment. ' +
      'Limits above the path of the key, and those of labels, have null for amounts; they state whether and until when they bind.',
    tag: 'models',
    parameters: [
      query('days', 'From 1 to 365; dates win', z.int().default(30)),
      query('start_date', 'A day in UTC, such as `2026-03-01`'),
      query('end_date', 'A day in UTC, inclusive'),
    ],
    success: { description: 'It', content: json(usage) },
    errors: [400, 401],
  },
  {
    operationId: 'listBudgets',
    methods: ['GET'],
    path: '/admin/budgets',
    summary: 'The budgets, and what is spent of them',
    tag: 'admin',
    parameters: [asOf],
    success: allBudgets,
    errors: [400, 401, 403, 503],
  },
  {
    operationId: 'getBudget',
    methods: ['GET'],
    path: '/admin/budgets/{user_path}/{period}',
    summary: 'One budget, and what is spent of it',
    tag: 'admin',
    pathParameters: ofPath,
    parameters: [
      query('scope', '`label`: the first part of the path is a label', z.enum(['user_path', 'label'])),
      asOf,
    ],
    success: { description: 'It; `ETag` is the revision of the budgets of its subject', content: json(budget) },
    errors: [400, 401, 403, 404, 503],
  },
  {
    operationId: 'saveBudget',
    methods: ['PUT'],
    path: '/admin/budgets',
    summary: 'Make a budget, or change its amount',
    description: 'The current period continues, and its spending so far counts.',
    tag: 'admin',
    parameters: [ifMatchHeader],
    request: { required: true, schema: z.object({ ...subject, budget_key: budgetKey, amount }) },
    success: allBudgets,
    errors: [400, 401, 403, 409, 503],
  },
  {
    operationId: 'deleteBudget',
    methods: ['DELETE'],
    path: '/admin/budgets',
    summary: 'Delete a budget',
    tag: 'admin',
    parameters: [ifMatchHeader],
    request: { required: true, schema: z.object({ ...subject, budget_key: budgetKey }) },
    success: allBudgets,
    errors: changeErrors,
  },
  {
    operationId: 'saveBudgetOfPath',
    methods: ['PUT'],
    path: '/admin/budgets/{user_path}/{period}',
    summary: 'Make the budget of a user path, or change its amount',
    tag: 'admin',
    pathParameters: ofPath,
    parameters: [ifMatchHeader],
    request: { required: true, schema: z.object({ amount }) },
    success: allBudgets,
    errors: [400, 401, 403, 409, 503],
  },
  {
    operationId: 'deleteBudgetOfPath',
    methods: ['DELETE'],
    path: '/admin/budgets/{user_path}/{period}',
    summary: 'Delete the budget of a user path',
    tag: 'admin',
    pathParameters: ofPath,
    parameters: [ifMatchHeader],
    success: allBudgets,
    errors: changeErrors,
  },
  {
    operationId: 'getBudgetSettings',
    methods: ['GET'],
    path: '/admin/budgets/settings',
    summary: 'When days, weeks and months of budgets begin, in UTC',
    tag: 'admin',
    success: { description: 'They', content: json(settings) },
    errors: [401, 403, 503],
  },
  {
    operationId: 'saveBudgetSettings',
    methods: ['PUT'],
    path: '/admin/budgets/settings',
    summary: 'Move them; what is left out stays',
    tag: 'admin',
    parameters: [ifMatchHeader],
    request: { required: true, schema: z.object(settingsMembers).partial() },
    success: { description: 'They, as they are now', content: json(settings) },
    errors: [400, 401, 403, 409, 503],
  },
  {
    operationId: 'resetBudget',
    methods: ['POST'],
    path: '/admin/budgets/reset-one',
    summary: 'Forgive what was spent of one budget in its running period',
    tag: 'admin',
    parameters: [ifMatchHeader],
    request: { required: true, schema: z.object({ ...subject, ...budgetKey.shape }) },
    success: allBudgets,
    errors: changeErrors,
  },
  {
    operationId: 'resetBudgets',
    methods: ['POST'],
    path: '/admin/budgets/reset',
    summary: 'Forgive what was spent of all budgets',
    tag: 'admin',
    request: { required: true, schema: confirmation },
    success: { description: 'Done', content: json(done) },
    errors: [400, 401, 403, 503],
  },
  {
    operationId: 'listRateLimits',
    methods: ['GET'],
    path: '/admin/rate-limits',
    summary: 'The rate limits, and what is counted in their windows',
    tag: 'admin',
    parameters: [asOf],
    success: allRateLimits,
    errors: [400, 401, 403, 503],
  },
  {
    operationId: 'getRateLimit',
    methods: ['GET'],
    path: '/admin/rate-limits/{scope}/{subject}/{period}',
    summary: 'One rate limit, and what is counted in its window',
    tag: 'admin',
    pathParameters: {
      scope: '`user_path`, `provider` or `model`',
      subject: 'What it is for, with its slashes as `%2F`',
      period: 'The name of a period, or its seconds',
    },
    parameters: [asOf],
    success: { description: 'It; `ETag` is the revision of the rate limits of its subject', content: json(rateLimit) },
    errors: [400, 401, 403, 404, 503],
  },
  {
    operationId: 'saveRateLimit',
    methods: ['PUT'],
    path: '/admin/rate-limits',
    summary: 'Make a rate limit, or change it',
    description: 'What is counted in its window stays.',
    tag: 'admin',
    parameters: [ifMatchHeader],
    request: {
      required: true,
      schema: z.object({
        ...subject,
        limit_key: limitKey,
        max_requests: z.int().min(1).optional(),
        max_tokens: z.int().min(1).optional(),
      }),
    },
    success: allRateLimits,
    errors: [400, 401, 403, 409, 503],
  },
  {
    operationId: 'deleteRateLimit',
    methods: ['DELETE'],
    path: '/admin/rate-limits',
    summary: 'Delete a rate limit',
    tag: 'admin',
    parameters: [ifMatchHeader],
    request: { required: true, schema: z.object({ ...subject, limit_key: limitKey }) },
    success: allRateLimits,
    errors: changeErrors,
  },
  {
    operationId: 'resetRateLimit',
    methods: ['POST'],
    path: '/admin/rate-limits/reset-one',
    summary: 'Empty the window of one rate limit',
    tag: 'admin',
    parameters: [ifMatchHeader],
    request: { required: true, schema: z.object({ ...subject, ...limitKey.shape }) },
    success: allRateLimits,
    errors: changeErrors,
  },
  {
    operationId: 'resetRateLimits',
    methods: ['POST'],
    path: '/admin/rate-limits/reset',
    summary: 'Empty all windows',
    tag: 'admin',
    request: { required: true, schema: confirmation },
    success: { description: 'Done', content: json(done) },
    errors: [400, 401, 403, 503],
  },
];
