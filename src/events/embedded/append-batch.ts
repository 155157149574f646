/** Turns one append into records at the end of a batch, with their revisions: all of it, or nothing. */
import { countEvents, type NewEvent, type RecordedEvent, type StreamName } from '../event.ts';
import { eventIdBytes, wallClock, writeEventId } from '../event-id.ts';
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
  copyRecord,
  maxIndexBytes,
  namesOf,
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
import type { Segment, SegmentStreams } from './segment.ts';

/** Of the buffer of a batch, unless its appends need more. */
export const usualBatchBytes = 64 * 1024;

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

/** The appends of one turn of the event loop, encoded one after the other, to become one frame. */
export class AppendBatch {
  buffer: Buffer;
  /** The frame's bytes so far, with the header's place. */
  length = frameHeaderBytes;
  count = 0;
  readonly first: number;
  segment: Segment;
  /** Of the segment. */
  readonly streams: SegmentStreams;
  /** Where in the segment the frame lies, or will. */
  offset: number;
  readonly waiters: Waiter[] = [];
  /** Those of its appends whose events came with ids. */
  readonly remembered: RememberedAppend[] = [];

  constructor(first: number, segment: Segment, buffer: Buffer = Buffer.allocUnsafeSlow(usualBatchBytes)) {
    if (segment.streams === undefined) throw new Error('the segment that is written to has no stream map');
    this.first = first;
    this.segment = segment;
    this.streams = segment.streams;
    this.offset = segment.bytes;
    this.buffer = buffer;
  }

  get last(): number {
    return this.first + this.count - 1;
  }

  /** Notes that the frame was written again elsewhere. */
  moveTo(segment: Segment, offset: number): void {
    this.segment = segment;
    this.offset = offset;
  }
}

/** The records of one frame. */
interface RecordRange {
  readonly buffer: Buffer;
  readonly start: number;
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
  #index = 0;
  /** Where the record of that event begins. */
  #at: number;
  /** That event, once it was decoded. */
  #event: RecordedEvent | undefined;

  constructor({ buffer, start, first, count }: RecordRange, records: RecordReader) {
    this.first = first;
    this.count = count;
    this.#buffer = buffer;
    this.#records = records;
    this.#at = start;
  }

  /** Where the record of the event begins. */
  #seek(index: number): number {
    while (this.#index < index) {
      this.#at = recordEnd(this.#buffer, this.#at);
      this.#index++;
      this.#event = undefined;
    }
    return this.#at;
  }

  type(index: number): string {
    return this.#records.typeOf(this.#buffer, this.#seek(index));
  }

  stream(index: number): string {
    return recordStream(this.#buffer, this.#seek(index));
  }

  bytes(index: number): number {
    const at = this.#seek(index);
    return recordEnd(this.#buffer, at) - at;
  }

  event(index: number): RecordedEvent {
    const at = this.#seek(index);
    this.#event ??= this.#records.read(this.#buffer, at, this.first + index);
    if (this.#event === undefined) throw new RangeError(`no event ${index} in this batch`);
    return this.#event;
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
  const befores: number[] = [];
  const lasts: number[] = [];
  try {
    for (let index = 0; index < writes.length; index++) {
      const write = writes[index];
      if (write === undefined) continue;
      const before = revisionBefore(batch, writes, lasts, index, olderRevision);
      if (before === undefined) {
        batch.length = start;
        return undefined;
      }
      checkExpectedRevision(write, before);
      befores.push(before);
      lasts.push(encodeEvents(batch, write, before + 1, at, maxEventBytes));
    }
  } catch (error) {
    batch.length = start;
    throw error;
  }
  for (let index = 0; index < writes.length; index++) {
    const { [index]: before = 0 } = befores;
    const { [index]: last = 0 } = lasts;
    const stream = writes[index]?.stream;
    if (stream === undefined || last === before) continue;
    batch.streams.note(stream, batch.offset, before + 1, last);
    batch.count += last - before;
  }
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
  batch.buffer = withRoom(batch.buffer, batch.length, append.records.length);
  append.records.copy(batch.buffer, batch.length);
  let record = batch.length;
  for (const [index, { stream, count }] of writes.entries()) {
    const last = lasts[index] ?? 0;
    for (let revision = last - count + 1; revision <= last; revision++) {
      setRecordRevision(batch.buffer, record, revision);
      record = recordEnd(batch.buffer, record);
    }
    if (count > 0) batch.streams.note(stream, batch.offset, last - count + 1, last);
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
  return batch.streams.lastRevision(stream) ?? olderRevision(stream, expectedRevision);
}

// Writes the events of one write as records.

/** Where records are written, one after the other. */
export interface RecordTarget {
  buffer: Buffer;
  /** The bytes in use. */
  length: number;
}

/**
 * @param revision of the first event
 * @param at the time of events that have none
 * @returns the revision of the last event
 * @throws EventTooLarge, and the error of `JSON.stringify`; `target.length` may then have grown
 */
export function encodeEvents(
  target: RecordTarget,
  { stream, events }: StreamWrite,
  revision: number,
  at: number,
  maxEventBytes: number,
): number {
  const place: EventPlace = { stream, revision, at, maxEventBytes };
  for (let index = 0; index < events.length; index++) {
    const event = events[index];
    if (event === undefined) continue;
    const { bodyEnds } = event;
    if (bodyEnds === undefined) encodeEvent(target, event, event.body, place);
    else encodeParts(target, event, bodyEnds, place);
    place.revision += bodyEnds === undefined ? 1 : bodyEnds.length;
  }
  return place.revision - 1;
}

interface EventPlace {
  readonly stream: StreamName;
  revision: number;
  readonly at: number;
  readonly maxEventBytes: number;
}

function encodeEvent(
  target: RecordTarget,
  event: NewEvent,
  body: Uint8Array | undefined,
  { stream, revision, at, maxEventBytes }: EventPlace,
): void {
  const data = JSON.stringify(event.data);
  const names = namesOf(stream, event.context);
  const idLength = event.id === undefined ? eventIdBytes : event.id.length;
  const textLength = idLength + event.type.length + names.length + data.length;
  const bodyLength = body === undefined ? 0 : body.length;
  const estimate = textLength + bodyLength;
  if (estimate > maxEventBytes) throw new EventTooLarge(event.type, estimate, maxEventBytes);
  const start = target.length;
  target.buffer = withRoom(target.buffer, start, recordBound(textLength, bodyLength));
  target.length = writeRecord(target.buffer, start, { event, body, names, data, revision, at });
  const bytes = target.length - start;
  if (bytes > maxEventBytes) throw new EventTooLarge(event.type, bytes, maxEventBytes);
}

/** The first event as any other; each further one is a copy of the one before with its own id, revision, index and body. */
function encodeParts(target: RecordTarget, event: NewEvent, ends: readonly number[], place: EventPlace): void {
  const [firstEnd = 0] = ends;
  const { body: given } = event;
  const body = given && Buffer.from(given.buffer, given.byteOffset, given.length);
  let before = target.length;
  encodeEvent(target, event, body?.subarray(0, firstEnd), place);
  const { index } = event.data as { index: number };
  const head = recordPrefixBytes(target.buffer, before, String(index).length + 1);
  for (let part = 1; part < ends.length; part++) {
    const from = body === undefined ? 0 : (ends[part - 1] ?? 0);
    const length = body === undefined ? 0 : (ends[part] ?? 0) - from;
    const bound = head + maxIndexBytes + length;
    if (bound > place.maxEventBytes) throw new EventTooLarge(event.type, bound, place.maxEventBytes);
    const at = target.length;
    const buffer = withRoom(target.buffer, at, bound);
    target.buffer = buffer;
    target.length = copyRecord(buffer, before, at, head, index + part);
    before = at;
    setRecordRevision(buffer, at, place.revision + part);
    writeEventId(buffer, at + recordHeaderBytes, place.at);
    if (body !== undefined) target.length = addRecordBody(buffer, at, target.length, body, from, length);
  }
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
let kept: RecordTarget = emptyScratch();

function emptyScratch(): RecordTarget {
  return { buffer: Buffer.allocUnsafeSlow(16 * 1024), length: 0 };
}

function takeScratch(): RecordTarget {
  if (kept.buffer.length > keptScratchBytes) kept = emptyScratch();
  kept.length = 0;
  return kept;
}
