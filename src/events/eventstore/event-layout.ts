/**
 * How appends lie on EventStoreDB. The events of an append are written in order to the physical stream
 * `<log name>.<stream of the first write>`, as binary events of their own type whose data is their record. One
 * `appendToStream` contains a whole append, unless that is larger than `maxWriteBytes`; a record larger than
 * `maxSliceBytes` continues in the data of the following events. An append without events is one event of type
 * `barrier`.
 *
 * The metadata is JSON:
 *   call     which call of `LogEngine.append` wrote it: 16 digits of the sender, one opened engine, `-`, number of the call
 *   place    index of the event among all events of the call
 *   of       number of events of the call
 *   head     on the first event of an append: the head of `append-frame.ts` in base64, if it is small; a larger one is the
 *            data of the events before the first record
 *   writer, number, events   on the first event of an append: its writer, its number, and how many events it records
 *   stream, expected, event  the logical stream, the revision that its write expected, and the id of the recorded event
 */
import { createHash } from 'node:crypto';
import { recordEnd } from '../embedded/event-record.ts';
import { frameHead } from '../replicated/append-frame.ts';
import type { SequencedAppend } from '../replicated/engine.ts';

/** One `appendToStream`. */
export interface StreamAppend {
  readonly stream: string;
  readonly events: readonly PhysicalEvent[];
}

export interface PhysicalEvent {
  readonly id: string;
  readonly type: string;
  readonly data: Uint8Array;
  /** JSON as bytes, which the client passes on unchanged. */
  readonly metadata: Uint8Array;
}

/** The members that reading needs. The others are for people. */
export interface EventMetadata {
  /** Both from `call`. */
  readonly sender: string;
  readonly call: number;
  readonly place: number;
  readonly of: number;
  readonly head?: string;
  readonly begins?: true;
}

/** Servers before 26 accept 1 MiB at once. */
const maxWriteBytes = 768 * 1024;
const maxSliceBytes = 128 * 1024;
const maxHeadBytes = 16 * 1024;
/** What the server adds to an event, and the type, which it counts in UTF-16. */
const overheadBytes = 256;
const barrierStream = 'barrier';

export function streamPrefix(logName: string): string {
  return `${logName}.`;
}

/** @param call `<sender>-<number>`: new for each call, also for one that repeats an earlier one */
export function layOut(appends: readonly SequencedAppend[], logName: string, call: string): StreamAppend[] {
  const pieces = appends.flatMap((append) => piecesOf(append, logName));
  const writes: { stream: string; events: PhysicalEvent[] }[] = [];
  let bytes = 0;
  for (const [place, { stream, begins, type, data, described }] of pieces.entries()) {
    const metadata = new TextEncoder().encode(JSON.stringify({ call, place, of: pieces.length, ...described }));
    const size = data.length + metadata.length + overheadBytes;
    if (begins || bytes + size > maxWriteBytes) {
      writes.push({ stream, events: [] });
      bytes = 0;
    }
    bytes += size;
    writes.at(-1)?.events.push({ id: physicalId(call, place), type, data: bytesOf(data), metadata });
  }
  return writes;
}

/** Undefined for an event that no gateway wrote. */
export function metadataOf(metadata: unknown): EventMetadata | undefined {
  if (typeof metadata !== 'object' || metadata === null) return undefined;
  const { call: name, place, of, head, begins } = metadata as { readonly [name: string]: unknown };
  if (typeof name !== 'string' || typeof place !== 'number' || typeof of !== 'number') return undefined;
  const [, sender, number] = /^(\w+)-(\d+)$/.exec(name) ?? [];
  if (sender === undefined || !(place >= 0 && place < of)) return undefined;
  return {
    sender,
    call: Number(number),
    place,
    of,
    head: typeof head === 'string' ? head : undefined,
    begins: begins === true ? true : undefined,
  };
}

interface Piece {
  readonly stream: string;
  /** Whether it is the first of its append. */
  readonly begins: boolean;
  readonly type: string;
  readonly data: Buffer;
  readonly described: object;
}

function piecesOf(append: SequencedAppend, logName: string): Piece[] {
  const stream = `${streamPrefix(logName)}${append.writes[0]?.stream ?? barrierStream}`;
  const head = frameHead(append);
  const { writer, number } = append;
  const events = append.writes.reduce((sum, { count }) => sum + count, 0);
  const isSmall = head.length <= maxHeadBytes;
  const first = { begins: true, writer, number, events, ...(isSmall ? { head: head.toString('base64') } : {}) };
  const pieces: Piece[] = [];
  const add = (type: string, data: Buffer, described: object) => {
    const begins = pieces.length === 0;
    pieces.push({ stream, begins, type, data, described: begins ? { ...first, ...described } : described });
  };
  if (!isSmall) for (const slice of slicesOf(head)) add('head', slice, {});
  let at = 0;
  for (const { stream: logical, expectedRevision, count } of append.writes) {
    const expected = String(expectedRevision);
    for (let left = count; left > 0; left--) {
      const end = recordEnd(append.records, at);
      const described = { stream: logical, expected, event: recordText(append.records, at, 0) };
      const type = recordText(append.records, at, 1);
      for (const slice of slicesOf(append.records.subarray(at, end))) add(type, slice, described);
      at = end;
    }
  }
  if (pieces.length === 0) add(barrierStream, Buffer.alloc(0), {});
  return pieces;
}

/** Id (0) or type (1) of the record. */
function recordText(records: Buffer, at: number, which: 0 | 1): string {
  const idBytes = records.readUInt8(at + 20);
  const start = at + 40 + (which === 0 ? 0 : idBytes);
  return records.toString('utf8', start, start + records.readUInt8(at + 20 + which));
}

function slicesOf(bytes: Buffer): Buffer[] {
  const slices: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += maxSliceBytes) slices.push(bytes.subarray(at, at + maxSliceBytes));
  return slices;
}

/**
 * The server ignores an event whose id it knows in the stream. The id must therefore be new in every call: otherwise an
 * event that is recorded twice on purpose, or a repetition whose first try was incomplete, would not be written.
 */
function physicalId(call: string, place: number): string {
  const hash = createHash('sha1').update(`${call}-${place}`).digest('hex');
  const variant = ((Number.parseInt(hash.slice(16, 18), 16) & 0x3f) | 0x80).toString(16);
  return `${hash.slice(0, 8)}-${hash.slice(8, 12)}-8${hash.slice(13, 16)}-${variant}${hash.slice(18, 20)}-${hash.slice(20, 32)}`;
}

/** The same bytes as a plain array of bytes: the client copies a `Buffer`. */
function bytesOf(buffer: Buffer): Uint8Array {
  return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.length);
}
