/** OpenAPI operation of the remaining limits of a caller. */
import { z } from 'zod';
import { json, type Operation, query } from './openapi-operation.ts';

const usd = z.number().describe('US dollars');
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
];
