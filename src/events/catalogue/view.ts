/** The view family: decisions of operators about read models, on streams `views-skipped` and `views-rebuilds`. */
import { z } from 'zod';
import { streamName } from '../event.ts';
import { defineEvent } from './define.ts';

export const skippedStream = streamName('views', 'skipped');

export const rebuildsStream = streamName('views', 'rebuilds');

export const viewEventSkipped = defineEvent({
  type: 'view.event_skipped',
  when: 'An operator let a read model continue without an event that it could not apply. The event itself stays in the log.',
  data: z.object({
    view: z.string().describe('name of the read model'),
    position: z.string().describe('of the skipped event'),
    eventType: z.string(),
    eventStream: z.string(),
    reason: z.string().describe("the operator's reason"),
    by: z.string().describe("the operator's user name on the machine, or the actor of an administrator's request"),
  }),
});

export const viewRebuildRequested = defineEvent({
  type: 'view.rebuild_requested',
  when: 'An administrator ordered that a read model is built from the log again. Snapshots from before are not used by the next start.',
  data: z.object({
    view: z.string().describe('name of the read model'),
    reason: z.string().optional().describe("the administrator's reason"),
  }),
});
