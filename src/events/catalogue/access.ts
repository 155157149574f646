/** The access family: who was not let in, on the stream `access-refused`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

export const accessRefused = defineEvent({
  type: 'access.refused',
  when: 'Keys were not accepted: summed up, at most once a minute for each reason and key, since strangers must not fill the log.',
  data: z.object({
    reason: z
      .enum(['unknown', 'inactive', 'expired', 'rotated'])
      .describe('`rotated`: with a previous secret, after its grace period'),
    keyId: z.string().optional().describe('the key, when it is one that there is or was'),
    count: z.number().int().describe('requests refused since `since`'),
    since: z.number().describe('milliseconds since the epoch'),
  }),
});
