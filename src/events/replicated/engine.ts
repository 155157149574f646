/**
 * The port of the engines on which several gateways can share one log: Kafka, EventStoreDB, the primary process of
 * several workers. An engine puts appends in one order and keeps them; `ReplicatedLog` does everything else.
 */
import type { PreparedWrite } from '../embedded/append-batch.ts';

/** One append as it lies on an engine. */
export interface SequencedAppend {
  /** Which log it belongs to: 16 hexadecimal digits; `NEW_LOG` before the first append of a log was read. */
  readonly log: string;
  /** Which opened log sent it: 16 hexadecimal digits. */
  readonly writer: string;
  /** Place among the appends of the writer, which sends them in the order of their numbers. A repetition has the same number. */
  readonly number: number;
  /** What the writer had read of the log when it sent the append. */
  readonly seen: SeenEvent;
  /** Without any, the append records nothing. It is sent to learn when it is read back. */
  readonly writes: readonly PreparedWrite[];
  /** The events of all writes as records (`embedded/event-record.ts`). Their revisions are filled in by each reader. */
  readonly records: Buffer;
}

/** The last event that a writer had read: its position, and the CRC-32 of its id; both 0 in an empty log. */
export interface SeenEvent {
  readonly position: number;
  readonly check: number;
}

export const NEW_LOG = '0000000000000000';

/**
 * A place between two records of an engine, as text: where reading goes on. Its form is the engine's own; other code
 * stores it and passes it back.
 */
export type EnginePlace = string;

export interface ReadBatch {
  /** In the order of the engine. */
  readonly appends: readonly SequencedAppend[];
  /**
   * Reading after this place yields every append that was not complete in this batch or an earlier one, once; appends
   * that are already complete may come again.
   */
  readonly resume: EnginePlace;
}

export interface PlaceState {
  /** Whether the log is known to end at the place. False when it may go on. */
  readonly isEnd: boolean;
}

export interface LogEngine {
  /** For messages and metrics: `kafka`, `eventstore`. */
  readonly name: string;
  /** Bytes of the largest append that `append` accepts, records and stream names together. */
  readonly maxAppendBytes: number;
  /**
   * Makes the engine ready: connects, creates what the log needs or checks the settings of what exists. Called once,
   * before all others.
   * @param hasEvents whether the caller has events of this log: then nothing is created
   * @throws EngineUnavailable when it cannot be reached now; EngineUnsuitable when trying again is useless; PlaceLost when
   * the log does not exist
   */
  open(hasEvents?: boolean): Promise<void>;
  /**
   * Hands over appends in this order. Resolves when the engine has acknowledged all of them as durably as it can. Not
   * called again before it has settled.
   * @throws EngineUnavailable; after outcome `unknown`, any of the appends may be on the engine, now or later, and the
   *   caller may call it again with the same appends
   */
  append(appends: readonly SequencedAppend[]): Promise<void>;
  /**
   * Everything after the place, or everything, then what follows, until the signal is aborted. Reads no further ahead of
   * its caller than a fixed number of bytes.
   * @throws EngineUnavailable when reading may go on later from the latest place; PlaceLost; EngineDamaged
   */
  read(after: EnginePlace | undefined, signal: AbortSignal): AsyncIterable<ReadBatch>;
  /**
   * Finds out whether the engine still has what was read before the place, without reading on. Appends nothing.
   * @throws PlaceLost; EngineUnavailable when that cannot be found out now
   */
  verify(place: EnginePlace | undefined): Promise<PlaceState>;
  /** Ends the connections. Reads and appends that are running fail. */
  close(): Promise<void>;
}

/** The engine cannot be used at the moment. */
export class EngineUnavailable extends Error {
  /** Of an append: whether it may be on the engine, now or later. */
  readonly outcome: 'none' | 'unknown';
  constructor(reason: string, outcome: 'none' | 'unknown', cause?: unknown) {
    super(reason, { cause });
    this.outcome = outcome;
  }
}

/** The engine cannot hold this log as it is set up; the message names the setting. */
export class EngineUnsuitable extends Error {}

/** The engine no longer has what follows the place, or ends before it. */
export class PlaceLost extends Error {}

/** What the engine returned is not what was appended. */
export class EngineDamaged extends Error {}
