/** Turns one append into records at the end of a batch, with their revisions: all of it, or nothing. */
import { countEvents, type NewEvent, type RecordedEvent, type StreamName } from '../event.ts';
import { mintEventId, wallClock, writeEventId } from '../event-id.ts';
import {
  type Appended,
  checkExpectedRevision,
  EventTooLarge,
  type ExpectedRevision,
  type StreamWrite,
} from '../log.ts';
import type { RecentAppend } from '../recent-appends.ts';
import type { LiveBatch } from '../subscription.ts';
import {
  addRecordBody,
  contextText,
  copyRecord,
  maxIndexBytes,
  type RecordReader,
  recordBound,
  recordEnd,
  recordHeaderBytes,
  recordPrefixBytes,
  recordStream,
  setRecordRevision,
  withRoom,
  writeRecord,
} from './event-record.ts';
import { frameHeaderBytes } from './frame.ts';
import type { Segment } from './segment.ts';

/** The appends of one turn of the event loop, encoded one after the other, to become one frame. */
const usualBytes = 64 * 1024;

/** A caller that waits for an append. */
interface Waiter {
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
interface RecordRange {
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
    return this.#records.typeOf(this.#buffer, this.#offsets[index] ?? 0);
  }

  stream(index: number): string {
    return recordStream(this.#buffer, this.#offsets[index] ?? 0);
  }

  bytes(index: number): number {
    const offset = this.#offsets[index] ?? 0;
    return recordEnd(this.#buffer, offset) - offset;
  }

  event(index: number): RecordedEvent {
    let event = this.#events[index];
    if (event === undefined) {
      event = this.#records.read(this.#buffer, this.#offsets[index] ?? 0, this.first + index);
      this.#events[index] = event;
    }
    if (event === undefined) throw new RangeError(`no event ${index} in this batch`);
    return event;
  }
}

/**
 * Revision of a stream's last event in segments before the batch's, -1 for none; undefined when it is not known.
 * `expected` is what the append expects of the stream.
 */
export type OlderRevision = (stream: StreamName, expected: ExpectedRevision) => number | undefined;

/**
 * @returns the revision of the last event of each write, -1 where the stream still has none; undefined when a revision
 *   is not known; the batch is then unchanged
 * @throws WrongExpectedRevision, EventTooLarge, and the error of `JSON.stringify`; the batch is then unchanged
 */
export function encodeAppend(
  batch: AppendBatch,
  writes: readonly StreamWrite[],
  olderRevision: OlderRevision,
  maxEventBytes: number,
): number[] | undefined {
  const start = batch.length;
  const at = wallClock();
  const lasts: number[] = [];
  let count = 0;
  try {
    for (let index = 0; index < writes.length; index++) {
      const write = writes[index];
      if (write === undefined) continue;
      const last = revisionBefore(batch, writes, lasts, index, olderRevision);
      if (last === undefined) {
        batch.length = start;
        return undefined;
      }
      checkExpectedRevision(write, last);
      encodeEvents(batch, write, last + 1, at, maxEventBytes);
      const events = countEvents(write.events);
      lasts.push(last + events);
      count += events;
    }
  } catch (error) {
    batch.length = start;
    throw error;
  }
  for (let index = 0; index < writes.length; index++) {
    const write = writes[index];
    if (write !== undefined) noteStream(batch, write.stream, countEvents(write.events), lasts[index]);
  }
  batch.count += count;
  return lasts;
}

/** As `encodeAppend`, for records that exist already: only their revisions are filled in. */
export function placeAppend(
  batch: AppendBatch,
  append: EncodedAppend,
  olderRevision: OlderRevision,
): number[] | undefined {
  const { writes } = append;
  const lasts: number[] = [];
  for (const [index, write] of writes.entries()) {
    const last = revisionBefore(batch, writes, lasts, index, olderRevision);
    if (last === undefined) return undefined;
    checkExpectedRevision(write, last);
    lasts.push(last + write.count);
  }
  batch.reserve(append.records.length);
  append.records.copy(batch.buffer, batch.length);
  let record = batch.length;
  for (const [index, { stream, count }] of writes.entries()) {
    const last = lasts[index] ?? 0;
    for (let revision = last - count + 1; revision <= last; revision++) {
      setRecordRevision(batch.buffer, record, revision);
      record = recordEnd(batch.buffer, record);
    }
    noteStream(batch, stream, count, last);
    batch.count += count;
  }
  batch.length += append.records.length;
  return lasts;
}

/** Revision of the stream's last event before this write, earlier writes of the same append counted. */
function revisionBefore(
  batch: AppendBatch,
  writes: readonly Pick<StreamWrite, 'stream' | 'expectedRevision'>[],
  lasts: readonly number[],
  index: number,
  olderRevision: OlderRevision,
): number | undefined {
  const write = writes[index];
  if (write === undefined) return undefined;
  const { stream, expectedRevision } = write;
  for (let earlier = index - 1; earlier >= 0; earlier--) {
    if (writes[earlier]?.stream === stream) return lasts[earlier];
  }
  return streamsOf(batch).lastRevision(stream) ?? olderRevision(stream, expectedRevision);
}

function noteStream(batch: AppendBatch, stream: StreamName, count: number, last: number | undefined): void {
  if (last === undefined || count === 0) return;
  streamsOf(batch).note(stream, batch.offset, last - count + 1, last);
}

function streamsOf({ segment: { streams } }: AppendBatch) {
  if (streams === undefined) throw new Error('the segment that is written to has no stream map');
  return streams;
}

// Writes the events of one write as records.

/** Where records are written, one after the other. */
export interface RecordTarget {
  readonly buffer: Buffer;
  /** The bytes in use. */
  length: number;
  /** Makes room for this many bytes more; `buffer` may be another one afterwards. */
  reserve(bytes: number): void;
}

/**
 * @param revision of the first event
 * @param at the time of events that have none
 * @throws EventTooLarge, and the error of `JSON.stringify`; `target.length` may then have grown
 */
export function encodeEvents(
  target: RecordTarget,
  { stream, events }: StreamWrite,
  revision: number,
  at: number,
  maxEventBytes: number,
): void {
  let next = revision;
  for (const event of events) {
    if (event.bodyEnds !== undefined) {
      encodeParts(target, event, event.bodyEnds, { stream, revision: next, at, maxEventBytes });
      next += event.bodyEnds.length;
      continue;
    }
    encodeEvent(target, event, { stream, revision: next++, at, maxEventBytes });
  }
}

interface EventPlace {
  readonly stream: StreamName;
  readonly revision: number;
  readonly at: number;
  readonly maxEventBytes: number;
}

function encodeEvent(target: RecordTarget, event: NewEvent, { stream, revision, at, maxEventBytes }: EventPlace): void {
  const data = JSON.stringify(event.data);
  const context = contextText(event.context);
  const id = event.id ?? mintEventId(at);
  const textLength = id.length + event.type.length + stream.length + context.length + data.length;
  const bodyLength = event.body?.length ?? 0;
  checkSize(event.type, textLength + bodyLength, maxEventBytes);
  target.reserve(recordBound(textLength, bodyLength));
  const start = target.length;
  target.length = writeRecord(target.buffer, start, { event, stream, revision, id, at: event.at ?? at, context, data });
  checkSize(event.type, target.length - start, maxEventBytes);
}

/** The first event as any other; each further one is a copy of the one before with its own id, revision, index and body. */
function encodeParts(target: RecordTarget, event: NewEvent, ends: readonly number[], place: EventPlace): void {
  const [firstEnd = 0] = ends;
  const { body: given } = event;
  const body = given && Buffer.from(given.buffer, given.byteOffset, given.length);
  let before = target.length;
  encodeEvent(target, body === undefined ? event : { ...event, body: body.subarray(0, firstEnd) }, place);
  const { index } = event.data as { index: number };
  const head = recordPrefixBytes(target.buffer, before, String(index).length + 1);
  for (let part = 1; part < ends.length; part++) {
    const from = body === undefined ? 0 : (ends[part - 1] ?? 0);
    const length = body === undefined ? 0 : (ends[part] ?? 0) - from;
    checkSize(event.type, head + maxIndexBytes + length, place.maxEventBytes);
    target.reserve(head + maxIndexBytes + length);
    const at = target.length;
    target.length = copyRecord(target.buffer, before, at, head, index + part);
    before = at;
    setRecordRevision(target.buffer, at, place.revision + part);
    writeEventId(target.buffer, at + recordHeaderBytes, place.at);
    if (body !== undefined) target.length = addRecordBody(target.buffer, at, target.length, body, from, length);
  }
}

function checkSize(type: string, bytes: number, maxBytes: number): void {
  if (bytes > maxBytes) throw new EventTooLarge(type, bytes, maxBytes);
}

// An append that cannot be put into a batch yet. It is encoded at the call, with ids and time, so that later changes of
// its events have no effect. Only the revisions are missing.

/** Memory of an append beside its records. */
export const appendOverheadBytes = 256;
/** A larger buffer is not kept. */
const keptScratchBytes = 256 * 1024;

export interface PreparedWrite {
  readonly stream: StreamName;
  readonly expectedRevision: ExpectedRevision;
  /** Number of records of this write. */
  readonly count: number;
}

/** An append as records, whose revisions are not filled in. */
export interface EncodedAppend {
  readonly writes: readonly PreparedWrite[];
  /** The records of all writes, one after the other. */
  readonly records: Buffer;
}

export interface SizedAppend extends EncodedAppend {
  /** Its memory. */
  readonly bytes: number;
}

export class PreparedAppend implements SizedAppend {
  readonly writes: readonly PreparedWrite[];
  /** The records, one after the other. */
  readonly records: Buffer;

  /** @throws EventTooLarge, and the error of `JSON.stringify` */
  constructor(writes: readonly StreamWrite[], maxEventBytes: number) {
    const at = wallClock();
    const scratch = takeScratch();
    for (const write of writes) encodeEvents(scratch, write, 0, at, maxEventBytes);
    this.records = Buffer.allocUnsafe(scratch.length);
    scratch.buffer.copy(this.records, 0, 0, scratch.length);
    this.writes = writes.map(({ stream, expectedRevision, events }) => {
      return { stream, expectedRevision, count: countEvents(events) };
    });
  }

  /** Its memory in bytes. */
  get bytes(): number {
    return this.records.length + appendOverheadBytes;
  }
}

/** Where records are encoded before their size is known. */
class Scratch implements RecordTarget {
  buffer: Buffer = Buffer.allocUnsafeSlow(16 * 1024);
  length = 0;

  reserve(bytes: number): void {
    this.buffer = withRoom(this.buffer, this.length, bytes);
  }
}

let kept = new Scratch();

function takeScratch(): Scratch {
  if (kept.buffer.length > keptScratchBytes) kept = new Scratch();
  kept.length = 0;
  return kept;
}
