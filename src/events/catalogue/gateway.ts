/** The gateway's own family, on streams `gateway-<instance>` and `log-<engine>`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

export const gatewayStarted = defineEvent({
  type: 'gateway.started',
  when: 'The gateway opened the log and begins to serve.',
  data: z.object({ version: z.string(), node: z.string(), durability: z.string(), pid: z.number().int() }),
});

export const gatewayStopped = defineEvent({
  type: 'gateway.stopped',
  when: 'The gateway stopped in an orderly way: no exchange is open behind this event.',
  data: z.object({ reason: z.string(), cutExchanges: z.number().int() }),
});

export const logRecovered = defineEvent({
  type: 'log.recovered',
  when: 'The log was opened and ended in a torn write, which was cut off.',
  data: z.object({
    segment: z.string(),
    keptBytes: z.number().int(),
    cutBytes: z.number().int().describe('bytes after the last whole batch'),
    lostEvents: z
      .number()
      .int()
      .optional()
      .describe('events that had been acknowledged as being on disk and are gone; more than 0 when the disk lied'),
  }),
});
