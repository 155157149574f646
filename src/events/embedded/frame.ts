/**
 * The frame: one batch of events as it lies in a segment. All numbers are little-endian.
 *
 *      0  u32  magic "CHNF"
 *      4  u32  mark: a random number of this log, so that no client can send bytes that look like one of its frames
 *      8  u32  CRC-32 of the header after this field
 *     12  u8   format version        13  u8  flags (0)        14  u16 header bytes
 *     16  u32  payload bytes         20  u32 event count
 *     24  u32  CRC-32 of the payload 28  u32 writer: when it opened the log, see watermark.ts (0: not known)
 *     32  f64  position of the first event
 *     40  f64  position of the last event known to be on disk when this frame was written
 *     48  f64  when the batch was closed, milliseconds since the epoch
 *     56  payload: the events, see event-record.ts
 *
 * Header and payload are checked apart: the length can be trusted once the header is good, and CRC-32 finds every
 * error burst of up to 32 bits, so each flipped byte is found with certainty, not only with probability.
 */
import { crc32 } from 'node:zlib';

export const frameHeaderBytes = 56;
const magic = 0x464e4843;
export const formatVersion = 1;
const checkedFrom = 12;

export interface BatchFrame {
  readonly count: number;
  readonly first: number;
  readonly last: number;
  /** See the header's field: evidence that everything up to there had been acknowledged. */
  readonly durable: number;
  readonly at: number;
  /** Which writer wrote it: the second since the epoch at which it opened the log; 0 when that is not known. */
  readonly writer: number;
  /** Where the payload begins and ends in the buffer that the frame was read from. */
  readonly start: number;
  readonly end: number;
}

export type FrameDefect = 'no frame' | 'cut short' | 'header damaged' | 'unknown format' | 'payload damaged';

/** Where headers are written before they are copied to their frames. */
const header = Buffer.alloc(frameHeaderBytes);
const headerFields = new DataView(header.buffer, header.byteOffset, frameHeaderBytes);
const checkedHeader = header.subarray(checkedFrom);
headerFields.setUint32(0, magic, true);
headerFields.setUint8(12, formatVersion);
headerFields.setUint16(14, frameHeaderBytes, true);

/** Fills the header's place, `buffer[0..56)`, for the payload that follows it up to `end`. */
export function sealFrame(
  buffer: Buffer,
  end: number,
  frame: { mark: number; count: number; first: number; durable: number; at: number; writer: number },
): void {
  headerFields.setUint32(4, frame.mark, true);
  headerFields.setUint32(16, end - frameHeaderBytes, true);
  headerFields.setUint32(20, frame.count, true);
  headerFields.setUint32(24, crc32(buffer.subarray(frameHeaderBytes, end)), true);
  headerFields.setUint32(28, frame.writer, true);
  headerFields.setFloat64(32, frame.first, true);
  headerFields.setFloat64(40, frame.durable, true);
  headerFields.setFloat64(48, frame.at, true);
  headerFields.setUint32(8, crc32(checkedHeader), true);
  buffer.set(header);
}

/**
 * The frame that begins at `buffer[at]`, completely checked, or its defect. `cut short` means that its header is
 * good (or not there in full) and that more bytes are needed; `neededBytes` returns how many.
 */
export function readFrame(buffer: Buffer, at: number, end: number, mark: number): BatchFrame | FrameDefect {
  const header = readFrameHeader(buffer, at, end, mark);
  if (typeof header === 'string') return header;
  if (header.end > end) return 'cut short';
  const found = crc32(buffer.subarray(header.start, header.end));
  return found === buffer.readUInt32LE(at + 24) ? header : 'payload damaged';
}

/** As `readFrame`, without checking the payload: enough to skip the frame. */
export function readFrameHeader(buffer: Buffer, at: number, end: number, mark: number): BatchFrame | FrameDefect {
  if (end - at < frameHeaderBytes) return 'cut short';
  if (buffer.readUInt32LE(at) !== magic || buffer.readUInt32LE(at + 4) !== mark) return 'no frame';
  const found = crc32(buffer.subarray(at + checkedFrom, at + frameHeaderBytes));
  if (found !== buffer.readUInt32LE(at + 8)) return 'header damaged';
  if (buffer.readUInt8(at + 12) !== formatVersion) return 'unknown format';
  const count = buffer.readUInt32LE(at + 20);
  const first = buffer.readDoubleLE(at + 32);
  const start = at + buffer.readUInt16LE(at + 14);
  return {
    count,
    first,
    last: first + count - 1,
    durable: buffer.readDoubleLE(at + 40),
    at: buffer.readDoubleLE(at + 48),
    writer: buffer.readUInt32LE(at + 28),
    start,
    end: start + buffer.readUInt32LE(at + 16),
  };
}

/** The fields of the header, unchecked. */
export function framePayloadBytes(buffer: Buffer, at: number): number {
  return buffer.readUInt32LE(at + 16);
}

/** The eight bytes that every frame of a log begins with. */
export function framePrefix(mark: number): Buffer {
  const prefix = Buffer.alloc(8);
  prefix.writeUInt32LE(magic, 0);
  prefix.writeUInt32LE(mark, 4);
  return prefix;
}

/** The mark of the log whose first bytes these are, when they begin with a frame. */
export function markOf(buffer: Buffer): number | undefined {
  if (buffer.length < frameHeaderBytes) return undefined;
  const mark = buffer.readUInt32LE(4);
  return typeof readFrameHeader(buffer, 0, buffer.length, mark) === 'string' ? undefined : mark;
}

/** Some whole frames that follow each other. */
export interface FrameRun {
  readonly buffer: Buffer;
  readonly start: number;
  readonly end: number;
  /** Where they begin in the segment. */
  readonly offset: number;
  readonly frames: readonly BatchFrame[];
}

/** A stream's places in a segment as bytes: pairs of frame offset and first revision, as differences, in LEB128. */
export function encodeFramePlaces(frames: readonly number[]): Uint8Array {
  const bytes: number[] = [];
  let offset = 0;
  let revision = 0;
  for (let index = 0; index < frames.length; index += 2) {
    const nextOffset = frames[index] ?? 0;
    const nextRevision = frames[index + 1] ?? 0;
    pushNumber(bytes, nextOffset - offset);
    pushNumber(bytes, nextRevision - revision);
    offset = nextOffset;
    revision = nextRevision;
  }
  return Uint8Array.from(bytes);
}

export function decodeFramePlaces(bytes: Uint8Array): number[] {
  const frames: number[] = [];
  const latest = [0, 0];
  let value = 0;
  let factor = 1;
  for (const byte of bytes) {
    value += (byte & 0x7f) * factor;
    factor *= 128;
    if (byte >= 0x80) continue;
    const which = frames.length % 2;
    latest[which] = (latest[which] ?? 0) + value;
    frames.push(latest[which] ?? 0);
    value = 0;
    factor = 1;
  }
  return frames;
}

/** Not with bit operations: revisions may go past 2^32. */
function pushNumber(bytes: number[], number: number): void {
  let rest = number;
  while (rest >= 128) {
    bytes.push((rest % 128) | 0x80);
    rest = Math.floor(rest / 128);
  }
  bytes.push(rest);
}
