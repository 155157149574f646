/** A read model: a fold of the log with a name and a version. Pure; `runner.ts` runs it. */

import type { z } from 'zod';
import type { EventDefinition } from '../events/catalogue/define.ts';
import type { Position, RecordedEvent } from '../events/event.ts';
import type { CaughtUp, EventFilter } from '../events/log.ts';

export interface Projection<State> {
  /** Stable: the snapshot is kept under it. */
  readonly name: string;
  /** Incremented when `apply` or the saved form changes: a snapshot of another version is discarded. */
  readonly version: number;
  /** The events that `apply` gets. */
  readonly filter: EventFilter;
  initial(): State;
  /** May change `state` in place and return it. Must not throw: a projection that throws is stopped. */
  apply(state: State, event: RecordedEvent): State;
  /**
   * What is saved of the state, by `v8.serialize`: maps, sets, lists and plain objects, nothing of a class. Without `save`
   * and `load` nothing is saved, and every start folds the whole log.
   */
  save?(state: State): unknown;
  /** The inverse of `save`. May throw on anything it does not recognise: the projection is then rebuilt. */
  load?(saved: unknown): State;
}

/** `save` and `load` of a projection whose state is saved as it is. */
export function savedAsItIs<State>(): Required<Pick<Projection<State>, 'save' | 'load'>> {
  return { save: (state) => state, load: (saved) => saved as State };
}

/** Folds a given list of events, without a runner. */
export function fold<State>(
  projection: Projection<State>,
  events: Iterable<RecordedEvent>,
  from: State = projection.initial(),
): State {
  let state = from;
  for (const event of events) state = projection.apply(state, event);
  return state;
}

/** What users of a projection see of it while it follows the log. */
export interface ProjectionStatus {
  readonly name: string;
  readonly version: number;
  readonly phase: 'catching-up' | 'live' | 'stopped';
  /** Every event up to this position is in the state. */
  readonly position: Position;
  readonly checkpoint: Position;
  /** How the state was made: from a snapshot, or by folding the whole log, and why. */
  readonly startedFrom: string;
  /** Age of the state, in milliseconds: 0 at the end of the log, else the time since it was last there. */
  readonly lagMs: number;
  /** Why it stopped. */
  readonly error?: string;
  /** The event on which it stopped, when it could not apply it. */
  readonly stoppedAt?: Pick<RecordedEvent, 'position' | 'type' | 'stream'>;
  /** Whether it continues in this process when an operator skips that event. */
  readonly continues: boolean;
  /** Whether snapshots of it are kept. */
  readonly isSaved: boolean;
  /** Position of the request to rebuild it before which it was built; undefined when there was none. */
  readonly rebuiltFor: Position | undefined;
}

export interface RunningProjection<State> {
  readonly name: string;
  readonly state: State;
  readonly position: Position;
  /** Resolves when the projection has reached the end of the log for the first time. Rejects when it stops before. */
  readonly caughtUp: Promise<void>;
  /**
   * Resolves when everything up to `position` is in the state: at once, when it already is.
   * @throws ProjectionStopped
   */
  whenProcessed(position: Position): Promise<void>;
  status(): ProjectionStatus;
}

/** The error of a projection that no longer follows the log. */
export class ProjectionStopped extends Error {
  readonly code = 'projection_stopped';
  readonly projection: string;
  constructor(projection: string, position: Position, cause: unknown) {
    const why = cause instanceof Error ? cause.message : String(cause);
    super(`projection ${projection} stopped after position ${position}: ${why}`, { cause });
    this.projection = projection;
  }
}

/** Whether the event is of this definition. Its `data` is not parsed again: the log's reader has upcast it. */
export function isA<Type extends string, Schema extends z.ZodObject>(
  event: RecordedEvent,
  definition: EventDefinition<Type, Schema>,
): event is RecordedEvent<Type, z.infer<Schema>> {
  return event.type === definition.type;
}

/** Whether a subscription yielded its caught-up marker, and not an event. */
export function isCaughtUp(item: RecordedEvent | CaughtUp): item is CaughtUp {
  return item.type === '$caughtUp';
}
