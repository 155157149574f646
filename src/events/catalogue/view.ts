/** The view family: decisions of operators about read models, on stream `views-skipped`. */
import { z } from 'zod';
import { streamName } from '../event.ts';
import { defineEvent } from './define.ts';

export const skippedStream = streamName('views', 'skipped');

export const viewEventSkipped = defineEvent({
  type: 'view.event_skipped',
  when: 'An operator let a read model continue without an event that it could not apply. The event itself stays in the log.',
  data: z.object({
    view: z.string().describe('name of the read model'),
    position: z.string().describe('of the skipped event'),
    eventType: z.string(),
    eventStream: z.string(),
    reason: z.string().describe("the operator's reason"),
    by: z.string().describe("the operator's user name on the machine"),
  }),
});
