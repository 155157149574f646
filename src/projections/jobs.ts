/** The latest event of each job that one gateway does at a time. */
import { z } from 'zod';
import { jobTaken } from '../events/catalogue/gateway.ts';
import { idOf, type Position } from '../events/event.ts';
import { isA } from './known-event.ts';
import type { Projection } from './projection.ts';

const job = z.object({
  name: z.string(),
  /** Undefined when it was released. */
  gateway: z.string().optional(),
  revision: z.string().transform(BigInt),
  position: z.string().transform((text) => text as Position),
});

/** By name. */
export type JobsState = Map<string, z.infer<typeof job>>;

export const jobsView: Projection<JobsState> = {
  name: 'jobs',
  version: 1,
  filter: { streams: ['job-'], types: ['job.'] },
  initial: () => new Map(),
  apply(state, event) {
    const name = idOf(event.stream);
    const gateway = isA(event, jobTaken) ? event.data.gateway : undefined;
    return state.set(name, { name, gateway, revision: event.revision, position: event.position });
  },
  save: (state) => [...state.values()].map((one) => ({ ...one, revision: String(one.revision) })),
  load: (saved) =>
    new Map(
      z
        .array(job)
        .parse(saved)
        .map((one) => [one.name, one]),
    ),
};
