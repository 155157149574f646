/**
 * The record: one event as it lies in a frame. All numbers are little-endian.
 *
 *      0  u32  record bytes, all of it
 *      4  u32  body bytes       8  u32  data bytes      12  u32  context bytes
 *     16  u16  stream bytes    18  u16  schema version
 *     20  u8   id bytes        21  u8   type bytes      22  u8   flags     23  u8  0
 *     24  f64  at, milliseconds since the epoch
 *     32  f64  revision
 *     40  text, UTF-8: id, type, stream, context as JSON, data as JSON
 *         then the body, raw
 *
 * The envelope (all before the body) and the body are each one contiguous range, so either can be hashed by itself.
 * An event's position is that of its frame's first event plus its place in the frame.
 */
import type { StreamName } from '../event.ts';

export const recordHeaderBytes = 40;
/** Flag: a body follows the text. */
export const hasBody = 1;
/** Flag: all text is ASCII, so that places in bytes are places in characters. */
export const asciiText = 2;

export function recordEnd(buffer: Buffer, offset: number): number {
  return offset + buffer.readUInt32LE(offset);
}

export function recordRevision(buffer: Buffer, offset: number): number {
  return buffer.readDoubleLE(offset + 32);
}

export function setRecordRevision(buffer: Buffer, offset: number, revision: number): void {
  buffer.writeDoubleLE(revision, offset + 32);
}

/** Whether the record's lengths agree with each other and with the room there is. */
export function recordIsSound(buffer: Buffer, offset: number, end: number): boolean {
  if (end - offset < recordHeaderBytes) return false;
  const text =
    buffer.readUInt8(offset + 20) +
    buffer.readUInt8(offset + 21) +
    buffer.readUInt16LE(offset + 16) +
    buffer.readUInt32LE(offset + 12) +
    buffer.readUInt32LE(offset + 8);
  const bytes = buffer.readUInt32LE(offset);
  return bytes === recordHeaderBytes + text + buffer.readUInt32LE(offset + 4) && offset + bytes <= end;
}

export function recordId(buffer: Buffer, offset: number): string {
  const start = offset + recordHeaderBytes;
  const encoding = (buffer.readUInt8(offset + 22) & asciiText) === 0 ? 'utf8' : 'latin1';
  return buffer.toString(encoding, start, start + buffer.readUInt8(offset + 20));
}

export function recordType(buffer: Buffer, offset: number): string {
  const start = offset + recordHeaderBytes + buffer.readUInt8(offset + 20);
  const encoding = (buffer.readUInt8(offset + 22) & asciiText) === 0 ? 'utf8' : 'latin1';
  return buffer.toString(encoding, start, start + buffer.readUInt8(offset + 21));
}

/** Milliseconds since the epoch, with a fraction. */
export function recordTime(buffer: Buffer, offset: number): number {
  return buffer.readDoubleLE(offset + 24);
}

function streamStart(buffer: Buffer, offset: number): number {
  return offset + recordHeaderBytes + buffer.readUInt8(offset + 20) + buffer.readUInt8(offset + 21);
}

export function recordStream(buffer: Buffer, offset: number): StreamName {
  const start = streamStart(buffer, offset);
  const encoding = (buffer.readUInt8(offset + 22) & asciiText) === 0 ? 'utf8' : 'latin1';
  return buffer.toString(encoding, start, start + buffer.readUInt16LE(offset + 16)) as StreamName;
}

/** Whether the record belongs to the stream with this name (as UTF-8). Cheaper than reading the name. */
export function recordIsOf(buffer: Buffer, offset: number, stream: Buffer): boolean {
  if (buffer.readUInt16LE(offset + 16) !== stream.length) return false;
  const start = streamStart(buffer, offset);
  return buffer.compare(stream, 0, stream.length, start, start + stream.length) === 0;
}

/** Whether two records in the buffer belong to one stream. Cheaper than reading the names. */
export function sameStream(buffer: Buffer, one: number, other: number): boolean {
  const length = buffer.readUInt16LE(one + 16);
  if (buffer.readUInt16LE(other + 16) !== length) return false;
  const start = streamStart(buffer, one);
  const otherStart = streamStart(buffer, other);
  return buffer.compare(buffer, otherStart, otherStart + length, start, start + length) === 0;
}
