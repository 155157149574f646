/** The gateway's own family, on streams `gateway-<instance>` and `log-<engine>`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

export const gatewayStarted = defineEvent({
  type: 'gateway.started',
  when: 'The gateway opened the log and begins to serve.',
  data: z.object({
    version: z.string(),
    node: z.string(),
    durability: z.string(),
    pid: z.number().int(),
    host: z.string().optional().describe('name of its machine'),
  }),
});

export const gatewayStopped = defineEvent({
  type: 'gateway.stopped',
  when: 'The gateway stopped after it had ended every open exchange.',
  data: z.object({ reason: z.string(), cutExchanges: z.number().int() }),
});

export const logRecovered = defineEvent({
  type: 'log.recovered',
  when: 'The gateway opened a log that ended in an incomplete write, and removed that write.',
  data: z.object({
    segment: z.string(),
    keptBytes: z.number().int(),
    cutBytes: z.number().int().describe('bytes after the last whole batch'),
    lostEvents: z
      .number()
      .int()
      .optional()
      .describe('events that had been acknowledged as on disk and are lost, which an operator accepted'),
  }),
});

export const logLossAccepted = defineEvent({
  type: 'log.loss_accepted',
  when: 'An operator accepted that events or files of the log are lost (`chancery log accept-loss`). Lost positions are not used again.',
  data: z.object({
    acceptedAt: z.string(),
    by: z.string(),
    reason: z.string(),
    positions: z
      .array(z.object({ first: z.number().int(), last: z.number().int() }))
      .describe('ranges of lost positions, both ends included'),
    files: z.array(z.string()).describe('the missing files'),
  }),
});
