/**
 * The log's port: the guarantees of every engine. `test/contract/event-log.ts` tests these guarantees,
 * and every engine passes it.
 */
import type { NewEvent, Position, RecordedEvent, StreamName } from './event.ts';
import type { LogStatus } from './log-status.ts';

/** The condition on a stream for an append to be accepted: a bigint is the revision of its last event. */
export type ExpectedRevision = 'any' | 'noStream' | 'exists' | bigint;

export interface StreamWrite {
  readonly stream: StreamName;
  readonly events: readonly NewEvent[];
  readonly expectedRevision: ExpectedRevision;
}

export interface Appended {
  /** Position of the last event of the append. */
  readonly position: Position;
  /** Revision of the last event of each write, in the order of the writes. */
  readonly revisions: readonly bigint[];
}

/**
 * What an append must reach before it resolves; each stage includes those before it. `accepted`: it has its place in the
 * order of the log, and its expected revisions held there. `written`: it survives a killed process; the embedded engine
 * has handed it to the operating system. `durable`: it is as durable as the engine makes it, see `durability` of the
 * capabilities. The log is sequential: once an append is durable, everything before it is.
 */
export type AppendStage = 'accepted' | 'written' | 'durable';

export interface AppendOptions {
  /** Default `durable`. */
  readonly until?: AppendStage;
}

export interface ReadStreamOptions {
  /** First revision to yield; with `backwards`, the revision to start down from. */
  readonly fromRevision?: bigint;
  readonly direction?: 'forwards' | 'backwards';
  readonly maxCount?: number;
}

export interface EventFilter {
  /** Event types; an entry ending in `.` matches every type with that prefix. */
  readonly types?: readonly string[];
  /** Stream name prefixes, for example `exchange-` or `exchange-0193…`. */
  readonly streams?: readonly string[];
}

export interface ReadAllOptions {
  /** Exclusive; the beginning when absent. */
  readonly after?: Position;
  readonly filter?: EventFilter;
  readonly maxCount?: number;
  readonly signal?: AbortSignal;
}

export type SubscribeOptions = Omit<ReadAllOptions, 'maxCount'>;

/** Yielded by a subscription each time it has yielded all existing events and begins to wait. */
export interface CaughtUp {
  readonly type: '$caughtUp';
  /** Everything up to here has been yielded or filtered out. */
  readonly position: Position;
}

export interface LogCapabilities {
  readonly expectedRevision: 'native' | 'on-read';
  readonly globalOrder: 'total' | 'partitioned';
  /**
   * What holds when an append is `durable`. `disk`: it is on disk. `os`: the operating system has it. `replicated`: every
   * replica that the engine requires has it, each as its own settings say (a Kafka broker acknowledges before its disk
   * does). `memory`: nothing else has it.
   */
  readonly durability: 'disk' | 'os' | 'replicated' | 'memory';
  readonly maxEventBytes: number;
  readonly atomicMultiStream: boolean;
}

export interface EventLog {
  /**
   * Appends all writes or none. Events get consecutive positions in the order given, and become visible to readers
   * and subscribers together, once they are durable. The first position of an append follows the last one of the append
   * before it: an append that is refused, or recognised as a repetition, uses none. Appends that share a stream are recorded in the order of the calls;
   * one that must wait until its stream has been found may be passed by appends to other streams.
   *
   * Records the events with their values at the call. Events that come with ids are recorded once: appending them again
   * resolves like the first append, also while that one is running, and records them if it failed. They are recognised
   * among the latest 65,536 ids that this process has appended, and after any time when each write expects
   * `noStream` or a number.
   * @throws WrongExpectedRevision, EventTooLarge, EventIdReused, LogUnavailable. After LogUnavailable with
   *   `outcome: 'none'` nothing was recorded; with `unknown` the events may become visible later (same ids).
   */
  append(writes: readonly StreamWrite[], options?: AppendOptions): Promise<Appended>;
  /**
   * The stream's visible events. A stream that does not exist yields nothing with any options: to the log, a missing
   * stream and an empty one are the same.
   */
  readStream(stream: StreamName, options?: ReadStreamOptions): AsyncIterable<RecordedEvent>;
  readAll(options?: ReadAllOptions): AsyncIterable<RecordedEvent>;
  /** Catch-up, then live, at the reader's pace: a slow reader is fed from the log, never from a growing queue. */
  subscribe(options?: SubscribeOptions): AsyncIterable<RecordedEvent | CaughtUp>;
  /** Position of the last visible event, or `START` of an empty log. */
  head(): Promise<Position>;
  readonly capabilities: LogCapabilities;
  /**
   * The state, without I/O. `head` includes every append of this process that has resolved, and everything that `head()`
   * has returned. A log that was opened for reading only is `ok`, although it refuses appends.
   */
  status(): LogStatus;
  /**
   * Calls the listener each time `state` changes between `ok` and `unavailable`, with the new status. An engine that
   * cannot become unavailable never calls it.
   * @returns a function that ends the calls
   */
  onStatusChange(listener: (status: LogStatus) => void): () => void;
  /** Resolves once everything appended is as durable as the engine can make it. Appends after it are refused. */
  close(): Promise<void>;
}

/** Sorts before every position of every engine. */
export const START = '0' as Position;

export class WrongExpectedRevision extends Error {
  readonly code = 'wrong_expected_revision';
  readonly stream: StreamName;
  readonly expected: ExpectedRevision;
  /** Undefined when the stream does not exist. */
  readonly actual: bigint | undefined;
  constructor(stream: StreamName, expected: ExpectedRevision, actual: bigint | undefined) {
    super(`stream ${stream}: expected revision ${expected}, but it is at ${actual ?? 'no event'}`);
    this.stream = stream;
    this.expected = expected;
    this.actual = actual;
  }
}

export class EventTooLarge extends Error {
  readonly code = 'event_too_large';
  constructor(type: string, bytes: number, maxBytes: number) {
    super(`event ${type} has ${bytes} bytes; this log accepts at most ${maxBytes}`);
  }
}

/** Events were appended together with others than the first time, or in part. Nothing was recorded. */
export class EventIdReused extends Error {
  readonly code = 'event_id_reused';
  readonly id: string;
  constructor(id: string) {
    super(`event ${id} was appended before, but not with the same events; a repeated append must be whole`);
    this.id = id;
  }
}

export class LogUnavailable extends Error {
  readonly code = 'log_unavailable';
  /** Whether the events of the failed append may still become visible in the log. */
  readonly outcome: 'none' | 'unknown';
  readonly reason: string;
  constructor(reason: string, outcome: 'none' | 'unknown', cause?: unknown) {
    super(`the event log cannot be written: ${reason}`, { cause });
    this.reason = reason;
    this.outcome = outcome;
  }
}
