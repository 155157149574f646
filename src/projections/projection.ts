/** A read model: a fold of the log with a name and a version. Pure; `runner.ts` runs it. */
import type { RecordedEvent } from '../events/event.ts';
import type { EventFilter } from '../events/log.ts';

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
  /** The state as a JSON value. Without `save` and `load` nothing is saved, and every start folds the whole log. */
  save?(state: State): unknown;
  /** The inverse of `save`. May throw on anything it does not recognise: the projection is then rebuilt. */
  load?(saved: unknown): State;
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
