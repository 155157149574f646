/** The access family: requests refused because of their key, on the stream `access-refused`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

export const accessRefused = defineEvent({
  type: 'access.refused',
  when: 'The gateway refused requests with keys that it does not accept: at most one event per minute for each reason and key, so that unauthenticated clients cannot fill the log.',
  data: z.object({
    reason: z
      .enum(['unknown', 'inactive', 'expired', 'rotated'])
      .describe('`rotated`: with a previous secret, after its grace period'),
    keyId: z.string().optional().describe('the key, when it exists or existed'),
    count: z.number().int().describe('requests refused since `since`'),
    since: z.number().describe('milliseconds since the epoch'),
  }),
});
