/** The newest runs of draft workflows over recorded requests, for their list. */

import type { z } from 'zod';
import { replayFinished, replayStarted } from '../events/catalogue/guardrail.ts';
import type { EpochMs } from '../events/event.ts';
import { isA, type Projection, savedAsItIs } from './projection.ts';

export interface ReplayRecord {
  readonly id: string;
  readonly startedAt: EpochMs;
  readonly actor: string;
  /** Which runs it. */
  readonly gateway?: string | undefined;
  /** Undefined until its end is recorded. */
  readonly outcome?: z.infer<typeof replayFinished.data>['outcome'];
}

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
  ...savedAsItIs<ReplayRecords>(),
};
