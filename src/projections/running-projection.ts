/** What users of a projection see of it while it follows the log. */
import type { Position, RecordedEvent } from '../events/event.ts';

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
