/** The appends of one turn of the event loop, encoded one after the other, to become one frame. */
import type { RecordedEvent } from '../event.ts';
import type { Appended } from '../log.ts';
import type { RecentAppend } from '../recent-appends.ts';
import type { LiveBatch } from '../subscription.ts';
import type { RecordReader } from './event-record.ts';
import { frameHeaderBytes } from './frame.ts';
import { recordEnd, recordStream } from './record-layout.ts';
import type { Segment } from './segment.ts';
import { withRoom } from './with-room.ts';

const usualBytes = 64 * 1024;

/** A caller that waits for an append. */
export interface Waiter {
  readonly resolve: (appended: Appended) => void;
  readonly reject: (error: Error) => void;
  readonly appended: Appended;
  readonly durable: boolean;
}

/** The outcome of an append whose events came with ids. */
export interface AppendOutcome {
  /** Settles like the append; only for those that had to wait. */
  readonly waiting?: Promise<unknown>;
  /** Undefined for as long as it waits. */
  appended?: Appended;
  /** Undefined while it waits, and once it has reached its final durability. */
  batch?: AppendBatch | undefined;
}

export type RememberedAppend = RecentAppend<AppendOutcome>;

export class AppendBatch {
  buffer: Buffer;
  /** The frame's bytes so far, with the header's place. */
  length = frameHeaderBytes;
  count = 0;
  readonly first: number;
  segment: Segment;
  /** Where in the segment the frame lies, or will. */
  offset: number;
  readonly waiters: Waiter[] = [];
  /** Those of its appends whose events came with ids. */
  readonly remembered: RememberedAppend[] = [];

  constructor(first: number, segment: Segment, buffer: Buffer | undefined) {
    this.first = first;
    this.segment = segment;
    this.offset = segment.bytes;
    this.buffer = buffer ?? Buffer.allocUnsafeSlow(usualBytes);
  }

  get last(): number {
    return this.first + this.count - 1;
  }

  /** Notes that the frame was written again elsewhere. */
  moveTo(segment: Segment, offset: number): void {
    this.segment = segment;
    this.offset = offset;
  }

  /** Makes room for this many bytes more. */
  reserve(bytes: number): void {
    this.buffer = withRoom(this.buffer, this.length, bytes);
  }
}

/** Buffers of written batches, to be used again; larger ones than usual are left to the garbage collector. */
export class BufferPool {
  readonly #free: Buffer[] = [];
  readonly #limit: number;

  constructor(limit = 64) {
    this.#limit = limit;
  }

  take(): Buffer | undefined {
    return this.#free.pop();
  }

  give(buffer: Buffer): void {
    if (buffer.length === usualBytes && this.#free.length < this.#limit) this.#free.push(buffer);
  }
}

/** The records of one frame. */
export interface RecordRange {
  readonly buffer: Buffer;
  readonly start: number;
  readonly end: number;
  /** Position of the first event. */
  readonly first: number;
  readonly count: number;
}

/**
 * A batch for live subscribers. Events are decoded from its bytes, as by any reader of the log, at most once and only
 * when a subscriber needs them.
 */
export class PublishedBatch implements LiveBatch {
  readonly first: number;
  readonly count: number;
  readonly #buffer: Buffer;
  readonly #records: RecordReader;
  readonly #offsets: number[] = [];
  readonly #events: (RecordedEvent | undefined)[] = [];

  constructor({ buffer, start, end, first, count }: RecordRange, records: RecordReader) {
    this.first = first;
    this.count = count;
    this.#buffer = buffer;
    this.#records = records;
    for (let at = start; at < end; at = recordEnd(buffer, at)) this.#offsets.push(at);
  }

  type(index: number): string {
    return this.#records.typeOf(this.#buffer, this.#offset(index));
  }

  stream(index: number): string {
    return recordStream(this.#buffer, this.#offset(index));
  }

  bytes(index: number): number {
    const offset = this.#offset(index);
    return recordEnd(this.#buffer, offset) - offset;
  }

  event(index: number): RecordedEvent {
    let event = this.#events[index];
    if (event === undefined) {
      event = this.#records.read(this.#buffer, this.#offset(index), this.first + index);
      this.#events[index] = event;
    }
    if (event === undefined) throw new RangeError(`no event ${index} in this batch`);
    return event;
  }

  #offset(index: number): number {
    return this.#offsets[index] ?? 0;
  }
}
