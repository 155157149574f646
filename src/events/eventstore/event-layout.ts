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
import { frameHead, unframeAppend } from '../replicated/append-frame.ts';
import { EngineDamaged, type EnginePlace, type SequencedAppend } from '../replicated/engine.ts';

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

// Puts the events of `$all` together again to appends. The events of one call of `LogEngine.append` may arrive in any
// order and incompletely; its appends count in the order of the call, each once all before it are complete. A call is
// abandoned when its sender's next one begins, or when more than `maxGapBytes` of the server's log pass without a further
// event of it. So what counts follows from the content of the log alone. `resume` has the incomplete calls, so that reading
// from there comes to the same state.

/** Bytes of the server's log, all its events included. Calls last seconds at most. */
export const maxGapBytes = 32n * 1024n * 1024n;

const lengthsEnd = 20;

interface OpenCall {
  readonly number: number;
  /** Events up to there do not count. */
  readonly since: bigint;
  latest: bigint;
  next: number;
  /** Since when events are held that are no complete append yet, and `next` at that time. */
  held: { readonly before: EventPlace; readonly next: number } | undefined;
  /** Events that arrived before one that belongs before them. */
  readonly early: Map<number, ReadEvent>;
  readonly append: OpenAppend;
}

interface OpenAppend {
  pieces: Buffer[];
  bytes: number;
}

interface ReadEvent {
  readonly metadata: EventMetadata;
  readonly data: Uint8Array;
}

export class CallAssembly {
  /** By sender; the least recently active first. */
  readonly #open = new Map<string, OpenCall>();
  readonly #from: ResumePlace;
  #latest: EventPlace;

  constructor(from: ResumePlace) {
    this.#from = from;
    this.#latest = from.after;
    for (const { sender, ...call } of from.calls) this.#open.set(sender, newCall(call));
  }

  /** The event that was read last. */
  get latest(): EventPlace {
    return this.#latest;
  }

  /** From where another reader comes to the same state. */
  get resume(): ResumePlace {
    if (this.#latest.commit < this.#from.readTo.commit) return this.#from;
    let after = this.#latest;
    for (const { held } of this.#open.values())
      if (held !== undefined && held.before.commit < after.commit) after = held.before;
    const calls = [...this.#open].map(([sender, { number, held, next, latest }]): IncompleteCall => {
      const since = held?.before.commit ?? this.#latest.commit;
      return { sender, number, next: held?.next ?? next, since, latest };
    });
    return { after, readTo: this.#latest, calls };
  }

  /**
   * @param metadata undefined for an event that no gateway wrote
   * @returns the appends that are complete with this event
   * @throws EngineDamaged
   */
  add(place: EventPlace, metadata: EventMetadata | undefined, data: Uint8Array): SequencedAppend[] {
    const before = this.#latest;
    this.#latest = place;
    this.#abandon(place.commit);
    const call = metadata === undefined ? undefined : this.#callOf(metadata, place.commit);
    if (metadata === undefined || call === undefined) return [];
    const { next } = call;
    if (metadata.place >= next) call.early.set(metadata.place, { metadata, data });
    const appends = [...takeAppends(call)];
    if (call.early.size === 0 && call.append.pieces.length === 0) call.held = undefined;
    else call.held ??= { before, next };
    if (call.next === metadata.of) this.#open.delete(metadata.sender);
    return appends;
  }

  /** Undefined when the event does not count. */
  #callOf({ sender, call: number }: EventMetadata, commit: bigint): OpenCall | undefined {
    const open = this.#open.get(sender);
    // A sender's next call begins when the one before has failed or is complete.
    if (open !== undefined && number < open.number) return undefined;
    const known = open?.number === number ? open : undefined;
    // Read before: calls that the place does not list were complete or abandoned there.
    if (commit <= this.#from.readTo.commit) return known !== undefined && commit > known.since ? known : undefined;
    const call = known ?? newCall({ number, next: 0, since: 0n, latest: commit });
    call.latest = commit;
    this.#open.delete(sender);
    this.#open.set(sender, call);
    return call;
  }

  #abandon(commit: bigint): void {
    for (const [sender, { latest }] of this.#open) {
      if (commit - latest <= maxGapBytes) return;
      this.#open.delete(sender);
    }
  }
}

function newCall(call: Omit<IncompleteCall, 'sender'>): OpenCall {
  return { ...call, held: undefined, early: new Map(), append: { pieces: [], bytes: 0 } };
}

function* takeAppends(call: OpenCall): Generator<SequencedAppend> {
  for (let event = call.early.get(call.next); event !== undefined; event = call.early.get(call.next)) {
    call.early.delete(call.next++);
    const append = extend(call.append, event);
    if (append !== undefined) yield append;
  }
}

/** @returns the append, when the event is its last one */
function extend(open: OpenAppend, { metadata, data }: ReadEvent): SequencedAppend | undefined {
  if (metadata.begins === true ? open.pieces.length > 0 : open.pieces.length === 0) {
    throw new EngineDamaged('an append on EventStoreDB is incomplete although its last event was written');
  }
  if (metadata.head !== undefined) add(open, Buffer.from(metadata.head, 'base64'));
  add(open, Buffer.from(data.buffer, data.byteOffset, data.length));
  const [start] = open.pieces;
  if (start === undefined || start.length < lengthsEnd)
    throw new EngineDamaged('an append on EventStoreDB has no head');
  // Bytes of the head and of the records: append-frame.ts.
  const complete = start.readUInt32LE(12) + start.readUInt32LE(16);
  if (open.bytes < complete) return undefined;
  const frame = Buffer.concat(open.pieces, open.bytes);
  open.pieces = [];
  open.bytes = 0;
  return unframeAppend(frame);
}

function add(open: OpenAppend, piece: Buffer): void {
  open.pieces.push(piece);
  open.bytes += piece.length;
}

/**
 * A place in `$all` as text that sorts: `<commit>-<prepare>-<check>` of an event of this log, after which reading begins,
 * and, when calls were incomplete, `/` and the same of the event that was read last, and those calls:
 * `,<sender>-<number>:<next>:<since>:<latest>`. The check is the start of the event's id, by which the event is recognised on a
 * server that was restored from a backup and written again.
 */
export interface EventPlace {
  readonly commit: bigint;
  readonly prepare: bigint;
  /** The first 8 digits of the event's id. */
  readonly check: string;
}

/** A call of which events are missing. */
interface IncompleteCall {
  readonly sender: string;
  readonly number: number;
  /** Index of the first event that is needed. */
  readonly next: number;
  /** Position after which the events that are needed lie. */
  readonly since: bigint;
  /** Position of its latest event. */
  readonly latest: bigint;
}

export interface ResumePlace {
  readonly after: EventPlace;
  /** The event that was read last. */
  readonly readTo: EventPlace;
  readonly calls: readonly IncompleteCall[];
}

/** Before the first event. */
export const beginning: EventPlace = { commit: 0n, prepare: 0n, check: '00000000' };

export function isBeginning({ commit }: EventPlace): boolean {
  return commit === 0n;
}

/** A place without incomplete calls. */
export function resumeAfter(after: EventPlace): ResumePlace {
  return { after, readTo: after, calls: [] };
}

export function formatPlace({ after, readTo, calls }: ResumePlace): EnginePlace {
  if (calls.length === 0) return textOf(after);
  const list = calls.map(
    ({ sender, number, next, since, latest }) => `,${sender}-${number}:${next}:${since}:${latest}`,
  );
  return `${textOf(after)}/${textOf(readTo)}${list.join('')}`;
}

/** Undefined when the text is no place of this engine. */
export function parsePlace(place: EnginePlace): ResumePlace | undefined {
  const form = /^(\d{20}-\d{20}-[0-9a-f]{8})(?:\/(\d{20}-\d{20}-[0-9a-f]{8})((?:,\w+-\d+:\d+:\d+:\d+)+))?$/;
  const [, start, end, list = ''] = form.exec(place) ?? [];
  if (start === undefined) return undefined;
  const calls = [...list.matchAll(/,(\w+)-(\d+):(\d+):(\d+):(\d+)/g)].map((found) => {
    const [, sender = '', number, next, since = '', latest = ''] = found;
    return { sender, number: Number(number), next: Number(next), since: BigInt(since), latest: BigInt(latest) };
  });
  return { after: eventPlaceOf(start), readTo: eventPlaceOf(end ?? start), calls };
}

function textOf({ commit, prepare, check }: EventPlace): string {
  return `${String(commit).padStart(20, '0')}-${String(prepare).padStart(20, '0')}-${check}`;
}

function eventPlaceOf(text: string): EventPlace {
  const [commit = '', prepare = '', check = ''] = text.split('-');
  return { commit: BigInt(commit), prepare: BigInt(prepare), check };
}
