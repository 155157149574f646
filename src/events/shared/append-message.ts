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
import { recordEnd, recordId, recordIsSound, recordStream, sameStream } from '../embedded/event-record.ts';
import type { StreamName } from '../event.ts';
import { wallClock } from '../event-id.ts';
import { type AppendStage, EventTooLarge, type ExpectedRevision, type StreamWrite } from '../log.ts';
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
