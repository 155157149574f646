/**
 * The sending side of a log on an engine, and of a worker's log: numbers the appends of this process, hands them over one
 * group at a time, sends a group again whose outcome is not known, and lets each append wait until it has been read back, or
 * answered by the primary process.
 */
import { randomBytes } from 'node:crypto';
import type { EncodedAppend } from '../embedded/append-batch.ts';
import { type Appended, LogUnavailable } from '../log.ts';
import {
  type AppendRequest,
  EngineUnavailable,
  EngineUnsuitable,
  type LogEngine,
  pause,
  type SeenEvent,
  type SequencedAppend,
} from './engine.ts';

export interface OutboxParts {
  readonly engine: Pick<LogEngine, 'name' | 'append'>;
  /** What the replica has, for the next appends. */
  readonly known: () => { readonly log: string; readonly seen: SeenEvent };
  readonly timing: OutboxTiming;
  /** Bytes of appends that may wait, sent or not. */
  readonly maxBytes: number;
  readonly restartReading?: () => void;
  readonly troubleChanged: () => void;
  /** Another process appends with the writer id of this one; appends are sent with another id from now on. */
  readonly writerShared?: () => void;
  /** The engine refused appends, and trying again is useless as it is set up. */
  readonly refused?: (error: EngineUnsuitable) => void;
}

/** What became of an append in the order of the log. */
export type AppendResult = Appended | Promise<Appended> | Error;

interface PendingAppend {
  readonly append: EncodedAppend;
  readonly request: AppendRequest;
  readonly bytes: number;
  /** 0 until it is sent. */
  number: number;
  readonly since: number;
  sequenced?: SequencedAppend;
  sentAt?: number;
  acknowledgedAt?: number;
  settled: boolean;
  /** Undefined for an append without a time limit: one that only tests whether it is read back. */
  readonly reject: ((error: Error) => void) | undefined;
  readonly resolve: (result: Appended | Promise<Appended>) => void;
}

const maxGroup = { appends: 1_000, bytes: 4 * 1024 * 1024 };
const overheadBytes = 512;
const checkMs = 100;
/** A check that is so late finds the process behind, not the engine: answers have arrived that it has not read yet. */
const lateCheckMs = 1_000;
const bytesPerMs = (1024 * 1024) / 1000;
/** Of an append that is sent to learn when everything before it is recorded. */
export const nothing: EncodedAppend = { writes: [], records: Buffer.alloc(0) };

export class Outbox {
  readonly #parts: OutboxParts;
  #queue: PendingAppend[] = [];
  /** Sent and not yet read back, by number. */
  readonly #sent = new Map<number, PendingAppend>();
  /** Which opened log this is, on the engine. */
  #writer = newWriter();
  #formerWriter: string | undefined;
  #bytes = 0;
  #unread = 0;
  /** Appends that have a caller, sent or not. */
  #awaited = 0;
  #nextNumber = 1;
  /** When anything was read from the engine last. */
  #lastReadAt = 0;
  /** Nothing is sent before `release`. */
  #held = true;
  #sending = false;
  #trouble: string | undefined;
  #testing = false;
  #closed = false;
  #ended: AbortController = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #checkedAt = 0;
  #idle: (() => void)[] = [];

  constructor(parts: OutboxParts) {
    this.#parts = parts;
  }

  /** Why appends are refused, when they are. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** Bytes of appends that wait, sent or not. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Number of appends that the engine has acknowledged and that were not read back yet. */
  get unread(): number {
    return this.#unread;
  }

  /** Appends that may be recorded and have no outcome, in order. */
  get sent(): readonly SequencedAppend[] {
    return [...this.#sent.values()].flatMap(({ sequenced }) => sequenced ?? []);
  }

  /** Whether an append that has a caller has no outcome. */
  get isAwaited(): boolean {
    return this.#awaited > 0;
  }

  isOwn(writer: string): boolean {
    return writer === this.#writer || writer === this.#formerWriter;
  }

  /** Resolves when the append was read back and accepted. @throws LogUnavailable, and the error of its place in the log */
  append(append: EncodedAppend, request: AppendRequest = {}): Promise<Appended> {
    if (this.#trouble !== undefined) return Promise.reject(new LogUnavailable(this.#trouble, 'none'));
    if (this.#closed) return Promise.reject(new LogUnavailable('it has been closed', 'none'));
    if (this.#bytes + append.records.length > this.#parts.maxBytes) {
      return Promise.reject(new LogUnavailable(`${this.#name} is too slow, and the queue for it is full`, 'none'));
    }
    const { promise, resolve, reject } = Promise.withResolvers<Appended>();
    this.#add(append, resolve, reject, request);
    return promise;
  }

  /** Sends it also while appends are refused, and tells nobody what becomes of it. */
  send(append: EncodedAppend): void {
    this.#add(append, () => {}, undefined);
  }

  /** Resolves when everything that is on the engine now has been read. Waits for as long as that takes. */
  readToEnd(): Promise<void> {
    return this.#readBarrier().then(() => {});
  }

  /** @returns how long it took to send the barrier and to read it */
  #readBarrier(): Promise<number> {
    return new Promise((resolve) => {
      const read = () => resolve(performance.now() - (barrier.sentAt ?? barrier.since));
      const barrier = this.#add(nothing, read, undefined);
    });
  }

  /** Something was read from the engine: the end of a long log is not late while reading goes on. */
  noteRead(): void {
    this.#lastReadAt = performance.now();
  }

  /** Appends are sent from now on: the engine has been found to have what the replica has. */
  release(): void {
    this.#held = false;
    this.#sendSoon();
  }

  /** Nothing is sent until `release`. */
  hold(): void {
    this.#held = true;
  }

  /** Sends again, before everything else, what was sent and has no outcome: nothing of it was or will be recorded. */
  sendAgain(): void {
    this.#sendSkippedAgain({ writer: this.#writer, number: Number.POSITIVE_INFINITY });
    this.release();
  }

  /** The engine has answered the append of this number. */
  answer(number: number, result: Appended | Error): void {
    const pending = this.#sent.get(number);
    if (pending === undefined) return;
    this.#remove(pending);
    if (result instanceof Error) pending.reject?.(result);
    else pending.resolve(result);
    this.#noteIdle();
  }

  /** @param append one that was read, of any writer */
  settle(append: SequencedAppend, result: AppendResult): void {
    if (!this.isOwn(append.writer)) return;
    const pending = this.#sent.get(append.number);
    const isOwn = pending?.sequenced !== undefined && isSame(pending.sequenced, append);
    if (isOwn) this.#remove(pending);
    else if (append.writer === this.#writer && (pending !== undefined || append.number >= this.#nextNumber)) {
      this.#changeWriter();
    }
    this.#sendSkippedAgain(append);
    if (!isOwn) return;
    if (result instanceof Error) pending.reject?.(result);
    else pending.resolve(result);
    this.#noteIdle();
  }

  /** After a copy of this process, as of a virtual machine, has used a number of this writer for another append. */
  #changeWriter(): void {
    this.#formerWriter = this.#writer;
    this.#writer = newWriter();
    this.#parts.writerShared?.();
  }

  /**
   * Sends appends again under new numbers that were not read before this append of their writer, with the same or smaller
   * numbers: they have not arrived, or after it. Every reader ignores those numbers from now on, so nothing of them was or
   * will be recorded.
   */
  #sendSkippedAgain({ writer, number }: Pick<SequencedAppend, 'writer' | 'number'>): void {
    const skipped: PendingAppend[] = [];
    for (const [earlier, pending] of this.#sent) {
      if (earlier > number) break;
      if (pending.sequenced?.writer !== writer) continue;
      this.#sent.delete(earlier);
      if (pending.acknowledgedAt !== undefined) this.#unread--;
      skipped.push(Object.assign(pending, { number: 0, sentAt: undefined, acknowledgedAt: undefined }));
    }
    if (skipped.length === 0) return;
    this.#queue = [...skipped, ...this.#queue];
    this.#sendSoon();
  }

  /** Refuses appends until an append that is sent from now on has been read back. */
  enterTrouble(reason: string): void {
    const isNew = this.#trouble === undefined;
    this.#trouble = reason;
    const refused = this.#queue.filter(({ reject }) => reject !== undefined);
    this.#queue = this.#queue.filter(({ reject }) => reject === undefined);
    for (const pending of refused) this.#refuse(pending, new LogUnavailable(reason, 'none'));
    if (isNew) this.#parts.troubleChanged();
    this.#test();
  }

  /** Sends nothing more: what was sent has an unknown outcome, everything else is refused. */
  stop(reason: string): void {
    this.#closed = true;
    this.#ended.abort();
    clearInterval(this.#timer);
    this.#trouble = reason;
    for (const pending of this.#queue.splice(0)) this.#refuse(pending, new LogUnavailable(reason, 'none'));
    for (const pending of [...this.#sent.values()]) this.#refuse(pending, new LogUnavailable(reason, 'unknown'));
    this.#parts.troubleChanged();
  }

  /** Waits until every append has settled, at most for so long. Appends are refused from now on. */
  async close(limitMs?: number): Promise<void> {
    this.#closed = true;
    const late = limitMs === undefined ? undefined : setTimeout(() => this.stop('it has been closed'), limitMs);
    while (this.#awaited > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
    clearTimeout(late);
    this.#ended.abort();
    clearInterval(this.#timer);
  }

  get #name(): string {
    return this.#parts.engine.name;
  }

  #add(
    append: EncodedAppend,
    resolve: PendingAppend['resolve'],
    reject: PendingAppend['reject'],
    request: AppendRequest = {},
  ): PendingAppend {
    const bytes = append.records.length + overheadBytes;
    const since = performance.now();
    const pending: PendingAppend = { append, request, bytes, number: 0, since, settled: false, resolve, reject };
    this.#queue.push(pending);
    this.#bytes += bytes;
    if (reject !== undefined) this.#awaited++;
    if (this.#timer === undefined) {
      this.#checkedAt = since;
      this.#timer = setInterval(() => this.#checkTimes(), checkMs).unref();
    }
    this.#sendSoon();
    return pending;
  }

  /** At the end of the turn, so that the appends of one turn go together. */
  #sendSoon(): void {
    if (this.#sending || this.#held) return;
    this.#sending = true;
    setImmediate(() => void this.#sendAll());
  }

  async #sendAll(): Promise<void> {
    for (let group = this.#nextGroup(); group.length > 0; group = this.#nextGroup()) await this.#send(group);
    this.#sending = false;
  }

  #nextGroup(): PendingAppend[] {
    if (this.#ended.signal.aborted || this.#held) return [];
    let bytes = 0;
    let count = 0;
    for (const pending of this.#queue) {
      bytes += pending.bytes;
      if (count > 0 && (count >= maxGroup.appends || bytes > maxGroup.bytes)) break;
      count++;
    }
    const group = this.#queue.splice(0, count);
    for (const pending of group) this.#number(pending);
    return group;
  }

  #number(pending: PendingAppend): void {
    const { log, seen } = this.#parts.known();
    const { append, request } = pending;
    const { writes, records } = append;
    pending.number = this.#nextNumber++;
    pending.sentAt = performance.now();
    pending.sequenced = { log, writer: this.#writer, number: pending.number, seen, writes, records, ...request };
    this.#sent.set(pending.number, pending);
  }

  /** Sends the group again until the engine has acknowledged all of it that was neither refused nor read back. */
  async #send(group: readonly PendingAppend[]): Promise<void> {
    let mayBeThere = false;
    const isSent = (pending: PendingAppend) => this.#sent.get(pending.number) === pending;
    for (let left = group; left.length > 0; left = left.filter(isSent)) {
      try {
        await this.#parts.engine.append(left.flatMap(({ sequenced }) => sequenced ?? []));
        const now = performance.now();
        const unread = left.filter(isSent);
        for (const pending of unread) pending.acknowledgedAt = now;
        this.#unread += unread.length;
        return;
      } catch (error) {
        // the outcome of an append that was read back is known
        left = left.filter(isSent);
        if (left.length === 0) return;
        if (error instanceof EngineUnsuitable) this.#parts.refused?.(error);
        mayBeThere ||= !(error instanceof EngineUnavailable && error.outcome === 'none');
        const reason = `${this.#name}: ${error instanceof Error ? error.message : String(error)}`;
        if (!mayBeThere) this.#refuseGroup(left, reason);
        this.enterTrouble(reason);
      }
      await pause(this.#parts.timing.retryMs, this.#ended.signal);
      if (this.#ended.signal.aborted) return;
    }
  }

  #refuseGroup(group: readonly PendingAppend[], reason: string): void {
    for (const pending of group) {
      if (pending.reject !== undefined) this.#refuse(pending, new LogUnavailable(reason, 'none'));
    }
  }

  /** Sends an append without events; when it is read back in time, the engine works in both directions. */
  #test(): void {
    if (this.#testing || this.#closed) return;
    this.#testing = true;
    void this.#readBarrier().then((tookMs) => {
      this.#testing = false;
      if (tookMs > this.#parts.timing.stalledMs) return this.#test();
      this.leaveTrouble();
    });
  }

  /** Appends are accepted again. */
  leaveTrouble(): void {
    this.#trouble = undefined;
    this.#parts.troubleChanged();
  }

  #checkTimes(): void {
    const now = performance.now();
    const isLateCheck = now - this.#checkedAt > lateCheckMs;
    this.#checkedAt = now;
    if (isLateCheck) return;
    this.#checkQueue(now);
    this.#checkStalled(now);
    this.#checkOutcomes(now);
    if (this.#queue.length > 0 || this.#sent.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #checkQueue(now: number): void {
    const { queueTimeoutMs } = this.#parts.timing;
    const isLate = this.#queue.some(({ since, reject }) => reject !== undefined && now - since > queueTimeoutMs);
    if (isLate) this.enterTrouble(`${this.#name} has not acknowledged an append for ${queueTimeoutMs} ms`);
  }

  /** An append without a caller may take any time: it waits until everything that is on the engine has been read. */
  #checkStalled(now: number): void {
    const { stalledMs, stalledReadMs } = this.#parts.timing;
    let onItsWay = 0;
    let mustReadAnew = false;
    for (const { bytes, reject, sentAt = now, acknowledgedAt } of this.#sent.values()) {
      onItsWay += bytes;
      mustReadAnew ||= acknowledgedAt !== undefined && now - Math.max(acknowledgedAt, this.#lastReadAt) > stalledReadMs;
      const isStalled = now - (acknowledgedAt ?? sentAt) > stalledMs + onItsWay / bytesPerMs;
      if (reject === undefined || !isStalled || this.#trouble !== undefined) continue;
      const what =
        acknowledgedAt === undefined
          ? 'has not acknowledged an append'
          : 'has not returned an append that it acknowledged';
      this.enterTrouble(`${this.#name} ${what} for ${stalledMs} ms`);
    }
    if (mustReadAnew) this.#readAnew(now);
  }

  #checkOutcomes(now: number): void {
    const { outcomeTimeoutMs } = this.#parts.timing;
    const reason = `${this.#name} has not returned an append for ${outcomeTimeoutMs} ms`;
    if (this.refuseSent(now - outcomeTimeoutMs, reason)) this.enterTrouble(reason);
  }

  /**
   * Ends the waiting for what was sent of the appends that were called before that time, as `performance.now()` counts.
   * @returns whether there was any
   */
  refuseSent(since: number, reason: string): boolean {
    const late = [...this.#sent.values()].filter((pending) => pending.reject !== undefined && pending.since < since);
    for (const pending of late) this.#refuse(pending, new LogUnavailable(reason, 'unknown'));
    return late.length > 0;
  }

  #readAnew(now: number): void {
    for (const pending of this.#sent.values()) {
      if (pending.acknowledgedAt !== undefined) pending.acknowledgedAt = now;
    }
    this.enterTrouble(`${this.#name} acknowledges appends, but does not return them`);
    this.#parts.restartReading?.();
  }

  #refuse(pending: PendingAppend, error: Error): void {
    this.#remove(pending);
    pending.reject?.(error);
    this.#noteIdle();
  }

  #remove(pending: PendingAppend): void {
    if (pending.settled) return;
    pending.settled = true;
    this.#sent.delete(pending.number);
    if (pending.acknowledgedAt !== undefined) this.#unread--;
    this.#bytes -= pending.bytes;
    if (pending.reject !== undefined) this.#awaited--;
  }

  #noteIdle(): void {
    if (this.#awaited > 0) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }
}

function newWriter(): string {
  return randomBytes(8).toString('hex');
}

function isSame(sent: SequencedAppend, read: SequencedAppend): boolean {
  return (
    sent.writer === read.writer &&
    sent.seen.position === read.seen.position &&
    sent.seen.check === read.seen.check &&
    sent.records.equals(read.records)
  );
}

/** Times, in milliseconds, after which a replicated log gives something up. */
export interface OutboxTiming {
  /** How long an append may wait to be sent. It is then refused; nothing of it was recorded. */
  readonly queueTimeoutMs: number;
  /** How long an append that was sent may wait until it is read back. Its outcome is then unknown. */
  readonly outcomeTimeoutMs: number;
  /**
   * Appends are refused when the engine does not acknowledge a sent one, or does not return an acknowledged one, for so
   * long, and a second longer for each MiB that is on its way. They are accepted again when a test took less.
   */
  readonly stalledMs: number;
  /** Reading begins anew when an acknowledged append is not read back, nor anything else read, for so long. */
  readonly stalledReadMs: number;
  /** Delay before the engine is tried again. */
  readonly retryMs: number;
}
