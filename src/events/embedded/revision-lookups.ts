/**
 * Appends that wait until the last revisions of their streams have been looked up. Appends to one stream keep their
 * order: one that touches a stream for which another one waits here, waits here too. All others pass.
 */
import type { StreamName } from '../event.ts';
import { LogUnavailable } from '../log.ts';
import type { OlderRevision } from './encode-append.ts';
import type { PreparedWrite } from './prepared-append.ts';
import type { WaitingAppend } from './waiting-append.ts';

/** Number of parallel lookups: one that has to read a segment must not delay those that the index answers. */
const maxRequests = 4;

export interface RevisionLookupsParts {
  /** Whether the last revision of the stream is known without looking it up. */
  readonly isKnown: (write: PreparedWrite) => boolean;
  /** Last revisions in closed segments, -1 for none. What is found holds until the next turn of the event loop. */
  readonly lookUp: (streams: readonly StreamName[]) => Promise<ReadonlyMap<StreamName, number>>;
  /** Puts the append into a batch, or rejects it. */
  readonly place: (waiting: WaitingAppend, found: OlderRevision) => void;
}

export interface RevisionLookupsLimits {
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
