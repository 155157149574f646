/** Writes events as records and reads them back. */
import { upcast } from '../catalogue/catalogue.ts';
import { type EventContext, formatPosition, type NewEvent, type RecordedEvent, type StreamName } from '../event.ts';
import { eventIdBytes, writeEventId } from '../event-id.ts';
import type { CompiledFilter } from '../log.ts';

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
export const recordHeaderBytes = 40;
/** Flag: a body follows the text. */
const hasBody = 1;
/** Flag: all text is ASCII, so that places in bytes are places in characters. */
const asciiText = 2;

let viewed: Buffer | undefined;
let latestView: DataView = new DataView(new ArrayBuffer(0));

/** Of the buffer that was used last: reads and writes numbers without the checks that allocate in the buffer's own methods. */
function viewOf(buffer: Buffer): DataView {
  if (buffer !== viewed) {
    viewed = buffer;
    latestView = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
  }
  return latestView;
}

export function recordEnd(buffer: Buffer, offset: number): number {
  return offset + viewOf(buffer).getUint32(offset, true);
}

export function recordRevision(buffer: Buffer, offset: number): number {
  return viewOf(buffer).getFloat64(offset + 32, true);
}

export function setRecordRevision(buffer: Buffer, offset: number, revision: number): void {
  viewOf(buffer).setFloat64(offset + 32, revision, true);
}

/** Whether the record's lengths agree with each other and with the room there is. */
export function recordIsSound(buffer: Buffer, offset: number, end: number): boolean {
  if (end - offset < recordHeaderBytes) return false;
  const view = viewOf(buffer);
  const text =
    view.getUint8(offset + 20) +
    view.getUint8(offset + 21) +
    view.getUint16(offset + 16, true) +
    view.getUint32(offset + 12, true) +
    view.getUint32(offset + 8, true);
  const bytes = view.getUint32(offset, true);
  return bytes === recordHeaderBytes + text + view.getUint32(offset + 4, true) && offset + bytes <= end;
}

export function recordId(buffer: Buffer, offset: number): string {
  const start = offset + recordHeaderBytes;
  const encoding = (viewOf(buffer).getUint8(offset + 22) & asciiText) === 0 ? 'utf8' : 'latin1';
  return buffer.toString(encoding, start, start + viewOf(buffer).getUint8(offset + 20));
}

export function recordType(buffer: Buffer, offset: number): string {
  const start = offset + recordHeaderBytes + viewOf(buffer).getUint8(offset + 20);
  const encoding = (viewOf(buffer).getUint8(offset + 22) & asciiText) === 0 ? 'utf8' : 'latin1';
  return buffer.toString(encoding, start, start + viewOf(buffer).getUint8(offset + 21));
}

/** Milliseconds since the epoch, with a fraction. */
export function recordTime(buffer: Buffer, offset: number): number {
  return viewOf(buffer).getFloat64(offset + 24, true);
}

function streamStart(buffer: Buffer, offset: number): number {
  return offset + recordHeaderBytes + viewOf(buffer).getUint8(offset + 20) + viewOf(buffer).getUint8(offset + 21);
}

export function recordStream(buffer: Buffer, offset: number): StreamName {
  const start = streamStart(buffer, offset);
  const encoding = (viewOf(buffer).getUint8(offset + 22) & asciiText) === 0 ? 'utf8' : 'latin1';
  return buffer.toString(encoding, start, start + viewOf(buffer).getUint16(offset + 16, true)) as StreamName;
}

/** Whether the record belongs to the stream with this name (as UTF-8). Cheaper than reading the name. */
export function recordIsOf(buffer: Buffer, offset: number, stream: Buffer): boolean {
  if (viewOf(buffer).getUint16(offset + 16, true) !== stream.length) return false;
  const start = streamStart(buffer, offset);
  return buffer.compare(stream, 0, stream.length, start, start + stream.length) === 0;
}

/** Whether two records in the buffer belong to one stream. Cheaper than reading the names. */
export function sameStream(buffer: Buffer, one: number, other: number): boolean {
  const length = viewOf(buffer).getUint16(one + 16, true);
  if (viewOf(buffer).getUint16(other + 16, true) !== length) return false;
  const start = streamStart(buffer, one);
  const otherStart = streamStart(buffer, other);
  return buffer.compare(buffer, otherStart, otherStart + length, start, start + length) === 0;
}

/** @returns the buffer if it has room for this many bytes behind those in use, else a larger one with these bytes */
export function withRoom(buffer: Buffer, used: number, bytes: number): Buffer {
  const needed = used + bytes;
  if (needed <= buffer.length) return buffer;
  const larger = Buffer.allocUnsafeSlow(Math.max(needed, buffer.length * 2));
  buffer.copy(larger, 0, 0, used);
  return larger;
}

const emptyBody = Buffer.alloc(0);
const bodyBlockBytes = 32 * 1024;

/** An upper bound of the bytes that `writeRecord` will need for this text (see `recordText`) and body. */
export function recordBound(textLength: number, bodyLength: number): number {
  return recordHeaderBytes + textLength * 3 + bodyLength;
}

/** A stream's name and a context, as they stand in a record. */
export interface RecordNames {
  readonly stream: StreamName;
  readonly bytes: Buffer;
  /** Bytes of the stream's name. */
  readonly streamBytes: number;
  /** In UTF-16. */
  readonly length: number;
}

const latestNames = new WeakMap<EventContext, RecordNames>();

/** Contexts are shared by all events of one exchange, most of which have one stream: so these are encoded once. */
export function namesOf(stream: StreamName, context: EventContext): RecordNames {
  const latest = latestNames.get(context);
  if (latest !== undefined && latest.stream === stream) return latest;
  const text = stream + JSON.stringify(context);
  const names = { stream, bytes: Buffer.from(text), streamBytes: Buffer.byteLength(stream), length: text.length };
  latestNames.set(context, names);
  return names;
}

export interface RecordParts {
  readonly event: NewEvent;
  /** Of the event, or a part of it. */
  readonly body: Uint8Array | undefined;
  readonly names: RecordNames;
  readonly data: string;
  readonly revision: number;
  /** The time of append, also for the id of an event that has none. */
  readonly at: number;
}

/**
 * Writes the record at `buffer[offset]` and returns where it ends. The buffer must have room for `recordBound`.
 * @throws RangeError when a name is too long or is no well-formed Unicode: it would change when it is read back.
 */
export function writeRecord(buffer: Buffer, offset: number, parts: RecordParts): number {
  const { event, body, names, data } = parts;
  const { id, type } = event;
  const { stream, bytes, streamBytes } = names;
  let end = offset + recordHeaderBytes;
  let idBytes = eventIdBytes;
  if (id === undefined) writeEventId(buffer, end, parts.at);
  else idBytes = buffer.write(id, end);
  end += idBytes;
  const typeBytes = buffer.write(type, end);
  end += typeBytes;
  buffer.set(bytes, end);
  end += bytes.length;
  const dataBytes = buffer.write(data, end);
  end += dataBytes;
  let flags = 0;
  const textLength = (id === undefined ? eventIdBytes : id.length) + type.length + names.length + data.length;
  if (end - offset - recordHeaderBytes === textLength) {
    flags = asciiText;
  } else if (!(type.isWellFormed() && stream.isWellFormed() && id?.isWellFormed() !== false)) {
    throw new RangeError(`event ${type} of stream ${stream}: its id, type or stream is not well-formed Unicode`);
  }
  if (idBytes > 0xff || typeBytes > 0xff || streamBytes > 0xffff) {
    throw new RangeError(`event ${type} of stream ${stream.slice(0, 80)}: its id, type or stream name is too long`);
  }
  let bodyBytes = 0;
  if (body !== undefined) {
    flags |= hasBody;
    bodyBytes = body.length;
    buffer.set(body, end);
    end += bodyBytes;
  }
  const view = viewOf(buffer);
  view.setUint32(offset, end - offset, true);
  view.setUint32(offset + 4, bodyBytes, true);
  view.setUint32(offset + 8, dataBytes, true);
  view.setUint32(offset + 12, bytes.length - streamBytes, true);
  view.setUint16(offset + 16, streamBytes, true);
  view.setUint16(offset + 18, event.schema, true);
  // the four one-byte fields in one write
  view.setUint32(offset + 20, idBytes | (typeBytes << 8) | (flags << 16), true);
  view.setFloat64(offset + 24, event.at ?? parts.at, true);
  view.setFloat64(offset + 32, parts.revision, true);
  return end;
}

// Records that are copies of one but for a number at the end of their data.

/** Digits of the number, and the closing brace. */
export const maxIndexBytes = 17;
const zero = 0x30;
const closingBrace = 0x7d;

/** How many bytes of the record are before the last `dataBytes` of its data. */
export function recordPrefixBytes(buffer: Buffer, offset: number, dataBytes: number): number {
  return recordEnd(buffer, offset) - offset - viewOf(buffer).getUint32(offset + 4, true) - dataBytes;
}

/**
 * Copies the first `prefix` bytes of the record at `from`, and ends the data of the copy with `index` and a brace. The copy
 * has no body yet.
 * @returns where it ends
 */
export function copyRecord(buffer: Buffer, from: number, to: number, prefix: number, index: number): number {
  buffer.copyWithin(to, from, from + prefix);
  let digits = 1;
  for (let rest = index; rest >= 10; rest = Math.floor(rest / 10)) digits++;
  let at = to + prefix + digits;
  buffer[at] = closingBrace;
  const end = at + 1;
  for (let rest = index; digits > 0; digits--) {
    const next = Math.floor(rest / 10);
    buffer[--at] = zero + rest - next * 10;
    rest = next;
  }
  const view = viewOf(buffer);
  const before = recordHeaderBytes + view.getUint8(to + 20) + view.getUint8(to + 21);
  const names = before + view.getUint16(to + 16, true) + view.getUint32(to + 12, true);
  view.setUint32(to, end - to, true);
  view.setUint32(to + 4, 0, true);
  view.setUint32(to + 8, end - to - names, true);
  return end;
}

/** Adds the body, `body[from..from + length)`, behind the record's text, which ends at `end`. @returns where it then ends */
export function addRecordBody(
  buffer: Buffer,
  offset: number,
  end: number,
  body: Buffer,
  from: number,
  length: number,
): number {
  body.copy(buffer, end, from, from + length);
  viewOf(buffer).setUint32(offset, end + length - offset, true);
  viewOf(buffer).setUint32(offset + 4, length, true);
  return end + length;
}

interface Interned<Decoded> {
  readonly length: number;
  readonly bytes: DataView;
  readonly decoded: Decoded;
}

/**
 * The meanings of recurring byte strings, found without decoding them. The length and some of the bytes select one
 * slot; another byte string with the same slot replaces the earlier one.
 */
class InternTable<Decoded> {
  readonly #slots: (Interned<Decoded> | undefined)[];
  readonly #mask: number;
  readonly #read: (bytes: Buffer) => Decoded;

  /** @param slots a power of two */
  constructor(slots: number, read: (bytes: Buffer) => Decoded) {
    this.#slots = new Array(slots).fill(undefined);
    this.#mask = slots - 1;
    this.#read = read;
  }

  at(view: DataView, start: number, length: number): Decoded {
    const slot = sample(view, start, length) & this.#mask;
    const known = this.#slots[slot];
    if (known !== undefined && known.length === length && sameBytes(known.bytes, view, start, length)) {
      return known.decoded;
    }
    const bytes = Buffer.from(Buffer.from(view.buffer, view.byteOffset + start, length));
    const decoded = this.#read(bytes);
    this.#slots[slot] = { length, bytes: new DataView(bytes.buffer, bytes.byteOffset, length), decoded };
    return decoded;
  }
}

/** A hash of the length and of the last bytes: ids, and names of types, differ at the end, before closing braces. */
function sample(view: DataView, start: number, length: number): number {
  let hash = Math.imul(length, 0x9e3779b1);
  for (let at = start + length - 4, words = 0; at >= start && words < 4; at -= 4, words++) {
    hash = Math.imul(hash ^ view.getInt32(at), 0x85ebca6b);
    hash ^= hash >>> 13;
  }
  return hash;
}

/** Four bytes at a time; the last four may overlap the ones before. */
function sameBytes(known: DataView, view: DataView, start: number, length: number): boolean {
  if (length < 4) {
    for (let index = 0; index < length; index++) {
      if (known.getUint8(index) !== view.getUint8(start + index)) return false;
    }
    return true;
  }
  const last = length - 4;
  for (let index = 0; index < last; index += 4) {
    if (known.getInt32(index) !== view.getInt32(start + index)) return false;
  }
  return known.getInt32(last) === view.getInt32(start + last);
}

/** Decodes records. Keeps recurring values: the type names, and the latest contexts. */
export class RecordReader {
  readonly #types = new InternTable(512, (bytes) => bytes.toString());
  readonly #contexts = new InternTable<EventContext>(4096, (bytes) => Object.freeze(JSON.parse(bytes.toString())));
  readonly #bodies = new BodyCopies();
  typeOf(buffer: Buffer, offset: number): string {
    const view = viewOf(buffer);
    return this.#types.at(view, offset + recordHeaderBytes + view.getUint8(offset + 20), view.getUint8(offset + 21));
  }

  /** The event, in the newest schema, or undefined when the filter does not match. */
  read(buffer: Buffer, offset: number, position: number, filter?: CompiledFilter): RecordedEvent | undefined {
    const type = this.typeOf(buffer, offset);
    if (filter !== undefined && !filter.everything) {
      if (!filter.acceptsType(type)) return undefined;
      if (!filter.anyStream && !filter.acceptsStream(recordStream(buffer, offset))) return undefined;
    }
    const view = viewOf(buffer);
    const idBytes = view.getUint8(offset + 20);
    const typeEnd = idBytes + view.getUint8(offset + 21);
    const flags = view.getUint8(offset + 22);
    const streamEnd = typeEnd + view.getUint16(offset + 16, true);
    const contextBytes = view.getUint32(offset + 12, true);
    const textStart = offset + recordHeaderBytes;
    const dataStart = textStart + streamEnd + contextBytes;
    const bodyStart = dataStart + view.getUint32(offset + 8, true);
    let id: string;
    let stream: string;
    let data: string;
    if ((flags & asciiText) !== 0) {
      const names = buffer.toString('latin1', textStart, textStart + streamEnd);
      id = names.slice(0, idBytes);
      stream = names.slice(typeEnd);
      data = buffer.toString('latin1', dataStart, bodyStart);
    } else {
      id = buffer.toString('utf8', textStart, textStart + idBytes);
      stream = buffer.toString('utf8', textStart + typeEnd, textStart + streamEnd);
      data = buffer.toString('utf8', dataStart, bodyStart);
    }
    return upcast({
      id,
      type,
      schema: view.getUint16(offset + 18, true),
      stream: stream as StreamName,
      revision: BigInt(view.getFloat64(offset + 32, true)),
      position: formatPosition(position),
      at: view.getFloat64(offset + 24, true),
      context: this.#contexts.at(view, textStart + streamEnd, contextBytes),
      data: JSON.parse(data),
      body:
        (flags & hasBody) === 0 ? undefined : this.#bodies.copy(buffer, bodyStart, view.getUint32(offset + 4, true)),
    });
  }
}

/**
 * Copies bodies into shared blocks, so that a body that a caller keeps does not keep the whole block of the log
 * that it was read from.
 */
class BodyCopies {
  #block: Buffer = Buffer.alloc(0);
  #used = 0;

  copy(buffer: Buffer, start: number, length: number): Buffer {
    if (length === 0) return emptyBody;
    if (length > bodyBlockBytes / 8) {
      const own = Buffer.allocUnsafeSlow(length);
      buffer.copy(own, 0, start, start + length);
      return own;
    }
    if (this.#used + length > this.#block.length) {
      this.#block = Buffer.allocUnsafeSlow(bodyBlockBytes);
      this.#used = 0;
    }
    const at = this.#used;
    this.#used += length;
    buffer.copy(this.#block, at, start, start + length);
    return this.#block.subarray(at, at + length);
  }
}
