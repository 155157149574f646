/**
 * The log's port: the guarantees of every engine. `test/contract/event-log.ts` tests these guarantees,
 * and every engine passes it.
 */
import {
  formatPosition,
  type NewEvent,
  type Position,
  parsePosition,
  type RecordedEvent,
  START,
  type StreamName,
} from './event.ts';

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

/**
 * The state of a log, for health checks and metrics. Every engine fills all required members; a figure about something
 * that an engine does not have, such as segments in memory, is 0.
 */
export interface LogStatus {
  /** `unavailable`: appends are refused. It ends by itself when the cause does. */
  readonly state: 'ok' | 'unavailable';
  /** Why appends are refused. */
  readonly reason?: string;
  /** Position of the last event handed to the operating system. */
  readonly head: Position;
  /** Position of the last event as durable as the engine makes it. */
  readonly durableHead: Position;
  /** Bytes written and not yet known to be on disk. */
  readonly unsyncedBytes: number;
  /** Bytes of appends that wait for the disk to keep up. */
  readonly queuedBytes: number;
  readonly segments: number;
  /**
   * A failure while events are accepted: full segments are not replaced, indexed or compressed; or another gateway on the
   * same engine has read another log; or segments are damaged.
   */
  readonly degraded?: string;
  /** Places in segments that cannot be read, as far as known; absent when there is none. */
  readonly damage?: readonly string[];
  /** Number of these failures since the log was opened. */
  readonly failedRotations?: number;
  /** About how many bytes of full segments wait to be compressed; absent in engines that compress none. */
  readonly uncompressedBytes?: number;
  /**
   * Segments that the stream index lacks, and whose streams are not in memory: what is in them is found by reading
   * them, so that appends to older streams and reading one stream take longer. It falls to 0 by itself.
   */
  readonly unindexedSegments: number;
  readonly subscriptions: number;
  /** Only of a log on an engine that several gateways share. */
  readonly engine?: LogEngineStatus;
}

export interface LogEngineStatus {
  /** `kafka`, `eventstore`. */
  readonly name: string;
  /** Whether appends reach the engine and are read back. */
  readonly connected: boolean;
  /** How far reading is behind: appends of this process that the engine has acknowledged and that were not read back yet. */
  readonly unreadAppends: number;
  /** When something was last read from the engine, in milliseconds since the epoch; absent before the first time. */
  readonly lastReadAt?: number;
}

// Revisions in engines that have them natively. Inside, a revision is a number, and -1 is a stream without events.

/** @throws WrongExpectedRevision when the stream, whose last event is `last`, does not meet the write's expectation. */
export function checkExpectedRevision(write: Pick<StreamWrite, 'stream' | 'expectedRevision'>, last: number): void {
  const expected = write.expectedRevision;
  if (expected === 'any') return;
  const asExpected =
    expected === 'noStream' ? last === -1 : expected === 'exists' ? last !== -1 : Number(expected) === last;
  if (!asExpected || (typeof expected === 'bigint' && expected < 0n)) {
    throw new WrongExpectedRevision(write.stream, expected, last === -1 ? undefined : BigInt(last));
  }
}

/** The revisions to read, in the order in which they are yielded, of a stream that ends at `last`. */
export function* revisionRange(last: number, options: ReadStreamOptions): Generator<number> {
  const maxCount = options.maxCount ?? Number.POSITIVE_INFINITY;
  if (options.direction === 'backwards') {
    const start = Math.min(last, options.fromRevision === undefined ? last : Number(options.fromRevision));
    for (let revision = start; revision >= 0 && start - revision < maxCount; revision--) yield revision;
  } else {
    const start = Math.max(0, Number(options.fromRevision ?? 0n));
    for (let revision = start; revision <= last && revision - start < maxCount; revision++) yield revision;
  }
}

/** The same log, with methods replaced. */
export function logWith(log: EventLog, replaced: Partial<Pick<EventLog, 'append' | 'readStream'>>): EventLog {
  return {
    append: (writes, options) => log.append(writes, options),
    readStream: (stream, options) => log.readStream(stream, options),
    readAll: (options) => log.readAll(options),
    subscribe: (options) => log.subscribe(options),
    head: () => log.head(),
    capabilities: log.capabilities,
    status: () => log.status(),
    onStatusChange: (listener) => log.onStatusChange(listener),
    close: () => log.close(),
    ...replaced,
  };
}

// The visible end of a stream: an append becomes visible shortly after it got its position.

/** Longest wait for a change before the stream is read again: the log may have refused the change. */
const MAX_WAIT_MS = 500;

/** The stream's last event; undefined when there is no such stream. */
export async function newestEvent(
  stream: StreamName,
  log: Pick<EventLog, 'readStream'>,
): Promise<RecordedEvent | undefined> {
  for await (const event of log.readStream(stream, { direction: 'backwards', maxCount: 1 })) return event;
  return undefined;
}

/**
 * Resolves once the stream's newest event is another one than `from`, or after half a second. A writer whose append
 * failed because of another writer's event waits here before it reads again.
 */
export async function whenNewerEvent(
  stream: StreamName,
  from: bigint | undefined,
  log: EventLog,
  ended?: AbortSignal,
): Promise<void> {
  const head = await log.head();
  if ((await newestEvent(stream, log))?.revision !== from) return;
  const timeout = AbortSignal.timeout(MAX_WAIT_MS);
  const signal = ended === undefined ? timeout : AbortSignal.any([ended, timeout]);
  for await (const item of log.subscribe({ after: head, filter: { streams: [stream] }, signal })) {
    if (item.type !== '$caughtUp') return;
  }
}

// Finds the position of a time in the log.

/**
 * A position before which there is no event of time `at` (milliseconds since the epoch) or later, found by binary
 * search: for engines that number their events. Times of neighbouring events may be slightly out of order, so a read
 * from there may yield a few older events.
 */
export async function positionAtTime(log: EventLog, at: number): Promise<Position> {
  let low = 0;
  let high = parsePosition(await log.head());
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const time = await timeAfter(log, formatPosition(middle));
    if (time !== undefined && time < at) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? START : formatPosition(low);
}

async function timeAfter(log: EventLog, after: Position): Promise<number | undefined> {
  for await (const event of log.readAll({ after, maxCount: 1 })) return event.at;
  return undefined;
}

/** An `EventFilter` compiled for one check per event. */
export class CompiledFilter {
  /** Nothing is filtered out. */
  readonly everything: boolean;
  /** Every stream passes, so that the name need not be checked. */
  readonly anyStream: boolean;
  readonly #types: readonly string[] | undefined;
  readonly #streams: readonly string[];
  /** The result for each type: types are few and recur. */
  readonly #knownTypes = new Map<string, boolean>();

  /** An absent list lets everything pass; an empty one, nothing. */
  constructor(filter: EventFilter = {}) {
    this.#types = filter.types;
    this.#streams = filter.streams ?? [];
    this.anyStream = filter.streams === undefined;
    this.everything = this.anyStream && filter.types === undefined;
  }

  acceptsType(type: string): boolean {
    if (this.#types === undefined) return true;
    let accepted = this.#knownTypes.get(type);
    if (accepted === undefined) {
      accepted = this.#types.some((entry) => (entry.endsWith('.') ? type.startsWith(entry) : type === entry));
      this.#knownTypes.set(type, accepted);
    }
    return accepted;
  }

  acceptsStream(stream: string): boolean {
    return this.anyStream || this.#streams.some((prefix) => stream.startsWith(prefix));
  }

  accepts(type: string, stream: string): boolean {
    return this.acceptsType(type) && this.acceptsStream(stream);
  }
}
