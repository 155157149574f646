/** The newest runs of draft workflows over recorded requests, for their list. */
import { z } from 'zod';
import { replayFinished, replayStarted } from '../events/catalogue/guardrail.ts';
import { isA, type Projection } from './projection.ts';

const record = z.object({
  id: z.string(),
  /** Milliseconds since the epoch. */
  startedAt: z.number(),
  actor: z.string(),
  /** Which runs it. */
  gateway: z.string().optional(),
  /** Undefined until its end is recorded. */
  outcome: replayFinished.data.shape.outcome.optional(),
});
export type ReplayRecord = z.infer<typeof record>;

/** By id, the oldest first. */
export type ReplayRecords = Map<string, ReplayRecord>;

const MOST = 100;

export const guardrailReplaysView: Projection<ReplayRecords> = {
  name: 'guardrail-replays',
  version: 2,
  filter: { types: [replayStarted.type, replayFinished.type] },
  initial: () => new Map(),
  apply(runs, event) {
    if (isA(event, replayStarted)) {
      const { id, gateway } = event.data;
      runs.set(id, { id, startedAt: Math.floor(event.at), actor: event.context.actor, gateway });
      const [oldest] = runs.keys();
      if (runs.size > MOST && oldest !== undefined) runs.delete(oldest);
    } else if (isA(event, replayFinished)) {
      const known = runs.get(event.data.id);
      if (known !== undefined) runs.set(known.id, { ...known, outcome: event.data.outcome });
    }
    return runs;
  },
  save: (runs) => [...runs.values()],
  load: (saved) =>
    new Map(
      z
        .array(record)
        .parse(saved)
        .map((one) => [one.id, one]),
    ),
};
