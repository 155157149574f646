/**
 * The budget family: spending limits, on stream `budget-<path>` or `budget-label:<label>`, and when periods begin.
 * The rate limit family: limits per period, on stream `rate-limit-<scope>:<subject>`.
 * The price family: prices of models that administrators set, on stream `price-<selector>`.
 */
import { z } from 'zod';
import { defineEvent } from './define.ts';

/** Identifies a budget: one subject may have one budget for each period. */
const budget = {
  scope: z.enum(['user_path', 'label']),
  subject: z.string().describe('the user path, for it and all below it; or the label'),
  periodSeconds: z
    .number()
    .int()
    .describe(
      '3600, 86400, 604800 and 2592000 are the calendar hour, day, week and month; others count from the epoch',
    ),
};

export const budgetSet = defineEvent({
  type: 'budget.set',
  when: 'A budget was created or its amount was changed. The running period continues.',
  data: z.object({
    ...budget,
    amount: z.string().describe('nano-dollars for each period'),
    source: z.enum(['manual', 'config']).describe('`config`: declared in the configuration, which alone may change it'),
  }),
});

export const budgetRemoved = defineEvent({
  type: 'budget.removed',
  when: 'A budget was removed, or is no longer declared in the configuration.',
  data: z.object(budget),
});

export const budgetReset = defineEvent({
  type: 'budget.reset',
  when: 'The spending of the running period was set to zero. The period still ends at its regular time.',
  data: z.object(budget),
});

export const budgetSettingsChanged = defineEvent({
  type: 'budget_settings.changed',
  when: 'The times at which days, weeks and months of budgets begin were changed. On stream `settings-budgets`.',
  data: z.object({
    dailyResetHour: z.number().int().describe('UTC, as are the other times'),
    dailyResetMinute: z.number().int(),
    weeklyResetWeekday: z.number().int().describe('0 is Sunday'),
    weeklyResetHour: z.number().int(),
    weeklyResetMinute: z.number().int(),
    monthlyResetDay: z.number().int().describe('in shorter months the last day'),
    monthlyResetHour: z.number().int(),
    monthlyResetMinute: z.number().int(),
  }),
});

/** Identifies a rule: one subject may have one for each period. */
const rule = {
  scope: z.enum(['user_path', 'provider', 'model']),
  subject: z
    .string()
    .describe('the user path, for it and all below it; the provider; `<provider>/<model>` or `<model>`'),
  periodSeconds: z.number().int().describe('length of the sliding window; 0 limits concurrent requests'),
};

export const rateLimitSet = defineEvent({
  type: 'rate_limit.set',
  when: 'A rate limit was created or changed. The counts of its window are kept.',
  data: z.object({
    ...rule,
    maxRequests: z.number().int().nullable().describe('null: not limited'),
    maxTokens: z.number().int().nullable().describe('null: not limited'),
    source: z.enum(['manual', 'config']).describe('`config`: declared in the configuration, which alone may change it'),
  }),
});

export const rateLimitRemoved = defineEvent({
  type: 'rate_limit.removed',
  when: 'A rate limit was removed, or is no longer declared in the configuration.',
  data: z.object(rule),
});

export const rateLimitReset = defineEvent({
  type: 'rate_limit.reset',
  when: 'The window of a rate limit was emptied.',
  data: z.object(rule),
});

/** US dollars. A rate that is left out is not known; 0 is free. */
const rate = () => z.number().min(0).optional();

const tier = z.object({
  up_to_tokens: z.number().int().optional().describe('input tokens of a request, inclusive; absent in the last tier'),
  up_to_mtok: z.number().optional().describe('the same in millions'),
  input_per_mtok: rate(),
  output_per_mtok: rate(),
  cached_input_per_mtok: rate(),
  cache_write_per_mtok: rate(),
  cache_write_1h_per_mtok: rate(),
});

/** `…_per_mtok`: for a million tokens. Tokens without a rate of their own are charged as plain input or output. */
export const modelPricing = z.object({
  input_per_mtok: rate(),
  output_per_mtok: rate(),
  cached_input_per_mtok: rate().describe('input read from the prompt cache'),
  cache_write_per_mtok: rate().describe('input written to the prompt cache'),
  cache_write_1h_per_mtok: rate().describe('the same, kept for an hour'),
  reasoning_output_per_mtok: rate(),
  batch_input_per_mtok: rate(),
  batch_output_per_mtok: rate(),
  audio_input_per_mtok: rate(),
  audio_output_per_mtok: rate(),
  image_input_per_mtok: rate(),
  output_image_per_mtok: rate().describe('image tokens of the output'),
  per_image: rate().describe('an image of the output'),
  input_per_image: rate(),
  per_request: rate(),
  per_second_input: rate(),
  per_second_output: rate(),
  per_character_input: rate(),
  per_page: rate(),
  tiers: z
    .array(tier)
    .optional()
    .describe('prices by input tokens: the first tier that is large enough applies to the whole request'),
});

const selector = z
  .string()
  .describe('`/` for every model, `<provider>/` for those of a provider, `<model>`, or `<provider>/<model>`');

export const priceOverrideSet = defineEvent({
  type: 'price.override_set',
  when: 'An administrator set the prices of models. They apply to requests that end after this event.',
  data: z.object({ selector, pricing: modelPricing }),
});

export const priceOverrideRemoved = defineEvent({
  type: 'price.override_removed',
  when: 'An administrator removed a price override: a less specific override, the configuration or the snapshot applies.',
  data: z.object({ selector }),
});
