/** Writes events as records and reads them back; see record-layout.ts. */
import { upcast } from '../catalogue/catalogue.ts';
import type { EventContext, NewEvent, RecordedEvent, StreamName } from '../event.ts';
import type { CompiledFilter } from '../filter.ts';
import { formatPosition } from '../sequence-position.ts';
import { asciiText, hasBody, recordHeaderBytes, recordStream } from './record-layout.ts';

const emptyBody = Buffer.alloc(0);
const bodyBlockBytes = 32 * 1024;

/** An upper bound of the bytes that `writeRecord` will need for this text (see `recordText`) and body. */
export function recordBound(textLength: number, bodyLength: number): number {
  return recordHeaderBytes + textLength * 3 + bodyLength;
}

const contextTexts = new WeakMap<EventContext, string>();

/** Contexts are shared by all events of one exchange, so each is encoded once. */
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
 * @throws RangeError when a name is too long or is no well-formed Unicode: it would change when it is read back.
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
  // the four one-byte fields in one write
  buffer.writeUInt32LE(idBytes | (typeBytes << 8) | (flags << 16), offset + 20);
  buffer.writeDoubleLE(parts.at, offset + 24);
  buffer.writeDoubleLE(parts.revision, offset + 32);
  return end;
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
  /** A view of the buffer that was read last: reads numbers in half the time that the buffer's own methods take. */
  #view: DataView = new DataView(new ArrayBuffer(0));
  #viewed: Buffer | undefined;

  typeOf(buffer: Buffer, offset: number): string {
    const view = this.#viewOf(buffer);
    return this.#types.at(view, offset + recordHeaderBytes + view.getUint8(offset + 20), view.getUint8(offset + 21));
  }

  /** The event, in the newest schema, or undefined when the filter does not match. */
  read(buffer: Buffer, offset: number, position: number, filter?: CompiledFilter): RecordedEvent | undefined {
    const type = this.typeOf(buffer, offset);
    if (filter !== undefined && !filter.everything) {
      if (!filter.acceptsType(type)) return undefined;
      if (!filter.anyStream && !filter.acceptsStream(recordStream(buffer, offset))) return undefined;
    }
    const view = this.#viewOf(buffer);
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

  #viewOf(buffer: Buffer): DataView {
    if (buffer !== this.#viewed) {
      this.#viewed = buffer;
      this.#view = new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
    }
    return this.#view;
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
