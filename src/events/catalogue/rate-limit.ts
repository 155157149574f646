/** The rate limit family: limits per period, on stream `rate-limit-<scope>:<subject>`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

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
