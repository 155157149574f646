/** The tagging family: the request headers that become labels, on stream `settings-tagging`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

export const taggingChanged = defineEvent({
  type: 'tagging.changed',
  when: 'An administrator replaced the rules by which request headers become labels. Rules of the configuration are not included.',
  data: z.object({
    headers: z.array(
      z.object({
        header: z.string().describe('lower case'),
        prefix: z.string().describe('removed from the front of each label; often empty'),
        delimiter: z.string(),
        doNotPass: z.boolean().describe('whether the header is removed from requests to providers'),
      }),
    ),
  }),
});
