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
import { upcast } from '../catalogue/catalogue.ts';
import type { EventContext, NewEvent, RecordedEvent, StreamName } from '../event.ts';
import type { CompiledFilter } from '../filter.ts';
import { formatPosition } from '../sequence-position.ts';

export const recordHeaderBytes = 40;
const hasBody = 1;
/** All text is ASCII, so that places in bytes are places in characters. */
const asciiText = 2;

const emptyBody = Buffer.alloc(0);

/** An upper bound of the bytes that `writeRecord` will need for this text (see `recordText`) and body. */
export function recordBound(textLength: number, bodyLength: number): number {
  return recordHeaderBytes + textLength * 3 + bodyLength;
}

const contextTexts = new WeakMap<EventContext, string>();

/** Contexts are shared by all events of one exchange, so each is put into words once. */
export function contextText(context: EventContext): string {
  let text = contextTexts.get(context);
  if (text === undefined) {
    text = JSON.stringify(context);
    contextTexts.set(context, text);
  }
  return text;
}

export interface RecordParts {
  readonly event: NewEvent;
  readonly stream: StreamName;
  readonly revision: number;
  readonly id: string;
  readonly at: number;
  readonly context: string;
  readonly data: string;
}

/**
 * Writes the record at `buffer[offset]` and returns where it ends. The buffer must have room for `recordBound`.
 * @throws RangeError when a name is too long or is no well-formed Unicode: it could not be read back as it was.
 */
export function writeRecord(buffer: Buffer, offset: number, parts: RecordParts): number {
  const { event, stream, id, context, data } = parts;
  const { type, body } = event;
  const text = id + type + stream + context + data;
  const textBytes = buffer.write(text, offset + recordHeaderBytes);
  let flags = 0;
  let idBytes = id.length;
  let typeBytes = type.length;
  let streamBytes = stream.length;
  let contextBytes = context.length;
  let dataBytes = data.length;
  if (textBytes === text.length) {
    flags = asciiText;
  } else {
    if (!(id.isWellFormed() && type.isWellFormed() && stream.isWellFormed())) {
      throw new RangeError(`event ${type} of stream ${stream}: its id, type or stream is not well-formed Unicode`);
    }
    idBytes = Buffer.byteLength(id);
    typeBytes = Buffer.byteLength(type);
    streamBytes = Buffer.byteLength(stream);
    contextBytes = Buffer.byteLength(context);
    dataBytes = Buffer.byteLength(data);
  }
  if (idBytes > 0xff || typeBytes > 0xff || streamBytes > 0xffff) {
    throw new RangeError(`event ${type} of stream ${stream.slice(0, 80)}: its id, type or stream name is too long`);
  }
  let end = offset + recordHeaderBytes + textBytes;
  let bodyBytes = 0;
  if (body !== undefined) {
    flags |= hasBody;
    bodyBytes = body.length;
    buffer.set(body, end);
    end += bodyBytes;
  }
  buffer.writeUInt32LE(end - offset, offset);
  buffer.writeUInt32LE(bodyBytes, offset + 4);
  buffer.writeUInt32LE(dataBytes, offset + 8);
  buffer.writeUInt32LE(contextBytes, offset + 12);
  buffer.writeUInt16LE(streamBytes, offset + 16);
  buffer.writeUInt16LE(event.schema, offset + 18);
  // the four one-byte fields in one go
  buffer.writeUInt32LE(idBytes | (typeBytes << 8) | (flags << 16), offset + 20);
  buffer.writeDoubleLE(parts.at, offset + 24);
  buffer.writeDoubleLE(parts.revision, offset + 32);
  return end;
}

export function recordEnd(buffer: Buffer, offset: number): number {
  return offset + buffer.readUInt32LE(offset);
}

export function recordRevision(buffer: Buffer, offset: number): number {
  return buffer.readDoubleLE(offset + 32);
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

interface KnownType {
  readonly name: string;
  readonly bytes: Buffer;
}

const typeSlots = 512;
const contextLimit = 2_000;

/** Turns records back into events. Keeps what recurs: the few type names, and the latest contexts. */
export class RecordReader {
  readonly #types: (KnownType | undefined)[] = new Array(typeSlots);
  readonly #contexts = new Map<string, EventContext>();

  typeOf(buffer: Buffer, offset: number): string {
    const start = offset + recordHeaderBytes + buffer.readUInt8(offset + 20);
    const length = buffer.readUInt8(offset + 21);
    let hash = length;
    for (let index = 0; index < length; index++) hash = (hash * 31 + (buffer[start + index] ?? 0)) | 0;
    const slot = hash & (typeSlots - 1);
    const known = this.#types[slot];
    if (known !== undefined && sameBytes(known.bytes, buffer, start, length)) return known.name;
    const bytes = Buffer.from(buffer.subarray(start, start + length));
    const name = bytes.toString('utf8');
    this.#types[slot] = { name, bytes };
    return name;
  }

  /** The event, in the newest schema, or undefined when the filter does not want it. */
  read(buffer: Buffer, offset: number, position: number, filter?: CompiledFilter): RecordedEvent | undefined {
    const type = this.typeOf(buffer, offset);
    if (filter !== undefined && !filter.everything) {
      if (!filter.acceptsType(type)) return undefined;
      if (!filter.anyStream && !filter.acceptsStream(recordStream(buffer, offset))) return undefined;
    }
    const idBytes = buffer.readUInt8(offset + 20);
    const typeBytes = buffer.readUInt8(offset + 21);
    const flags = buffer.readUInt8(offset + 22);
    const streamBytes = buffer.readUInt16LE(offset + 16);
    const contextBytes = buffer.readUInt32LE(offset + 12);
    const textStart = offset + recordHeaderBytes;
    const typeEnd = idBytes + typeBytes;
    const streamEnd = typeEnd + streamBytes;
    const contextEnd = streamEnd + contextBytes;
    const bodyStart = textStart + contextEnd + buffer.readUInt32LE(offset + 8);
    let id: string;
    let stream: string;
    let context: string;
    let data: string;
    if ((flags & asciiText) !== 0) {
      const text = buffer.toString('latin1', textStart, textStart + contextEnd);
      id = text.slice(0, idBytes);
      stream = text.slice(typeEnd, streamEnd);
      context = text.slice(streamEnd);
      data = buffer.toString('latin1', textStart + contextEnd, bodyStart);
    } else {
      id = buffer.toString('utf8', textStart, textStart + idBytes);
      stream = buffer.toString('utf8', textStart + typeEnd, textStart + streamEnd);
      context = buffer.toString('utf8', textStart + streamEnd, textStart + contextEnd);
      data = buffer.toString('utf8', textStart + contextEnd, bodyStart);
    }
    return upcast({
      id,
      type,
      schema: buffer.readUInt16LE(offset + 18),
      stream: stream as StreamName,
      revision: BigInt(buffer.readDoubleLE(offset + 32)),
      position: formatPosition(position),
      at: buffer.readDoubleLE(offset + 24),
      context: this.#context(context),
      data: JSON.parse(data),
      body: (flags & hasBody) === 0 ? undefined : bodyCopy(buffer, bodyStart, buffer.readUInt32LE(offset + 4)),
    });
  }

  #context(text: string): EventContext {
    const known = this.#contexts.get(text);
    if (known !== undefined) return known;
    const context: EventContext = Object.freeze(JSON.parse(text));
    if (this.#contexts.size >= contextLimit) this.#contexts.clear();
    this.#contexts.set(text, context);
    return context;
  }
}

/** A copy: a body that someone keeps must not keep the whole block that it was read from. */
function bodyCopy(buffer: Buffer, start: number, length: number): Buffer {
  return length === 0 ? emptyBody : Buffer.from(buffer.subarray(start, start + length));
}

function sameBytes(known: Buffer, buffer: Buffer, start: number, length: number): boolean {
  if (known.length !== length) return false;
  for (let index = 0; index < length; index++) if (known[index] !== buffer[start + index]) return false;
  return true;
}
