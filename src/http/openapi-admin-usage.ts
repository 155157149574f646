/** OpenAPI operations of the usage reports. */
import { z } from 'zod';
import { cacheModes } from '../projections/analytics/usage-filter.ts';
import { granularities, intervals } from './admin/usage-answers.ts';
import { header, json, type Operation, type Parameter, query } from './openapi-operation.ts';

/** Parameters of every report. */
export const rangeParameters: readonly Parameter[] = [
  query('start_date', '`YYYY-MM-DD`; without it, 29 days before the end'),
  query('end_date', '`YYYY-MM-DD`, inclusive; without it, today'),
  query('days', 'The last so many days, today among them. Dates win over it.', z.int().default(30)),
  query('user_path', 'A user path, with all below it; for an administrator of a subtree, within that'),
  header('X-Gateway-Timezone', 'The IANA zone in which days begin; UTC when absent or unknown'),
];

const which: readonly Parameter[] = [
  query('model', "The provider's id of a model"),
  query('provider', "A provider's name, or its type"),
  query('label', 'A label that the request had'),
  query('session_id', 'A session'),
];
const mode = query(
  'cache_mode',
  'Whether what a cache of the gateway answered is counted',
  z.enum(cacheModes).default('uncached'),
);
const interval = query('interval', 'How long a period is', z.enum(intervals).default('daily'));
const filters = [...rangeParameters, ...which, mode];

const tokens = {
  input_tokens: z.int(),
  uncached_input_tokens: z.int(),
  cached_input_tokens: z.int().describe('read from the prompt cache of a provider'),
  cache_write_input_tokens: z.int(),
  output_tokens: z.int(),
  total_tokens: z.int(),
};
const usd = z.number().nullable().describe('US dollars; null is not known. Of what providers answered');
const costs = { input_cost: usd, output_cost: usd, total_cost: usd };
const figures = { requests: z.int(), ...tokens, ...costs };
const breakdown = { ...figures, local_cached_input_tokens: z.int(), local_cached_output_tokens: z.int() };
const errors = [400, 401, 403, 503];

/** A report whose answer is a list. */
function list(name: string, id: string, summary: string, row: z.ZodRawShape, description: string): Operation {
  return {
    operationId: id,
    methods: ['GET'],
    path: `/admin/usage/${name}`,
    summary,
    tag: 'admin',
    parameters: filters,
    success: { description, content: json(z.array(z.object(row))) },
    errors,
  };
}

const mostFirst = 'Those with the most tokens first, at most 5000';

const entry = z.object({
  id: z.string(),
  exchange_id: z.string(),
  request_id: z.string(),
  provider_id: z.string().optional().describe("the provider's own id of the answer, or of work that went on after it"),
  timestamp: z.string(),
  model: z.string(),
  provider: z.string().describe('its type'),
  provider_name: z.string(),
  endpoint: z.string(),
  user_path: z.string(),
  session_id: z.string().optional(),
  cache_type: z.string().optional(),
  labels: z.array(z.string()).optional(),
  input_tokens: z.int().nullable().describe('null when the provider did not report it'),
  output_tokens: z.int().nullable(),
  total_tokens: z.int().nullable(),
  uncached_input_tokens: z.int().nullable(),
  cached_input_tokens: z.int().nullable(),
  cache_write_input_tokens: z.int().nullable(),
  reasoning_tokens: z.int().nullable(),
  cached_input_ratio: z.number().optional(),
  ...costs,
  cost_source: z.string().optional(),
  costs_calculation_caveat: z.string().optional(),
  usage_source: z.string(),
  estimated: z.literal(true).optional(),
  estimated_input_tokens: z.number().optional(),
  estimated_output_tokens: z.number().optional(),
  raw_data: z.unknown().optional().describe('as the provider reported it'),
});

const page = { total: z.int(), limit: z.int(), offset: z.int() };
const hits = { exact_hits: z.int(), semantic_hits: z.int() };

export const usageOperations: readonly Operation[] = [
  {
    operationId: 'getUsageSummary',
    methods: ['GET'],
    path: '/admin/usage/summary',
    summary: 'What was used in all',
    tag: 'admin',
    parameters: filters,
    success: {
      description: 'Zeros while usage is not tracked',
      content: json(
        z.object({
          total_requests: z.int(),
          total_input_tokens: z.int(),
          uncached_input_tokens: z.int(),
          cached_input_tokens: z.int(),
          cache_write_input_tokens: z.int(),
          total_output_tokens: z.int(),
          total_tokens: z.int(),
          total_input_cost: usd,
          total_output_cost: usd,
          total_cost: usd,
          rewrite_tokens_saved: z.int(),
          rewrite_cost_saved: usd,
        }),
      ),
    },
    errors,
  },
  {
    ...list(
      'daily',
      'listUsagePeriods',
      'What was used, by day, week, month or year',
      { date: z.string().describe('`YYYY-MM-DD`, `YYYY-Www`, `YYYY-MM` or `YYYY`'), ...figures },
      'Oldest first; a period in which nothing was used has no row',
    ),
    parameters: [...filters, interval],
  },
  list(
    'models',
    'listUsageByModel',
    'What was used, by model and provider',
    { model: z.string(), provider: z.string().describe('its type'), provider_name: z.string(), ...breakdown },
    mostFirst,
  ),
  list(
    'user-paths',
    'listUsageByUserPath',
    'What was used, by user path',
    { user_path: z.string().describe('`/` where there was none'), ...breakdown },
    mostFirst,
  ),
  list(
    'labels',
    'listUsageByLabel',
    'What was used, by label',
    { label: z.string(), ...breakdown },
    `${mostFirst}. A request with several labels counts under each`,
  ),
  {
    operationId: 'listUsageBySession',
    methods: ['GET'],
    path: '/admin/usage/sessions',
    summary: 'What was used, by session',
    tag: 'admin',
    parameters: [
      ...rangeParameters,
      ...which,
      query('limit', 'At most 200; more is cut to that', z.int().default(50)),
      query('offset', 'How many sessions to leave out', z.int().default(0)),
    ],
    success: {
      description:
        'Those that were used last first. Requests and tokens are counted with what a cache answered, costs without',
      content: json(
        z.object({
          entries: z.array(z.object({ session_id: z.string(), user_path: z.string(), ...figures })),
          ...page,
        }),
      ),
    },
    errors,
  },
  {
    operationId: 'listUsage',
    methods: ['GET'],
    path: '/admin/usage/log',
    summary: 'What each request used',
    tag: 'admin',
    parameters: [
      ...filters,
      query('search', "A part of the model, the provider, the request's id or the session's"),
      query('limit', 'From 1 to 200', z.int().default(50)),
      query('offset', 'How many entries to leave out', z.int().default(0)),
    ],
    success: {
      description: 'Newest first, at the costs that are known today',
      content: json(z.object({ entries: z.array(entry), ...page })),
    },
    errors,
  },
  {
    operationId: 'getThroughput',
    methods: ['GET'],
    path: '/admin/usage/throughput',
    summary: 'How many tokens pass, up to now',
    tag: 'admin',
    parameters: [
      query(
        'granularity',
        'Required. The answer has 60 seconds, 60 minutes, 24 hours or 30 days',
        z.enum(Object.keys(granularities)),
      ),
    ],
    success: {
      description: 'Every bucket, oldest first; the last is the one in which now is',
      content: json(
        z.object({
          granularity: z.string(),
          bucket_seconds: z.int(),
          buckets: z.array(
            z.object({
              start: z.string(),
              input_tokens: z.int(),
              output_tokens: z.int(),
              prompt_cached_tokens: z.int(),
              locally_cached_tokens: z.int(),
            }),
          ),
        }),
      ),
    },
    errors,
  },
  {
    operationId: 'getCacheOverview',
    methods: ['GET'],
    path: '/admin/cache/overview',
    summary: 'What caches of the gateway answered, and what that saved',
    tag: 'admin',
    parameters: [...rangeParameters, ...which, interval],
    success: {
      description: 'In all, and by period',
      content: json(
        z.object({
          summary: z.object({
            total_hits: z.int(),
            ...hits,
            total_input_tokens: z.int(),
            total_output_tokens: z.int(),
            total_tokens: z.int(),
            total_saved_cost: usd,
          }),
          daily: z.array(
            z.object({
              date: z.string(),
              hits: z.int(),
              ...hits,
              input_tokens: z.int(),
              output_tokens: z.int(),
              total_tokens: z.int(),
              saved_cost: usd,
            }),
          ),
        }),
      ),
    },
    errors,
  },
];
