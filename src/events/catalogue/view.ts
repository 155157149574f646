/** The view family: what operators decided about read models, on stream `views-skipped`. */
import { z } from 'zod';
import { streamName } from '../event.ts';
import { defineEvent } from './define.ts';

export const skippedStream = streamName('views', 'skipped');

export const viewEventSkipped = defineEvent({
  type: 'view.event_skipped',
  when: 'An operator let a read model go on without an event that it could not take in. The event itself stays in the log.',
  data: z.object({
    view: z.string().describe('name of the read model'),
    position: z.string().describe('of the event that is left out'),
    eventType: z.string(),
    eventStream: z.string(),
    reason: z.string().describe('why, in the words of who did it'),
    by: z.string().describe('name of the user of the machine who did it'),
  }),
});
