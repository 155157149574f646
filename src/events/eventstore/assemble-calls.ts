/**
 * Puts the events of `$all` together again to appends. The events of one call of `LogEngine.append` may arrive in any
 * order and incompletely; its appends count in the order of the call, each once all before it are complete. A call is
 * abandoned when its sender's next one begins, or when more than `maxGapBytes` of the server's log pass without a further
 * event of it. So what counts follows from the content of the log alone. `resume` has the incomplete calls, so that reading
 * from there comes to the same state.
 */
import { unframeAppend } from '../replicated/append-frame.ts';
import { EngineDamaged, type SequencedAppend } from '../replicated/engine.ts';
import type { EventMetadata } from './event-layout.ts';
import type { EventPlace, IncompleteCall, ResumePlace } from './eventstore-place.ts';

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
