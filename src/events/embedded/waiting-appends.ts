/** Appends that wait because the disk is behind: bounded in bytes and in time, served in order. */

import type { StreamName } from '../event.ts';
import { type Appended, LogUnavailable } from '../log.ts';
import type { OlderRevision, PreparedWrite, RememberedAppend, SizedAppend } from './append-batch.ts';

export class AppendQueue {
  readonly #maxBytes: number;
  readonly #timeoutMs: number;
  readonly #stuckChanged: () => void;
  #waiting: WaitingAppend[] = [];
  /** Number of entries at the beginning of `#waiting` that have been removed. */
  #head = 0;
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #stuck = false;

  constructor(maxBytes: number, timeoutMs: number, stuckChanged: () => void) {
    this.#maxBytes = maxBytes;
    this.#timeoutMs = timeoutMs;
    this.#stuckChanged = stuckChanged;
  }

  get length(): number {
    return this.#waiting.length - this.#head;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** An append has timed out, and none has been taken since. */
  get stuck(): boolean {
    return this.#stuck;
  }

  get #first(): WaitingAppend | undefined {
    return this.#waiting[this.#head];
  }

  /** Lets the append wait for its turn. Rejects it with LogUnavailable, outcome `none`, when there is no room or time. */
  add(waiting: WaitingAppend): void {
    if (this.#bytes + waiting.append.bytes > this.#maxBytes) {
      waiting.reject(new LogUnavailable('the disk is too slow, and the queue for it is full', 'none'));
      return;
    }
    this.#bytes += waiting.append.bytes;
    this.#waiting.push(waiting);
    this.#timer ??= setTimeout(() => this.#expire(), this.#timeoutMs);
  }

  /**
   * Removes appends in their order for as long as there is room. Each leaves the queue before it is placed: that may
   * make the disk refuse, and `refuseAll` then rejects those that still wait.
   */
  drain(hasRoom: () => boolean, place: (waiting: WaitingAppend) => void): void {
    this.#setStuck(false);
    while (hasRoom()) {
      const next = this.#shift();
      if (next === undefined) break;
      place(next);
    }
    this.#rest();
  }

  /** Removes the first one. Removed entries are released in bulk, so that a long queue costs no more for each. */
  #shift(): WaitingAppend | undefined {
    const first = this.#first;
    if (first === undefined) return undefined;
    this.#head++;
    this.#bytes -= first.append.bytes;
    if (this.#head * 2 >= this.#waiting.length) {
      this.#waiting.splice(0, this.#head);
      this.#head = 0;
    }
    return first;
  }

  refuseAll(error: Error): void {
    const refused = this.#waiting.slice(this.#head);
    this.#waiting = [];
    this.#head = 0;
    this.#bytes = 0;
    this.#rest();
    for (const { reject } of refused) reject(error);
  }

  #expire(): void {
    this.#timer = undefined;
    const late = performance.now() - this.#timeoutMs;
    for (let first = this.#first; first !== undefined && first.since <= late; first = this.#first) {
      this.#shift();
      this.#setStuck(true);
      first.reject(new LogUnavailable(`the disk was too slow for ${this.#timeoutMs} ms`, 'none'));
    }
    const next = this.#first;
    if (next !== undefined) this.#timer = setTimeout(() => this.#expire(), Math.max(1, next.since - late));
  }

  #setStuck(stuck: boolean): void {
    if (stuck === this.#stuck) return;
    this.#stuck = stuck;
    this.#stuckChanged();
  }

  #rest(): void {
    if (this.length > 0) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

/** An append that has been called and waits for its turn. */
export interface WaitingAppend {
  readonly append: SizedAppend;
  readonly durable: boolean;
  /** Since when, as `performance.now()` counts. */
  readonly since: number;
  /** When its events came with ids. */
  readonly remembered?: RememberedAppend | undefined;
  readonly resolve: (appended: Appended) => void;
  readonly reject: (error: unknown) => void;
}

// Appends that wait until the last revisions of their streams have been looked up. Appends to one stream keep their
// order: one that touches a stream for which another one waits here, waits here too. All others pass.

/** Number of parallel lookups: one that has to read a segment must not delay those that the index answers. */
const maxRequests = 4;

interface RevisionLookupsParts {
  /** Whether the last revision of the stream is known without looking it up. */
  readonly isKnown: (write: PreparedWrite) => boolean;
  /** Last revisions in closed segments, -1 for none. What is found holds until the next turn of the event loop. */
  readonly lookUp: (streams: readonly StreamName[]) => Promise<ReadonlyMap<StreamName, number>>;
  /** Puts the append into a batch, or rejects it. */
  readonly place: (waiting: WaitingAppend, found: OlderRevision) => void;
}

interface RevisionLookupsLimits {
  readonly maxQueuedBytes: number;
  readonly queueTimeoutMs: number;
}

export class RevisionLookups {
  readonly #parts: RevisionLookupsParts;
  readonly #limits: RevisionLookupsLimits;
  #waiting: WaitingAppend[] = [];
  /** How many of those that wait touch the stream. */
  readonly #touched = new Map<StreamName, number>();
  #bytes = 0;
  readonly #lookingUp = new Set<StreamName>();
  #requests = 0;
  #willLookUp = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: RevisionLookupsParts, limits: RevisionLookupsLimits) {
    this.#parts = parts;
    this.#limits = limits;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Whether an append must wait here because an earlier one of the same stream does. */
  holdsBack(writes: readonly { readonly stream: StreamName }[]): boolean {
    return this.#waiting.length > 0 && writes.some(({ stream }) => this.#touched.has(stream));
  }

  /** Rejects the append with LogUnavailable, outcome `none`, when there is no room, or no answer in time. */
  add(waiting: WaitingAppend): void {
    const { maxQueuedBytes, queueTimeoutMs } = this.#limits;
    if (this.#bytes + waiting.append.bytes > maxQueuedBytes) {
      waiting.reject(new LogUnavailable('too many appends wait for the stream index', 'none'));
      return;
    }
    this.#waiting.push(waiting);
    this.#count(waiting, 1);
    this.#timer ??= setTimeout(() => this.#expire(), queueTimeoutMs);
    this.#lookUpSoon();
  }

  /** Appends that are called one after the other, for example when a sync has ended, share one lookup. */
  #lookUpSoon(): void {
    if (this.#willLookUp) return;
    this.#willLookUp = true;
    queueMicrotask(() => {
      this.#willLookUp = false;
      this.#lookUp();
    });
  }

  refuseAll(error: Error): void {
    this.#takeOut(() => true).forEach(({ reject }) => {
      reject(error);
    });
  }

  /** Looks up together the streams of the next appends that are not being looked up yet. */
  #lookUp(): void {
    if (this.#requests >= maxRequests || this.#waiting.length === 0) return;
    const wanted = this.#wanted();
    if (wanted.length === 0) {
      // the revision has become known without a lookup
      if (this.#requests === 0) this.#release(new Map());
      return;
    }
    this.#requests++;
    for (const stream of wanted) this.#lookingUp.add(stream);
    const answered = () => {
      this.#requests--;
      for (const stream of wanted) this.#lookingUp.delete(stream);
    };
    this.#parts.lookUp(wanted).then(
      (found) => {
        answered();
        this.#release(found);
        this.#lookUp();
      },
      (error: unknown) => {
        answered();
        const failed = new Set(wanted);
        const reason = error instanceof Error ? error.message : String(error);
        const refusal = new LogUnavailable(`the stream index cannot be read: ${reason}`, 'none', error);
        const needed = ({ append }: WaitingAppend) => append.writes.some(({ stream }) => failed.has(stream));
        for (const { reject } of this.#takeOut(needed)) reject(refusal);
        this.#lookUp();
      },
    );
  }

  #wanted(): StreamName[] {
    const wanted = new Set<StreamName>();
    const blocked = new Set<StreamName>();
    for (const { append } of this.#waiting) {
      const isBlocked = append.writes.some(({ stream }) => blocked.has(stream));
      for (const write of append.writes) {
        blocked.add(write.stream);
        if (isBlocked || this.#lookingUp.has(write.stream) || this.#parts.isKnown(write)) continue;
        wanted.add(write.stream);
      }
    }
    return [...wanted];
  }

  #release(found: ReadonlyMap<StreamName, number>): void {
    const blocked = new Set<StreamName>();
    const ready = this.#takeOut(({ append: { writes } }) => {
      const waits = writes.some(
        (write) => blocked.has(write.stream) || !(found.has(write.stream) || this.#parts.isKnown(write)),
      );
      if (waits) for (const { stream } of writes) blocked.add(stream);
      return !waits;
    });
    for (const waiting of ready) this.#parts.place(waiting, (stream) => found.get(stream));
  }

  #expire(): void {
    this.#timer = undefined;
    const { queueTimeoutMs } = this.#limits;
    const late = performance.now() - queueTimeoutMs;
    const refusal = new LogUnavailable(`the stream index has not answered for ${queueTimeoutMs} ms`, 'none');
    for (const { reject } of this.#takeOut(({ since }) => since <= late)) reject(refusal);
    const next = this.#waiting[0];
    if (next !== undefined) this.#timer = setTimeout(() => this.#expire(), Math.max(1, next.since - late));
  }

  #takeOut(isWanted: (waiting: WaitingAppend) => boolean): WaitingAppend[] {
    const ready: WaitingAppend[] = [];
    this.#waiting = this.#waiting.filter((waiting) => {
      if (!isWanted(waiting)) return true;
      ready.push(waiting);
      return false;
    });
    for (const waiting of ready) this.#count(waiting, -1);
    if (this.#waiting.length === 0) {
      clearTimeout(this.#timer);
      this.#timer = undefined;
    }
    return ready;
  }

  #count({ append: { writes, bytes } }: WaitingAppend, change: 1 | -1): void {
    this.#bytes += change * bytes;
    for (const { stream } of writes) {
      const touching = (this.#touched.get(stream) ?? 0) + change;
      if (touching === 0) this.#touched.delete(stream);
      else this.#touched.set(stream, touching);
    }
  }
}
