/**
 * An append as a message. All numbers are little-endian.
 *
 *      0  header, see messages.ts
 *      5  f64  number of the append
 *     13  u8   stage (0 accepted, 1 written, 2 durable)      14  u8  1: the events came with ids
 *     15  u16  number of writes
 *     17  for each write: u8 expectation (0 any, 1 noStream, 2 exists, 3 a revision), f64 revision, u32 number of events;
 *         without events: u16 stream bytes, stream as UTF-8. With events, their records name the stream.
 *         then the records of all writes, whose revisions are not filled in
 */
import {
  appendOverheadBytes,
  encodeEvents,
  type PreparedWrite,
  type RecordTarget,
  type SizedAppend,
} from '../embedded/append-batch.ts';
import { recordEnd, recordId, recordIsSound, recordStream, sameStream, withRoom } from '../embedded/event-record.ts';
import type { StreamName } from '../event.ts';
import { wallClock } from '../event-id.ts';
import {
  type Appended,
  type AppendStage,
  EventTooLarge,
  type ExpectedRevision,
  LogUnavailable,
  type StreamWrite,
} from '../log.ts';
import { maxAppendBytes, messageHeaderBytes, messageKinds, ProtocolError, writeMessageHeader } from './messages.ts';

const headBytes = messageHeaderBytes + 12;
const writeBytes = 13;
const maxWrites = 65_535;
const maxNameBytes = 65_535;
const stages = ['accepted', 'written', 'durable'] as const;
const expectations = ['any', 'noStream', 'exists'] as const;
const exactRevision = 3;

export interface AppendMessage {
  readonly writes: readonly StreamWrite[];
  readonly number: number;
  readonly until: AppendStage;
  readonly withIds: boolean;
  readonly maxEventBytes: number;
}

/**
 * Adds the message to the target.
 * @throws EventTooLarge, RangeError, and the error of `JSON.stringify`; the target is then unchanged
 */
export function writeAppend(target: RecordTarget, append: AppendMessage): void {
  const start = target.length;
  try {
    writeParts(target, append);
    const bytes = target.length - start;
    if (bytes > maxAppendBytes) throw new EventTooLarge('of an append', bytes, maxAppendBytes);
    writeMessageHeader(target.buffer, start, bytes, messageKinds.append);
  } catch (error) {
    target.length = start;
    throw error;
  }
}

function writeParts(target: RecordTarget, { writes, number, until, withIds, maxEventBytes }: AppendMessage): void {
  if (writes.length > maxWrites) throw new RangeError(`an append has at most ${maxWrites} writes`);
  target.reserve(headBytes + writes.length * writeBytes);
  const { buffer, length: start } = target;
  buffer.writeDoubleLE(number, start + 5);
  buffer.writeUInt8(stages.indexOf(until), start + 13);
  buffer.writeUInt8(withIds ? 1 : 0, start + 14);
  buffer.writeUInt16LE(writes.length, start + 15);
  target.length += headBytes;
  for (const write of writes) writeExpectation(target, write);
  const at = wallClock();
  for (const write of writes) encodeEvents(target, write, 0, at, maxEventBytes);
}

function writeExpectation(target: RecordTarget, { stream, expectedRevision, events }: StreamWrite): void {
  const nameBytes = events.length === 0 ? Buffer.byteLength(stream) : 0;
  if (nameBytes > maxNameBytes) throw new RangeError(`a stream name has at most ${maxNameBytes} bytes`);
  target.reserve(writeBytes + 2 + nameBytes);
  const { buffer, length: at } = target;
  const isRevision = typeof expectedRevision === 'bigint';
  buffer.writeUInt8(isRevision ? exactRevision : expectations.indexOf(expectedRevision), at);
  buffer.writeDoubleLE(isRevision ? Number(expectedRevision) : 0, at + 1);
  buffer.writeUInt32LE(events.length, at + 9);
  target.length += writeBytes;
  if (events.length > 0) return;
  buffer.writeUInt16LE(nameBytes, at + 13);
  buffer.write(stream, at + 15);
  target.length += 2 + nameBytes;
}

export interface ReceivedAppend extends SizedAppend {
  readonly number: number;
  readonly until: AppendStage;
  /** Of all its events, when they came with ids. */
  readonly ids: readonly string[] | undefined;
}

/**
 * Reads the content of a message.
 * @throws ProtocolError unless every record is whole and belongs to its write
 */
export function readAppend(buffer: Buffer, start: number, end: number): ReceivedAppend {
  if (end - start < headBytes - messageHeaderBytes) throw new ProtocolError('an append is cut short');
  const until = stages[buffer.readUInt8(start + 8)];
  if (until === undefined) throw new ProtocolError('an append names no stage');
  const heads = readHeads(buffer, start + 12, end, buffer.readUInt16LE(start + 10));
  const withIds = buffer.readUInt8(start + 9) === 1;
  const ids: string[] = [];
  const writes: PreparedWrite[] = [];
  let at = heads.end;
  for (const { expectedRevision, count, stream } of heads.writes) {
    writes.push({ expectedRevision, count, stream: stream ?? streamAt(buffer, at, end) });
    at = readRecords(buffer, at, end, count, withIds ? ids : undefined);
  }
  if (at !== end) throw new ProtocolError(`an append has ${end - at} bytes behind its records`);
  const records = buffer.subarray(heads.end, end);
  return {
    number: buffer.readDoubleLE(start),
    until,
    ids: ids.length > 0 ? ids : undefined,
    writes,
    records,
    bytes: records.length + appendOverheadBytes,
  };
}

interface WriteHead {
  readonly expectedRevision: ExpectedRevision;
  readonly count: number;
  /** Of a write without events. */
  readonly stream: StreamName | undefined;
}

function readHeads(buffer: Buffer, start: number, end: number, count: number): { writes: WriteHead[]; end: number } {
  const writes: WriteHead[] = [];
  let at = start;
  for (let left = count; left > 0; left--) {
    if (at + writeBytes > end) throw new ProtocolError('an append has fewer writes than it claims');
    const events = buffer.readUInt32LE(at + 9);
    const expectedRevision = expectationAt(buffer, at);
    at += writeBytes;
    if (events > 0) {
      writes.push({ expectedRevision, count: events, stream: undefined });
      continue;
    }
    const nameEnd = at + 2 <= end ? at + 2 + buffer.readUInt16LE(at) : Number.POSITIVE_INFINITY;
    if (nameEnd > end) throw new ProtocolError('an append names a stream that is cut short');
    writes.push({ expectedRevision, count: 0, stream: buffer.toString('utf8', at + 2, nameEnd) as StreamName });
    at = nameEnd;
  }
  return { writes, end: at };
}

function expectationAt(buffer: Buffer, at: number): ExpectedRevision {
  const kind = buffer.readUInt8(at);
  const revision = buffer.readDoubleLE(at + 1);
  if (kind === exactRevision && Number.isInteger(revision)) return BigInt(revision);
  const expectation = expectations[kind];
  if (expectation === undefined) throw new ProtocolError('an append expects no known revision');
  return expectation;
}

function streamAt(buffer: Buffer, at: number, end: number): StreamName {
  if (!recordIsSound(buffer, at, end)) throw new ProtocolError('an event of an append is not whole');
  return recordStream(buffer, at);
}

/** @returns the end of the last one */
function readRecords(buffer: Buffer, start: number, end: number, count: number, ids: string[] | undefined): number {
  let at = start;
  for (let left = count; left > 0; left--) {
    if (!recordIsSound(buffer, at, end)) throw new ProtocolError('an event of an append is not whole');
    if (at !== start && !sameStream(buffer, start, at)) throw new ProtocolError('a write has events of two streams');
    ids?.push(recordId(buffer, at));
    at = recordEnd(buffer, at);
  }
  return at;
}

/**
 * The appends of a worker that have no outcome yet: encoded at the call, sent in the order of the calls with one write at
 * a time, and kept until they are answered, so that they can be sent again after a lost connection.
 */
export interface UnansweredAppend {
  readonly number: number;
  /** Position of the last visible event at the call: if it was recorded, then behind it. */
  readonly seen: number;
  readonly since: number;
  /** The message; undefined until it is about to be sent. */
  message: Buffer | undefined;
  readonly start: number;
  readonly end: number;
  readonly resolve: (appended: Appended) => void;
  readonly reject: (error: Error) => void;
}

interface Group {
  readonly bytes: Buffer;
  /** Number of its last append. */
  readonly last: number;
}

interface SentAppendsParts {
  readonly maxEventBytes: number;
  /** Bytes of appends without an outcome. */
  readonly maxBytes: number;
  readonly visible: () => number;
}

/** Sends the bytes. `done` is called when the operating system has them. */
type Write = (bytes: Buffer, done: () => void) => void;

/** Appends that are sent again are grouped up to this size. */
const groupBytes = 1024 * 1024;
/** A larger buffer is not kept. */
const keptBytes = 1024 * 1024;

export class SentAppends {
  readonly #parts: SentAppendsParts;
  readonly #unanswered = new Map<number, UnansweredAppend>();
  #target = new Target();
  /** Those in the target. */
  #encoded: UnansweredAppend[] = [];
  #groups: Group[] = [];
  #bytes = 0;
  #nextNumber = 1;
  #sentUpTo = 0;
  #write: Write | undefined;
  #writing = false;
  #willFlush = false;
  #idle: (() => void)[] = [];

  constructor(parts: SentAppendsParts) {
    this.#parts = parts;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Whether appends may have been recorded whose answer was lost. */
  get hasSent(): boolean {
    return this.sent().next().done !== true;
  }

  /** Those that may have been recorded, in order. */
  *sent(): Generator<UnansweredAppend> {
    for (const append of this.#unanswered.values()) {
      if (append.number > this.#sentUpTo) return;
      yield append;
    }
  }

  /** @throws EventTooLarge, RangeError, the error of `JSON.stringify`; rejects with LogUnavailable */
  append(writes: readonly StreamWrite[], until: AppendStage, withIds: boolean): Promise<Appended> {
    const { maxEventBytes, maxBytes, visible } = this.#parts;
    const start = this.#target.length;
    const number = this.#nextNumber;
    writeAppend(this.#target, { writes, number, until, withIds, maxEventBytes });
    const end = this.#target.length;
    if (this.#bytes + end - start > maxBytes) {
      this.#target.length = start;
      throw new LogUnavailable('the primary process is too slow, and the queue for it is full', 'none');
    }
    this.#nextNumber++;
    this.#bytes += end - start;
    const promise = new Promise<Appended>((resolve, reject) => {
      const since = performance.now();
      const append = { number, seen: visible(), since, message: undefined, start, end, resolve, reject };
      this.#unanswered.set(number, append);
      this.#encoded.push(append);
    });
    this.#flushSoon();
    return promise;
  }

  /** Sends everything without an outcome, first what was sent before. */
  attach(write: Write): void {
    this.#takeEncoded();
    this.#groups = [];
    let messages: Buffer[] = [];
    let bytes = 0;
    let last = 0;
    const end = () => {
      if (messages.length > 0) this.#groups.push({ bytes: Buffer.concat(messages, bytes), last });
      messages = [];
      bytes = 0;
    };
    for (const { number, message, start, end: to } of this.#unanswered.values()) {
      if (message === undefined) continue;
      // a group with one that was sent has no other
      if (number > this.#sentUpTo && last <= this.#sentUpTo) end();
      messages.push(message.subarray(start, to));
      bytes += to - start;
      last = number;
      if (bytes >= groupBytes) end();
    }
    end();
    this.#write = write;
    this.#writing = false;
    this.#flush();
  }

  detach(): void {
    this.#write = undefined;
  }

  resolve(number: number, appended: Appended): void {
    this.#remove(number)?.resolve(appended);
  }

  reject(number: number, error: Error): void {
    this.#remove(number)?.reject(error);
  }

  /** Rejects those that were not sent, and those sent at or before that time, as `performance.now()` counts. */
  refuse(reason: string, sentBefore: number): void {
    for (const { number, since } of [...this.#unanswered.values()]) {
      if (number > this.#sentUpTo) this.reject(number, new LogUnavailable(reason, 'none'));
      else if (since <= sentBefore) this.reject(number, new LogUnavailable(reason, 'unknown'));
    }
    this.#target.length = 0;
    this.#encoded = [];
    this.#groups = this.#groups.filter(({ last }) => last <= this.#sentUpTo);
  }

  /** Resolves when all have their outcome. */
  async settled(): Promise<void> {
    if (this.#unanswered.size > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #remove(number: number): UnansweredAppend | undefined {
    const append = this.#unanswered.get(number);
    if (append === undefined) return undefined;
    this.#unanswered.delete(number);
    this.#bytes -= append.end - append.start;
    if (this.#unanswered.size === 0) for (const resolve of this.#idle.splice(0)) resolve();
    return append;
  }

  /** The appends of one turn of the event loop are sent together. */
  #flushSoon(): void {
    if (this.#willFlush || this.#writing || this.#write === undefined) return;
    this.#willFlush = true;
    setImmediate(() => {
      this.#willFlush = false;
      this.#flush();
    });
  }

  #flush(): void {
    const write = this.#write;
    if (this.#writing || write === undefined) return;
    this.#takeEncoded();
    const group = this.#groups.shift();
    if (group === undefined) return;
    this.#writing = true;
    this.#sentUpTo = Math.max(this.#sentUpTo, group.last);
    write(group.bytes, () => {
      if (this.#write !== write) return;
      this.#writing = false;
      this.#flush();
    });
  }

  #takeEncoded(): void {
    const last = this.#encoded.at(-1);
    if (last === undefined) return;
    const bytes = this.#target.take();
    for (const append of this.#encoded) append.message = bytes;
    this.#groups.push({ bytes, last: last.number });
    this.#encoded = [];
  }
}

class Target implements RecordTarget {
  buffer: Buffer = Buffer.allocUnsafeSlow(64 * 1024);
  length = 0;

  reserve(bytes: number): void {
    this.buffer = withRoom(this.buffer, this.length, bytes);
  }

  /** What is in it, as a copy unless it is large. */
  take(): Buffer {
    const { buffer, length } = this;
    this.length = 0;
    if (buffer.length > keptBytes) {
      this.buffer = Buffer.allocUnsafeSlow(64 * 1024);
      return buffer.subarray(0, length);
    }
    const copy = Buffer.allocUnsafe(length);
    buffer.copy(copy, 0, 0, length);
    return copy;
  }
}
