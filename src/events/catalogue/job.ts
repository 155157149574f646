/**
 * Jobs that one of the gateways on a log does: `job-<name>`. The gateway that took a job last has it, until it releases it or its
 * lease ends (`src/commands/gateways/jobs.ts`).
 */
import { z } from 'zod';
import { defineEvent } from './define.ts';

export const jobTaken = defineEvent({
  type: 'job.taken',
  when: 'A gateway began to do a job that only one gateway does at a time.',
  data: z.object({ gateway: z.string().describe('id of the gateway') }),
});

export const jobReleased = defineEvent({
  type: 'job.released',
  when: 'The gateway that did the job has ended it, and goes on itself.',
  data: z.object({}),
});
