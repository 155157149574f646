/**
 * An append as bytes. The head has everything but the records, which follow it unchanged. All numbers are little-endian.
 *
 *      0  u32  magic "CHNA"          4  u32  CRC-32 of everything after this field, records included
 *      8  u8   format version        9  u8   see below       10  u16 number of writes
 *     12  u32  head bytes           16  u32  record bytes
 *     20  8 bytes  log              28  8 bytes  writer
 *     36  f64  number of the append 44  f64  position of the event seen last
 *     52  u32  check of that event
 *     56  for each write: u8 expectation (0 any, 1 noStream, 2 exists, 3 a revision), f64 revision, u32 number of events,
 *         u16 stream bytes, stream as UTF-8
 *
 * The byte at 9 is 0 on an engine. To the primary process of workers: stage (0 durable, 1 written, 2 accepted), and 4 when
 * the events came with ids.
 */
import { crc32 } from 'node:zlib';
import type { EncodedAppend, PreparedWrite } from '../embedded/append-batch.ts';
import { recordEnd, recordIsSound, recordStream, sameStream } from '../embedded/event-record.ts';
import type { StreamName } from '../event.ts';
import type { ExpectedRevision } from '../log.ts';
import { type AppendRequest, EngineDamaged, type SequencedAppend } from './engine.ts';

const magic = 0x414e4843;
const formatVersion = 1;
const fixedBytes = 56;
const writeBytes = 15;
const checkedFrom = 8;

const expectations = ['any', 'noStream', 'exists'] as const;
const exactRevision = 3;
const stages = [undefined, 'written', 'accepted'] as const;
const cameWithIds = 4;

/** The whole append in one buffer. */
export function frameAppend(append: SequencedAppend): Buffer {
  return frameAppends([append]);
}

/** Whole appends in one buffer, one after the other, each behind so many bytes for the caller. */
export function frameAppends(appends: readonly SequencedAppend[], room = 0): Buffer {
  const bytes = appends.reduce((sum, append) => sum + room + framedBytes(append), 0);
  const frames = Buffer.allocUnsafe(bytes);
  let at = 0;
  for (const append of appends) {
    at += room;
    const records = writeHead(frames, at, append);
    const end = records + append.records.copy(frames, records);
    frames.writeUInt32LE(crc32(frames.subarray(at + checkedFrom, end)), at + 4);
    at = end;
  }
  return frames;
}

/** Bytes of the append as `frameAppend` returns it. */
export function framedBytes(append: EncodedAppend): number {
  return headBytesOf(append) + append.records.length;
}

/** The head alone: its CRC covers the records too, which must follow it. */
export function frameHead(append: SequencedAppend): Buffer {
  const head = Buffer.allocUnsafe(headBytesOf(append));
  writeHead(head, 0, append);
  head.writeUInt32LE(crc32(append.records, crc32(head.subarray(checkedFrom))), 4);
  return head;
}

function headBytesOf({ writes }: EncodedAppend): number {
  let bytes = fixedBytes;
  for (const { stream } of writes) bytes += writeBytes + Buffer.byteLength(stream);
  return bytes;
}

/** Everything but the CRC. @returns its end */
function writeHead(target: Buffer, start: number, append: SequencedAppend): number {
  let at = start + fixedBytes;
  for (const { stream, expectedRevision, count } of append.writes) {
    const nameBytes = target.write(stream, at + writeBytes);
    const isRevision = typeof expectedRevision === 'bigint';
    target.writeUInt8(isRevision ? exactRevision : expectations.indexOf(expectedRevision), at);
    target.writeDoubleLE(isRevision ? Number(expectedRevision) : 0, at + 1);
    target.writeUInt32LE(count, at + 9);
    target.writeUInt16LE(nameBytes, at + 13);
    at += writeBytes + nameBytes;
  }
  target.writeUInt32LE(magic, start);
  target.writeUInt8(formatVersion, start + 8);
  target.writeUInt8(stages.indexOf(append.until) | (append.withIds ? cameWithIds : 0), start + 9);
  target.writeUInt16LE(append.writes.length, start + 10);
  target.writeUInt32LE(at - start, start + 12);
  target.writeUInt32LE(append.records.length, start + 16);
  target.write(append.log, start + 20, 8, 'hex');
  target.write(append.writer, start + 28, 8, 'hex');
  target.writeDoubleLE(append.number, start + 36);
  target.writeDoubleLE(append.seen.position, start + 44);
  target.writeUInt32LE(append.seen.check, start + 52);
  return at;
}

/** Whether the bytes begin like an append: others on the engine are not this log's. */
export function isAppend(bytes: Buffer): boolean {
  return bytes.length >= fixedBytes && bytes.readUInt32LE(0) === magic;
}

/** @param bytes whole appends, one after the other. @throws EngineDamaged */
export function unframeAppends(bytes: Buffer): SequencedAppend[] {
  const appends: SequencedAppend[] = [];
  for (let at = 0, end = 0; at < bytes.length; at = end) {
    end =
      bytes.length - at < fixedBytes ? bytes.length : at + bytes.readUInt32LE(at + 12) + bytes.readUInt32LE(at + 16);
    appends.push(unframeAppend(bytes.subarray(at, end)));
  }
  return appends;
}

/** @param bytes head and records. @throws EngineDamaged */
export function unframeAppend(bytes: Buffer): SequencedAppend {
  if (!isAppend(bytes)) throw new EngineDamaged('a record is no append');
  const headBytes = bytes.readUInt32LE(12);
  if (headBytes < fixedBytes || bytes.length !== headBytes + bytes.readUInt32LE(16)) {
    throw new EngineDamaged(`an append has ${bytes.length} bytes instead of ${headBytes + bytes.readUInt32LE(16)}`);
  }
  if (crc32(bytes.subarray(checkedFrom)) !== bytes.readUInt32LE(4)) throw new EngineDamaged('an append is damaged');
  if (bytes.readUInt8(8) !== formatVersion) {
    throw new EngineDamaged(`an append has format ${bytes.readUInt8(8)}; this version reads format ${formatVersion}`);
  }
  const writes = writesOf(bytes, headBytes);
  checkNumbers(bytes);
  checkRecords(bytes, headBytes, writes);
  return {
    log: bytes.toString('hex', 20, 28),
    writer: bytes.toString('hex', 28, 36),
    number: bytes.readDoubleLE(36),
    seen: { position: bytes.readDoubleLE(44), check: bytes.readUInt32LE(52) },
    writes,
    records: bytes.subarray(headBytes),
    ...requestOf(bytes.readUInt8(9)),
  };
}

/** @throws EngineDamaged */
function requestOf(byte: number): AppendRequest {
  if (byte === 0) return {};
  const until = stages[byte & ~cameWithIds];
  if (until === undefined && byte !== cameWithIds) throw new EngineDamaged(`an append is to reach stage ${byte}`);
  return { ...(until !== undefined && { until }), ...((byte & cameWithIds) !== 0 && { withIds: true }) };
}

/** @throws EngineDamaged unless they fill the head */
function writesOf(bytes: Buffer, headBytes: number): PreparedWrite[] {
  const writes: PreparedWrite[] = [];
  let at = fixedBytes;
  for (let left = bytes.readUInt16LE(10); left > 0; left--) {
    const end = at + writeBytes <= headBytes ? at + writeBytes + bytes.readUInt16LE(at + 13) : Infinity;
    if (end > headBytes) throw new EngineDamaged('an append has more writes than its head has room for');
    writes.push({
      expectedRevision: expectationAt(bytes, at),
      count: bytes.readUInt32LE(at + 9),
      stream: bytes.toString('utf8', at + writeBytes, end) as StreamName,
    });
    at = end;
  }
  if (at !== headBytes)
    throw new EngineDamaged(`an append has ${headBytes - at} bytes between its head and its records`);
  return writes;
}

function checkNumbers(bytes: Buffer): void {
  const number = bytes.readDoubleLE(36);
  const position = bytes.readDoubleLE(44);
  if (!Number.isSafeInteger(number) || !Number.isSafeInteger(position) || number < 0 || position < 0) {
    throw new EngineDamaged(`an append has the number ${number} and has seen position ${position}`);
  }
}

/** @throws EngineDamaged unless the records are whole, as many as the writes have events, and of the streams of their writes */
function checkRecords(bytes: Buffer, start: number, writes: readonly PreparedWrite[]): void {
  const wanted = writes.reduce((sum, { count }) => sum + count, 0);
  let count = 0;
  for (let at = start; at < bytes.length; at = recordEnd(bytes, at)) {
    if (!recordIsSound(bytes, at, bytes.length)) throw new EngineDamaged(`event ${count} of an append is not whole`);
    count++;
  }
  if (count !== wanted) throw new EngineDamaged(`an append has ${count} events instead of ${wanted}`);
  let at = start;
  for (const write of writes) {
    const first = at;
    for (let left = write.count; left > 0; left--, at = recordEnd(bytes, at)) {
      const isOfStream = at === first ? recordStream(bytes, at) === write.stream : sameStream(bytes, first, at);
      if (!isOfStream) throw new EngineDamaged('an event of an append is of another stream than its write');
    }
  }
}

function expectationAt(bytes: Buffer, at: number): ExpectedRevision {
  const kind = bytes.readUInt8(at);
  const revision = bytes.readDoubleLE(at + 1);
  if (kind === exactRevision && Number.isInteger(revision)) return BigInt(revision);
  const expectation = expectations[kind];
  if (expectation === undefined)
    throw new EngineDamaged(`an append expects ${kind === exactRevision ? `revision ${revision}` : `kind ${kind}`}`);
  return expectation;
}
