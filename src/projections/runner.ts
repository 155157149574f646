/**
 * Runs projections: from the last snapshot, or the beginning, to the end of the log, and then with each new event.
 *
 * Guarantees: `apply` gets every event that matches the filter exactly once and in the log's order; the snapshot and
 * its checkpoint are saved together; an unusable snapshot costs time, but never makes the state wrong. A projection
 * that throws stops there and reports the error: an event is only skipped by an operator (`skippedEvents`). It
 * then continues from its last snapshot; until it is at the end of the log, its readers get the state from before.
 */

import type { Position } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import {
  type FollowedProjection,
  followProjection,
  type OperatorDecisions,
  operatorDecisions,
  SharedReading,
} from './follow-projection.ts';
import { type Projection, type ProjectionStatus, ProjectionStopped, type RunningProjection } from './projection.ts';
import { saveBound } from './snapshot-basis.ts';
import type { ViewStore } from './view-store.ts';

export type { ProjectionStatus, RunningProjection } from './projection.ts';

export interface RunnerOptions {
  /**
   * How often changed snapshots are saved, in milliseconds; less often when saving takes long, since it blocks the
   * event loop. Default 5000.
   */
  readonly saveEveryMs?: number;
  /** Called when a projection stopped, and when a snapshot could not be saved. */
  readonly onError?: (error: Error) => void;
  /** Reads the existing log together with the projections of this runner. */
  readonly together?: ProjectionRunner;
}

export interface RunOptions {
  /**
   * Whether `apply` changes something besides the state: an event must not be applied again in this process. It then
   * continues after a skipped event from the next start. Default false.
   */
  readonly hasEffects?: boolean;
}

export interface ProjectionRunner {
  readonly reading: SharedReading;
  run<State>(projection: Projection<State>, options?: RunOptions): RunningProjection<State>;
  /** One entry for each projection, in the order they were started. */
  status(): ProjectionStatus[];
  /** Resolves when everything up to `position` is in the state of each projection that has not stopped. */
  whenAllProcessed(position: Position): Promise<void>;
  /** The same without those that have not reached the end of the log yet: nothing depends on them. */
  whenLiveProcessed(position: Position): Promise<void>;
  /** Resolves when that projection has everything up to `position` in its state, also when it has stopped before. */
  whenContinued(name: string, position: Position): Promise<void>;
  /** Saves changed snapshots now. @throws what SQLite throws when the disk is full */
  save(): Promise<void>;
  /** Stops all projections and saves them. The log and the store stay open. */
  close(): Promise<void>;
}

/** Largest share of the time spent on saving: a two-hundredth. */
const PAUSE = 200;

/** Without `views` no snapshot is kept, and every start folds the whole log. */
export function createProjectionRunner(
  log: EventLog,
  views?: ViewStore,
  options: RunnerOptions = {},
): ProjectionRunner {
  const { saveEveryMs = 5000, onError = () => {}, together } = options;
  const stopping = new AbortController();
  const reading = together?.reading ?? new SharedReading(log, stopping.signal);
  const running: FollowedProjection[] = [];
  let decided: Promise<OperatorDecisions> | undefined;

  const changedSnapshots = () =>
    running.flatMap((one) => {
      const snapshot = one.snapshot();
      return snapshot === undefined ? [] : [{ one, snapshot }];
    });

  let saving: Promise<void> | undefined;

  async function saveChanged(): Promise<void> {
    const began = performance.now();
    const changed = changedSnapshots();
    const collectedMs = performance.now() - began;
    if (views === undefined || changed.length === 0) return;
    const snapshots = changed.map(({ snapshot }) => snapshot);
    const writtenMs = await saveBound(log, views, snapshots);
    if (writtenMs === undefined) return;
    for (const { one, snapshot } of changed) one.saved(snapshot);
    pauseUntil = performance.now() + (collectedMs + writtenMs) * PAUSE;
  }

  function save(): Promise<void> {
    saving ??= saveChanged().finally(() => {
      saving = undefined;
    });
    return saving;
  }

  let pauseUntil = 0;
  const timer = setInterval(() => {
    if (performance.now() < pauseUntil) return;
    save().catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : String(error);
      onError(new Error(`snapshots of the projections could not be saved: ${reason}`, { cause: error }));
    });
  }, saveEveryMs);
  timer.unref();

  return {
    reading,
    run<State>(projection: Projection<State>, { hasEffects = false }: RunOptions = {}) {
      const one = followProjection(projection, {
        ...{ log, views, reading, onError, hasEffects },
        signal: stopping.signal,
        decisions() {
          decided ??= operatorDecisions(log);
          return decided;
        },
      });
      running.push(one);
      return one;
    },
    status: () => running.map((one) => one.status()),
    whenAllProcessed: (position) => allProcessed(running, position),
    whenLiveProcessed: (position) =>
      allProcessed(
        running.filter((one) => one.status().phase === 'live'),
        position,
      ),
    async whenContinued(name, position) {
      await running.find((one) => one.name === name)?.whenContinued(position);
    },
    save,
    async close() {
      clearInterval(timer);
      stopping.abort();
      await Promise.all(running.map((one) => one.finished));
      await saving?.catch(() => {});
      await save();
    },
  };
}

async function allProcessed(projections: readonly FollowedProjection[], position: Position): Promise<void> {
  const ignoreStopped = (error: unknown) => {
    if (!(error instanceof ProjectionStopped)) throw error;
  };
  await Promise.all(projections.map((one) => one.whenProcessed(position).catch(ignoreStopped)));
}
