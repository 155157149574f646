/**
 * The writer: takes appends, writes the batch of each turn of the event loop with one call, and lets one sync at a time
 * make everything durable that was written before it began.
 *
 * An append is encoded, and gets its positions and revisions, in the call itself. So when the disk refuses a batch,
 * the whole batch is refused, and its positions and revisions are used again. Only an append for which there is no
 * room, or of which a stream must be looked up, is encoded separately and gets positions and revisions when its turn
 * comes.
 */
import { formatPosition, type StreamName } from '../event.ts';
import { wallClock } from '../event-id.ts';
import { type Appended, type AppendStage, LogUnavailable, type StreamWrite } from '../log.ts';
import { RecentAppends } from '../recent-appends.ts';
import type { LiveBatch } from '../subscription.ts';
import {
  AppendBatch,
  type AppendOutcome,
  type EncodedAppend,
  encodeAppend,
  type OlderRevision,
  PreparedAppend,
  type PreparedWrite,
  PublishedBatch,
  placeAppend,
  type SizedAppend,
  usualBatchBytes,
} from './append-batch.ts';
import type { RecordReader } from './event-record.ts';
import { frameHeaderBytes, sealFrame } from './frame.ts';
import { LogMoved, LogTakenOver } from './log-errors.ts';
import type { Segment } from './segment.ts';
import type { SegmentWriter } from './segment-writer.ts';
import { AppendQueue, RevisionLookups, type WaitingAppend } from './waiting-appends.ts';
import type { Watermark } from './watermark.ts';
import { writerOf } from './writer-lock.ts';

export interface GroupCommitOptions {
  /** Durable waiters do not wait for the disk, which is synced every so many milliseconds. */
  readonly relaxedSyncMs: number | undefined;
  /** How long events without a waiter may stay unsynced, in ms, so that they share a sync with others. */
  readonly unawaitedSyncMs: number;
  readonly maxEventBytes: number;
  /** Bytes that may be written and not yet synced; they are kept in memory until then. */
  readonly maxUnsyncedBytes: number;
  /** Bytes of appends that may wait when that is used up, and for how long. */
  readonly maxQueuedBytes: number;
  readonly queueTimeoutMs: number;
  /** How often a disk that refused is tried again. */
  readonly probeMs: number;
}

export interface GroupCommitParts {
  /** The folder of the log. */
  readonly dir: string;
  readonly mark: number;
  readonly watermark: Watermark;
  readonly writer: SegmentWriter;
  readonly records: RecordReader;
  /** As far as that is known without waiting. */
  readonly olderRevision: OlderRevision;
  /** The same for all of the streams, -1 for none. Holds until the next turn of the event loop. */
  readonly lookUp: (streams: readonly StreamName[]) => Promise<ReadonlyMap<StreamName, number>>;
  /** Events have become visible. */
  readonly publish: (batch: LiveBatch) => void;
  /** A segment is full and another one is active; parts of the full one may not be on disk yet. */
  readonly rotated: (full: Segment, fresh: Segment) => void;
  /** The active segment is full and no other could be begun: it keeps growing, and the rotation is tried again. */
  readonly rotationFailed: (error: Error) => void;
  /** Frames that were not on disk are now in the fresh segment, and no longer in `cut` or the segments after it. */
  readonly rewritten: (cut: Segment | undefined, fresh: Segment) => void;
  /** One or more full segments are now wholly on disk. */
  readonly closed: () => void;
  readonly availabilityChanged: () => void;
}

/** An append that another process has encoded. */
export interface RecordsAppend {
  readonly append: SizedAppend;
  readonly until: AppendStage;
  /** Of all its events, when they came with ids. */
  readonly ids: readonly string[] | undefined;
  readonly resolve: (appended: Appended) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * A batch of this many bytes is written without waiting for the end of the turn of the event loop: requests that wait
 * for the operating system to have it go on. The sync comes at the end of the turn, for all of it.
 */
const flushBytes = 16 * 1024;
const probeBytes = 64 * 1024;
/** How many buffers of written batches are kept, to be used again. */
const keptBuffers = 64;

type WriteFailure = { readonly kind: 'write' | 'sync' | 'taken over'; readonly error: Error };

export class GroupCommit {
  readonly #options: GroupCommitOptions;
  readonly #parts: GroupCommitParts;
  /** Larger ones than usual are left to the garbage collector. */
  readonly #freeBuffers: Buffer[] = [];
  readonly #queue: AppendQueue;
  readonly #lookups: RevisionLookups;
  readonly #recent = new RecentAppends<AppendOutcome>();
  #batch: AppendBatch | undefined;
  /** Written and not known to be on disk, in order. */
  #unsynced: AppendBatch[] = [];
  #unsyncedBytes = 0;
  #nextPosition: number;
  #written: number;
  #durable: number;
  #syncing = false;
  #endsTurn = false;
  #syncTimer: NodeJS.Timeout | undefined;
  /** The highest position that a caller waits for to be on disk. */
  #lastAwaited = 0;
  #failure: WriteFailure | undefined;
  #probeTimer: NodeJS.Timeout | undefined;
  #recovery: Promise<void> | undefined;
  #closed = false;
  #awaitingChange: (() => void)[] = [];

  /** @param last position of the last event in the log, which is on disk */
  constructor(parts: GroupCommitParts, options: GroupCommitOptions, last: number) {
    this.#parts = parts;
    this.#options = options;
    this.#nextPosition = last + 1;
    this.#written = last;
    this.#durable = last;
    this.#queue = new AppendQueue(options.maxQueuedBytes, options.queueTimeoutMs, parts.availabilityChanged);
    this.#lookups = new RevisionLookups(
      {
        isKnown: (write) => this.isKnown(write),
        lookUp: parts.lookUp,
        place: (waiting, found) =>
          this.#place(waiting, (stream, expected) => parts.olderRevision(stream, expected) ?? found(stream, expected)),
      },
      options,
    );
  }

  get written(): number {
    return this.#written;
  }

  get durable(): number {
    return this.#durable;
  }

  get visible(): number {
    return this.#options.relaxedSyncMs === undefined ? this.#durable : this.#written;
  }

  get unsyncedBytes(): number {
    return this.#unsyncedBytes;
  }

  get queuedBytes(): number {
    return this.#queue.bytes + this.#lookups.bytes;
  }

  /** Why appends are refused, when they are. */
  get trouble(): string | undefined {
    return this.#failure?.error.message ?? (this.#queue.stuck ? 'the disk does not finish its writes' : undefined);
  }

  /** @param withIds whether events came with ids */
  append(writes: readonly StreamWrite[], until: AppendStage, withIds: boolean): Promise<Appended> {
    const durable = until === 'durable' && this.#options.relaxedSyncMs === undefined;
    if (this.#closed) return Promise.reject(new LogUnavailable('it has been closed', 'none'));
    try {
      const earlier = withIds ? this.#recent.find(writes)?.outcome : undefined;
      if (earlier !== undefined) return this.#resolveAgain(earlier, durable, () => this.append(writes, until, withIds));
      if (this.#failure !== undefined) return Promise.reject(unavailable(this.#failure.error, 'none'));
      if (this.#queue.length > 0 || this.#isFull()) return this.#wait(this.#queue, writes, durable, withIds);
      if (this.#lookups.holdsBack(writes)) return this.#wait(this.#lookups, writes, durable, withIds);
      return this.#appendNow(writes, durable, withIds);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * As `append`, for an append that another process has encoded. Without a promise for it: the callbacks of the request are
   * called once, also in this call.
   */
  appendRecords(request: RecordsAppend): void {
    const { append, until, ids } = request;
    const durable = until === 'durable' && this.#options.relaxedSyncMs === undefined;
    try {
      if (this.#closed) throw new LogUnavailable('it has been closed', 'none');
      const earlier = ids === undefined ? undefined : this.#recent.findIds(ids, eventsOf(append))?.outcome;
      if (earlier !== undefined) {
        const again = () =>
          new Promise<Appended>((resolve, reject) => this.appendRecords({ ...request, resolve, reject }));
        this.#resolveAgain(earlier, durable, again).then(request.resolve, request.reject);
        return;
      }
      if (this.#failure !== undefined) throw unavailable(this.#failure.error, 'none');
    } catch (error) {
      request.reject(error);
      return;
    }
    const waiting = this.#waitingFor(request, durable);
    if (this.#queue.length > 0 || this.#isFull()) this.#queue.add(waiting);
    else if (this.#lookups.holdsBack(append.writes)) this.#lookups.add(waiting);
    else this.#place(waiting, this.#parts.olderRevision);
  }

  #waitingFor({ append, ids, resolve, reject }: RecordsAppend, durable: boolean): WaitingAppend {
    const since = performance.now();
    if (ids === undefined) return { append, durable, since, resolve, reject };
    const settled = Promise.withResolvers<void>();
    const remembered = this.#recent.addIds(ids, eventsOf(append), { waiting: settled.promise });
    return {
      append,
      durable,
      since,
      remembered,
      resolve: (appended) => {
        settled.resolve();
        resolve(appended);
      },
      reject: (error) => {
        this.#recent.remove(remembered);
        settled.resolve();
        reject(error);
      },
    };
  }

  /** For `InOrderWriter`: whether `placeInOrder` can be called. */
  get takesRecords(): boolean {
    return !this.#closed && this.#failure === undefined && !this.#isFull();
  }

  /** Resolves when a sync has ended, or `takesRecords` may have changed. */
  changed(): Promise<void> {
    return new Promise((resolve) => this.#awaitingChange.push(resolve));
  }

  /** As far as that is known without waiting. */
  isKnown({ stream, expectedRevision }: Pick<PreparedWrite, 'stream' | 'expectedRevision'>): boolean {
    const known = this.#parts.writer.active.streams?.lastRevision(stream);
    return (known ?? this.#parts.olderRevision(stream, expectedRevision)) !== undefined;
  }

  /**
   * Puts records into the batch, without a promise for them. Must not be used on a log on which `append` is called, too.
   * @param found last revisions in closed segments, of streams that are not known; see `lookUp` of the parts
   * @returns undefined, and nothing was placed, when a stream is neither known nor found
   * @throws WrongExpectedRevision; LogUnavailable while `takesRecords` is false
   */
  placeInOrder(append: EncodedAppend, found: ReadonlyMap<StreamName, number>): Appended | undefined {
    if (this.#closed || this.#failure !== undefined) {
      throw new LogUnavailable(this.#failure?.error.message ?? 'it has been closed', 'none');
    }
    const batch = this.#openBatch();
    const lasts = placeAppend(
      batch,
      append,
      (stream, expected) => this.#parts.olderRevision(stream, expected) ?? found.get(stream),
    );
    if (lasts === undefined) return undefined;
    const appended = { position: formatPosition(batch.last), revisions: lasts.map(BigInt) };
    if (append.records.length > 0) this.#wasEncoded(batch, false);
    return appended;
  }

  /** Writes what was placed. @returns position of the last event that is written */
  writePlaced(): number {
    this.#flush();
    return this.#written;
  }

  #isFull(): boolean {
    return this.#unsyncedBytes + (this.#batch?.length ?? 0) > this.#options.maxUnsyncedBytes;
  }

  #appendNow(writes: readonly StreamWrite[], durable: boolean, withIds: boolean): Promise<Appended> {
    const batch = this.#openBatch();
    const before = batch.count;
    const lasts = encodeAppend(batch, writes, this.#parts.olderRevision, this.#options.maxEventBytes);
    if (lasts === undefined) return this.#wait(this.#lookups, writes, durable, withIds);
    const appended = { position: formatPosition(batch.last), revisions: lasts.map(BigInt) };
    if (batch.count === before) return Promise.resolve(appended);
    if (withIds) batch.remembered.push(this.#recent.add(writes, { appended, batch }));
    const promise = new Promise<Appended>((resolve, reject) => {
      batch.waiters.push({ resolve, reject, appended, durable });
    });
    this.#wasEncoded(batch, durable);
    return promise;
  }

  /** Encodes the append separately, and lets it wait. @throws EventTooLarge, and the error of `JSON.stringify` */
  #wait(
    where: AppendQueue | RevisionLookups,
    writes: readonly StreamWrite[],
    durable: boolean,
    withIds: boolean,
  ): Promise<Appended> {
    const append = new PreparedAppend(writes, this.#options.maxEventBytes);
    const { promise, resolve, reject } = Promise.withResolvers<Appended>();
    const remembered = withIds ? this.#recent.add(writes, { waiting: promise }) : undefined;
    where.add({
      append,
      durable,
      since: performance.now(),
      remembered,
      resolve,
      reject: (error) => {
        if (remembered !== undefined) this.#recent.remove(remembered);
        reject(error);
      },
    });
    return promise;
  }

  /** Puts an append that has waited into the batch. */
  #place(waiting: WaitingAppend, olderRevision: OlderRevision): void {
    const { append, durable, remembered, resolve, reject } = waiting;
    const batch = this.#openBatch();
    const before = batch.count;
    let lasts: number[] | undefined;
    try {
      lasts = placeAppend(batch, append, olderRevision);
    } catch (error) {
      reject(error);
      return;
    }
    if (lasts === undefined) {
      this.#lookups.add(waiting);
      return;
    }
    const appended = { position: formatPosition(batch.last), revisions: lasts.map(BigInt) };
    if (batch.count === before) {
      // so that everything before it becomes durable without delay
      if (durable) this.#lastAwaited = Math.max(this.#lastAwaited, batch.last);
      resolve(appended);
      return;
    }
    if (remembered !== undefined) {
      Object.assign(remembered.outcome, { appended, batch });
      batch.remembered.push(remembered);
    }
    batch.waiters.push({ resolve, reject, appended, durable });
    this.#wasEncoded(batch, durable);
  }

  /** Resolves or rejects like the earlier append of the same events. If that one is not recorded, it is made anew. */
  async #resolveAgain(earlier: AppendOutcome, durable: boolean, again: () => Promise<Appended>): Promise<Appended> {
    const { appended, batch, waiting } = earlier;
    if (appended === undefined) {
      await waiting?.catch(() => {});
      return again();
    }
    const isWritten = batch !== this.#batch;
    if (batch === undefined || (isWritten && !durable)) return appended;
    if (this.#failure !== undefined) throw unavailable(this.#failure.error, 'unknown');
    if (durable) this.#lastAwaited = Math.max(this.#lastAwaited, batch.last);
    return new Promise((resolve, reject) => {
      batch.waiters.push({ resolve, reject, appended, durable });
      if (isWritten) this.#syncSoon();
    });
  }

  #openBatch(): AppendBatch {
    if (this.#batch === undefined) {
      this.#batch = new AppendBatch(this.#nextPosition, this.#parts.writer.active, this.#freeBuffers.pop());
      if (!this.#endsTurn) {
        this.#endsTurn = true;
        // Writes the rest of the turn's events, and starts the sync.
        setImmediate(this.#endTurn);
      }
    }
    return this.#batch;
  }

  readonly #endTurn = () => {
    this.#endsTurn = false;
    this.#flush();
    if (this.#unsynced.length > 0) this.#syncSoon();
  };

  #wasEncoded(batch: AppendBatch, durable: boolean): void {
    this.#nextPosition = batch.last + 1;
    if (durable) this.#lastAwaited = batch.last;
    if (batch.length >= flushBytes) this.#flush();
  }

  /** Writes the batch. */
  #flush(): void {
    const batch = this.#batch;
    if (batch === undefined) return;
    this.#batch = undefined;
    if (batch.count === 0) {
      this.#reuse(batch.buffer);
      return;
    }
    // The check after each sync covers all that was written since the one before. A write is checked before it when no
    // sync is due that would be (so that an idle writer adds nothing behind the start of another one), and when its
    // appends do not wait for a sync.
    const { relaxedSyncMs } = this.#options;
    const isDue = relaxedSyncMs === undefined && this.#unsynced.length === 0;
    const takenOver = relaxedSyncMs !== undefined ? this.#displaced() : isDue ? this.#takenOver() : undefined;
    if (takenOver !== undefined) {
      this.#refuse(batch, takenOver);
      this.#wasTakenOver(takenOver);
      return;
    }
    const { mark, watermark, writer } = this.#parts;
    sealFrame(batch.buffer, batch.length, {
      mark,
      writer: watermark.writer.writer,
      count: batch.count,
      first: batch.first,
      durable: this.#durable,
      at: wallClock(),
    });
    try {
      writer.write(batch);
    } catch (error) {
      this.#refuse(batch, asError(error));
      this.#enterFailure({ kind: 'write', error: asError(error) });
      return;
    }
    this.#written = batch.last;
    this.#unsynced.push(batch);
    this.#unsyncedBytes += batch.length;
    const hasWritten = batch.waiters.some(({ durable }) => !durable);
    if (hasWritten) {
      // a writer that took over in between may not have read it
      const takenOverError = this.#takenOver();
      if (takenOverError !== undefined) {
        for (const waiter of batch.waiters.splice(0)) waiter.reject(unavailable(takenOverError, 'unknown'));
        this.#wasTakenOver(takenOverError);
        return;
      }
    }
    if (this.#options.relaxedSyncMs !== undefined) this.#show(batch);
    if (hasWritten) for (const waiter of batch.waiters) if (!waiter.durable) waiter.resolve(waiter.appended);
    const full = batch.segment;
    const fresh = writer.rotateWhenFull(this.#nextPosition);
    if (fresh instanceof Error) this.#parts.rotationFailed(fresh);
    else if (fresh !== undefined) this.#parts.rotated(full, fresh);
  }

  /** Makes the batch visible to readers. */
  #show(batch: AppendBatch): void {
    batch.segment.visibleBytes = batch.offset + batch.length;
    const { buffer, first, count } = batch;
    this.#parts.publish(new PublishedBatch({ buffer, start: frameHeaderBytes, first, count }, this.#parts.records));
  }

  /** At once when a caller waits for it, else soon. */
  #syncSoon(): void {
    if (this.#lastAwaited > this.#durable || this.#closed) {
      this.#sync();
      return;
    }
    const { relaxedSyncMs, unawaitedSyncMs } = this.#options;
    this.#syncTimer ??= setTimeout(() => {
      this.#syncTimer = undefined;
      this.#sync();
    }, relaxedSyncMs ?? unawaitedSyncMs);
  }

  #sync(): void {
    if (this.#syncing || this.#unsynced.length === 0 || this.#failure?.kind === 'sync') return;
    if (this.#failure?.kind === 'taken over') return;
    this.#syncing = true;
    const batches = this.#unsynced.length;
    this.#parts.writer.sync((error, closed) => {
      this.#syncing = false;
      if (error !== null) {
        this.#syncFailed(error);
        return;
      }
      const takenOver = this.#displaced();
      if (takenOver !== undefined) {
        this.#wasTakenOver(takenOver);
        return;
      }
      this.#becameDurable(batches);
      if (closed) this.#parts.closed();
      if (this.#unsynced.length > 0) this.#syncSoon();
      if (this.#queue.length > 0 || this.#queue.stuck) {
        this.#queue.drain(
          () => this.#failure === undefined && !this.#isFull(),
          (waiting) => {
            if (this.#lookups.holdsBack(waiting.append.writes)) this.#lookups.add(waiting);
            else this.#place(waiting, this.#parts.olderRevision);
          },
        );
      }
      this.#noteChange();
    });
  }

  #becameDurable(count: number): void {
    const batches = this.#unsynced.splice(0, count);
    const last = batches.at(-1);
    if (last === undefined) return;
    this.#durable = last.last;
    this.#parts.watermark.write(this.#durable);
    for (const batch of batches) {
      this.#unsyncedBytes -= batch.length;
      if (this.#options.relaxedSyncMs === undefined) this.#show(batch);
      for (const waiter of batch.waiters) if (waiter.durable) waiter.resolve(waiter.appended);
      for (const { outcome } of batch.remembered) outcome.batch = undefined;
      this.#reuse(batch.buffer);
    }
  }

  #reuse(buffer: Buffer): void {
    if (buffer.length === usualBatchBytes && this.#freeBuffers.length < keptBuffers) this.#freeBuffers.push(buffer);
  }

  #syncFailed(error: Error): void {
    this.#refuseUnsynced(error);
    this.#enterFailure({ kind: 'sync', error });
    this.#noteChange();
  }

  #refuseUnsynced(error: Error): void {
    const open = this.#batch;
    this.#batch = undefined;
    if (open !== undefined) this.#refuse(open, error);
    for (const batch of this.#unsynced) {
      for (const waiter of batch.waiters.splice(0)) {
        if (waiter.durable) waiter.reject(unavailable(error, 'unknown'));
      }
    }
  }

  /** Why this process must not write the log any more, when another one has taken it over. Reads one page in memory. */
  #takenOver(): Error | undefined {
    const { dir, watermark } = this.#parts;
    try {
      if (!watermark.writer.isTakenOver()) return undefined;
    } catch {
      // a disk that cannot be read is no evidence of another writer
      return undefined;
    }
    return new LogTakenOver(dir, writerOf(dir), formatPosition(this.visible));
  }

  /** The same, also when the files are no longer in the folder of the log. Looks a path up: once for each sync. */
  #displaced(): Error | undefined {
    const { dir, watermark } = this.#parts;
    try {
      if (!watermark.isInPlace()) return new LogMoved(dir, formatPosition(this.visible));
    } catch {
      // a disk that cannot be read is no evidence of another place
    }
    return this.#takenOver();
  }

  /** Finds out without an append whether this process must not write the log any more. */
  checkPlace(): void {
    if (this.#failure?.kind === 'taken over') return;
    const takenOver = this.#displaced();
    if (takenOver !== undefined) this.#wasTakenOver(takenOver);
  }

  /** Stops permanently: the files belong to another writer, so nothing is repaired or acknowledged any more. */
  #wasTakenOver(error: Error): void {
    if (this.#failure?.kind === 'taken over') return;
    this.#failure = { kind: 'taken over', error };
    clearInterval(this.#probeTimer);
    clearTimeout(this.#syncTimer);
    this.#refuseUnsynced(error);
    this.#refuseWaiting(unavailable(error, 'none'));
    this.#parts.availabilityChanged();
    this.#noteChange();
  }

  /** Undoes the positions and revisions of an unwritten batch. */
  #refuse(batch: AppendBatch, error: Error): void {
    batch.segment.streams?.forget(batch.buffer, frameHeaderBytes, batch.length, batch.offset);
    this.#nextPosition = batch.first;
    for (const append of batch.remembered) this.#recent.remove(append);
    for (const waiter of batch.waiters) waiter.reject(unavailable(error, 'none'));
    this.#reuse(batch.buffer);
  }

  #enterFailure(failure: WriteFailure): void {
    if (this.#failure?.kind === 'taken over') return;
    // a failed sync is the more serious failure, and its repair also repairs a failed write
    if (this.#failure?.kind !== 'sync') this.#failure = failure;
    this.#refuseWaiting(unavailable(failure.error, 'none'));
    this.#parts.availabilityChanged();
    this.#probeTimer ??= setInterval(() => void this.#recoverOnce(), this.#options.probeMs).unref();
  }

  #refuseWaiting(error: Error): void {
    this.#queue.refuseAll(error);
    this.#lookups.refuseAll(error);
  }

  /** Tests whether the disk accepts writes again. */
  async #recover(): Promise<void> {
    const failure = this.#failure;
    if (failure === undefined || failure.kind === 'taken over' || this.#syncing) return;
    const takenOver = this.#displaced();
    if (takenOver !== undefined) {
      this.#wasTakenOver(takenOver);
      return;
    }
    try {
      if (failure.kind === 'sync') await this.#rewriteUnsynced();
      else this.#parts.writer.probe(probeBytes);
      this.#failure = undefined;
    } catch (error) {
      this.#failure = { kind: failure.kind, error: asError(error) };
      return;
    }
    clearInterval(this.#probeTimer);
    this.#probeTimer = undefined;
    this.#noteChange();
    this.#parts.availabilityChanged();
  }

  #recoverOnce(): Promise<void> {
    this.#recovery ??= this.#recover().finally(() => {
      this.#recovery = undefined;
    });
    return this.#recovery;
  }

  async #rewriteUnsynced(): Promise<void> {
    const batches = this.#unsynced;
    if (batches.length === 0) return;
    const { writer } = this.#parts;
    if (!writer.isRewriting) await this.#moveUnsynced(batches);
    await writer.finishRewrite();
    this.#becameDurable(batches.length);
    this.#parts.closed();
  }

  /** Writes the batches again into a segment of their own and lets readers find them there. */
  async #moveUnsynced(batches: readonly AppendBatch[]): Promise<void> {
    const { writer } = this.#parts;
    const adopt = await writer.rewrite(batches);
    // nothing may be awaited from here on: readers must find every event in one place
    const cut = adopt();
    if (cut !== undefined) {
      for (const batch of batches.toReversed()) {
        if (batch.segment !== cut) continue;
        cut.streams?.forget(batch.buffer, frameHeaderBytes, batch.length, batch.offset);
      }
      cut.visibleBytes = cut.bytes;
    }
    this.#parts.rewritten(cut, writer.active);
    let offset = 0;
    for (const batch of batches) {
      batch.moveTo(writer.active, offset);
      offset += batch.length;
    }
    if (this.#options.relaxedSyncMs !== undefined) writer.active.visibleBytes = writer.active.bytes;
  }

  #noteChange(): void {
    if (this.#awaitingChange.length > 0) for (const resolve of this.#awaitingChange.splice(0)) resolve();
  }

  /**
   * Resolves when everything appended is on disk.
   * @throws LogUnavailable when the disk still refuses, or the files are no longer in the folder of the log
   */
  async close(): Promise<void> {
    this.#flush();
    this.#closed = true;
    this.#noteChange();
    this.#refuseWaiting(new LogUnavailable('it has been closed', 'none'));
    clearTimeout(this.#syncTimer);
    this.#sync();
    while (this.#syncing) await this.changed();
    if (this.#failure !== undefined) await this.#recoverOnce();
    clearInterval(this.#probeTimer);
    if (this.#failure === undefined) return;
    const { error } = this.#failure;
    if (error instanceof LogMoved || this.#unsynced.length > 0) throw unavailable(error, 'unknown');
  }
}

function eventsOf({ writes }: EncodedAppend): number {
  let events = 0;
  for (const { count } of writes) events += count;
  return events;
}

function unavailable(error: Error, outcome: 'none' | 'unknown'): LogUnavailable {
  return new LogUnavailable(error.message, outcome, error);
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
