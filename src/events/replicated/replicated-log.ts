/** A log on an engine that several gateways share. Each has the whole log in a replica of its own. */

import { type EncodedAppend, PreparedAppend } from '../embedded/append-batch.ts';
import { type Disk, nodeDisk } from '../embedded/disk.ts';
import type { EmbeddedLog } from '../embedded/embedded-log.ts';
import { type Position, parsePosition, type RecordedEvent, type StreamName } from '../event.ts';
import { wallClock } from '../event-id.ts';
import {
  type Appended,
  type CaughtUp,
  type EventLog,
  type LogCapabilities,
  type LogEngineStatus,
  type LogStatus,
  LogUnavailable,
  type ReadAllOptions,
  type ReadStreamOptions,
  type StreamWrite,
  type SubscribeOptions,
} from '../log.ts';
import { haveIds, RecentAppends, recordedBefore } from '../recent-appends.ts';
import { AppendApplier, type DecidedAppend, HistoryDiffers } from './append-applier.ts';
import { type Checkpoint, CheckpointWriter, readCheckpoint } from './checkpoint-file.ts';
import {
  checkSize,
  checkWrites,
  EngineDamaged,
  type EnginePlace,
  EngineUnsuitable,
  LogDiverged,
  type LogEngine,
  NEW_LOG,
  PlaceLost,
  pause,
  type SequencedAppend,
  untilAborted,
} from './engine.ts';
import { HistoryConflict, type HistoryConflictTiming } from './history-conflict.ts';
import { maxDamagedReads, openEngine, openReplica, PlaceWatch, type PlaceWatchTiming } from './open-replica.ts';
import { Outbox, type OutboxTiming } from './outbox.ts';

export interface ReplicatedLogOptions {
  readonly engine: LogEngine;
  readonly dir: string;
  readonly warn?: (message: string, error: unknown) => void;
  readonly onProgress?: (position: Position) => void;
  /** Called while the log is opened, each time the engine or the replica's disk cannot be used for another reason. */
  readonly onDelay?: (reason: string, cause: DelayCause) => void;
  /** Ends the opening, which may wait for the engine without limit: `open` then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  readonly timing?: Partial<ReplicatedLogTiming>;
  /** For tests. */
  readonly disk?: Disk;
}

export type DelayCause = 'engine' | 'replica';

export interface ReplicatedLogTiming extends OutboxTiming, PlaceWatchTiming, HistoryConflictTiming {
  readonly checkpointMs: number;
}

const usualTiming: ReplicatedLogTiming = {
  queueTimeoutMs: 5_000,
  outcomeTimeoutMs: 15_000,
  stalledMs: 3_000,
  stalledReadMs: 10_000,
  retryMs: 250,
  verifyMs: 5_000,
  conflictMs: 5_000,
  checkpointMs: 1_000,
};
const noAgreement = 'another gateway has read something else from the engine, and no gateway has agreed with this one';
const runBook = 'Two gateways differ';
const conflictReason =
  'another gateway may have read something else from the engine: it is being found out which one is right';
const maxEventBytes = 64 * 1024 * 1024;
const maxOutboxBytes = 256 * 1024 * 1024;

export class ReplicatedLog implements EventLog {
  readonly capabilities: LogCapabilities;
  readonly #options: ReplicatedLogOptions;
  readonly #timing: ReplicatedLogTiming;
  readonly #replica: EmbeddedLog;
  readonly #applier: AppendApplier;
  readonly #outbox: Outbox;
  readonly #checkpoints: CheckpointWriter;
  readonly #watch: PlaceWatch;
  readonly #conflict: HistoryConflict;
  readonly #ended = new AbortController();
  readonly #listeners = new Set<(status: LogStatus) => void>();
  readonly #running = new RecentAppends<Promise<Appended>>();
  #place: EnginePlace | undefined;
  #lastReadAt: number | undefined;
  /** Reads since the latest batch that ended with a damaged record. */
  #damagedReads = 0;
  #restart = new AbortController();
  #fatal: Error | undefined;
  /** While the whole engine is read, each event that the replica has is compared with it. */
  #comparing: boolean;
  /** The append that shows that this gateway or another one has read another log. */
  #difference: string | undefined;
  #stoppedUndecided = false;
  /** Why the replica takes no events: its disk refuses them. */
  #replicaTrouble: string | undefined;
  /** The latest reason why the log was not open yet. */
  #delay: string | undefined;
  /** Ends the opening; without effect on a log that is open, which tries again. */
  #failed = Promise.withResolvers<never>();
  #reading: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  private constructor(
    options: ReplicatedLogOptions,
    replica: EmbeddedLog,
    applier: AppendApplier,
    checkpoint: Checkpoint | undefined,
  ) {
    this.#options = options;
    this.#timing = { ...usualTiming, ...options.timing };
    this.#replica = replica;
    this.#applier = applier;
    this.#place = checkpoint?.place;
    this.#comparing = this.#place === undefined;
    this.capabilities = {
      expectedRevision: 'on-read',
      globalOrder: 'total',
      durability: 'replicated',
      maxEventBytes,
      atomicMultiStream: true,
    };
    this.#failed.promise.catch(() => {});
    replica.onStatusChange(({ reason }) => {
      this.#replicaTrouble = reason;
      this.#reportStatus();
    });
    this.#checkpoints = new CheckpointWriter({
      disk: options.disk ?? nodeDisk,
      dir: options.dir,
      everyMs: this.#timing.checkpointMs,
      current: () => this.#checkpoint(),
      durable: () => parsePosition(replica.status().durableHead),
      warn: options.warn,
    });
    this.#outbox = new Outbox({
      engine: options.engine,
      known: () => ({ log: this.#applier.log ?? NEW_LOG, seen: this.#applier.seen }),
      timing: this.#timing,
      maxBytes: maxOutboxBytes,
      restartReading: () => this.#restart.abort(),
      troubleChanged: () => this.#reportStatus(),
      writerShared: () => this.#warnOfCopy(),
      refused: (error) => this.#failed.reject(error),
    });
    this.#watch = new PlaceWatch({
      engine: options.engine,
      place: () => this.#place,
      isBehindReplica: () => this.#applier.isBehindReplica,
      failed: (error) => this.#readingFailed(error),
      unavailable: ({ message }) => this.#outbox.enterTrouble(`${options.engine.name}: ${message}`),
      signal: this.#ended.signal,
      timing: this.#timing,
    });
    this.#conflict = new HistoryConflict({
      isOwn: (writer) => this.#outbox.isOwn(writer),
      send: (append) => this.#outbox.send(append),
      changed: () => this.#reportStatus(),
      settle: ({ append, result }) => this.#outbox.settle(append, result),
      lost: () => this.#stopUndecided(),
      timing: this.#timing,
    });
  }

  /** Resolves when the replica has everything that was on the engine. */
  static async open(options: ReplicatedLogOptions): Promise<ReplicatedLog> {
    const { dir, engine } = options;
    const replica = await openReplica(options);
    try {
      const noted = readCheckpoint(options.disk ?? nodeDisk, dir);
      if (noted?.undecided) throw new LogDiverged(dir, `when it was read last, ${noAgreement}`, undefined, runBook);
      const isUsable = noted !== undefined && noted.engine === engine.name && noted.position <= replica.visible();
      const checkpoint = isUsable ? noted : undefined;
      const { log: name, position = 0, numbers } = checkpoint ?? {};
      const applier = await AppendApplier.open(replica, { log: name, position, numbers });
      const log = new ReplicatedLog(options, replica, applier, checkpoint);
      await log.#start();
      return log;
    } catch (error) {
      await engine.close();
      await replica.close();
      throw error;
    }
  }

  async #start(): Promise<void> {
    const { signal } = this.#options;
    const delayed = (reason: string, error: unknown) => this.#warnOfDelay(reason, error);
    const opened = openEngine(this.#options.engine, this.#replica.visible() > 0, this.#timing.retryMs, delayed, signal);
    await untilAborted(opened, signal).catch((error: unknown) => {
      throw error instanceof PlaceLost ? new LogDiverged(this.#options.dir, error.message, error) : error;
    });
    const quiet = this.onStatusChange(({ reason }) => this.#warnOfDelay(reason));
    try {
      await untilAborted(Promise.race([this.#catchUp(), this.#failed.promise]), signal);
    } catch (error) {
      this.#outbox.stop('its opening was ended');
      await this.#stop();
      throw this.#fatal ?? error;
    } finally {
      quiet();
    }
    this.#watch.start();
    this.#comparing = false;
    await this.#checkpoints.writeWhenDurable();
  }

  /** Appends nothing before the engine was found to have what the replica has: a refused start changes nothing on it. */
  async #catchUp(): Promise<void> {
    try {
      await this.#watch.verify();
      this.#reading = this.#readAll();
      if (!(await this.#watch.hasEverything())) {
        const { position } = this.#applier;
        throw new PlaceLost(`the engine ends at ${position}, the replica at ${this.#replica.visible()}`);
      }
    } catch (error) {
      this.#readingFailed(error);
      throw error;
    }
    this.#outbox.release();
    await this.#outbox.readToEnd();
  }

  #warnOfDelay(reason: string | undefined, error?: unknown): void {
    if (reason !== undefined && reason !== this.#delay && this.#fatal === undefined) {
      this.#delay = reason;
      this.#options.onDelay?.(reason, reason === this.#replicaTrouble ? 'replica' : 'engine');
      this.#options.warn?.(`the log is not open yet: ${reason}; trying again`, error);
    }
  }

  async #readAll(): Promise<void> {
    while (!this.#ended.signal.aborted && this.#fatal === undefined) {
      this.#restart = new AbortController();
      const signal = AbortSignal.any([this.#ended.signal, this.#restart.signal]);
      try {
        for await (const { appends, resume } of this.#options.engine.read(this.#place, signal)) {
          for await (const decisions of this.#applier.apply(appends, this.#ended.signal)) this.#settle(decisions);
          this.#outbox.noteRead();
          this.#place = resume;
          this.#damagedReads = 0;
          this.#lastReadAt = wallClock();
          this.#noteProgress();
        }
        if (!signal.aborted) throw new Error('reading has ended');
      } catch (error) {
        if (this.#ended.signal.aborted) return;
        this.#readingFailed(error);
        await pause(this.#timing.retryMs, this.#ended.signal);
      }
    }
  }

  #settle(decisions: readonly DecidedAppend[]): void {
    if (this.#comparing) {
      for (const { append, result } of decisions) this.#outbox.settle(append, result);
      return;
    }
    for (const { append, result } of decisions) if (result instanceof HistoryDiffers) this.#noteDifference(append);
    this.#conflict.pass(decisions);
  }

  /** The other gateway learns of the difference from the next append of this one. */
  #noteDifference({ writer, seen }: SequencedAppend): void {
    this.#watch.soon();
    if (this.#difference !== undefined) return;
    this.#difference =
      `an append of writer ${writer} was refused: it follows an event ${seen.position} that this replica does not have. ` +
      'One of the two gateways has read another log';
    this.#options.warn?.(this.#difference, undefined);
    this.#checkpoints.writeSoon();
  }

  #stopUndecided(): void {
    if (this.#fatal !== undefined) return;
    this.#stoppedUndecided = true;
    this.#fatal = new LogDiverged(this.#options.dir, noAgreement, undefined, runBook);
    this.#options.warn?.(this.#fatal.message, undefined);
    void this.#checkpoints.write();
    this.#outbox.stop(this.#fatal.message);
  }

  #warnOfCopy(): void {
    const reason = 'another process appends to the log with the writer id of this one, as after the copy of a machine';
    this.#options.warn?.(`${reason}; this one sends its appends with a new id from now on`, undefined);
  }

  #readingFailed(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    // bytes can be damaged on their way: they are read again
    const isTemporary = error instanceof EngineDamaged && ++this.#damagedReads < maxDamagedReads;
    if (isTemporary || !(error instanceof PlaceLost || error instanceof EngineDamaged)) {
      if (error instanceof EngineUnsuitable) this.#failed.reject(error);
      this.#outbox.enterTrouble(`${this.#options.engine.name}: ${reason}`);
      return;
    }
    this.#fatal = error instanceof PlaceLost ? new LogDiverged(this.#options.dir, reason, error) : error;
    this.#failed.reject(this.#fatal);
    this.#outbox.stop(this.#fatal.message);
  }

  #noteProgress(): void {
    this.#options.onProgress?.(this.#replica.status().head);
    this.#checkpoints.writeSoon();
  }

  #checkpoint(): Checkpoint {
    const { log, position } = this.#applier;
    const engine = this.#options.engine.name;
    if (this.#difference !== undefined) {
      const start = { place: undefined, position: 0, numbers: { counted: 0, writers: [] } };
      return { engine, log, ...start, ...(this.#stoppedUndecided && { undecided: true }) };
    }
    return { engine, log, place: this.#place, position, numbers: this.#applier.saveNumbers() };
  }

  append(writes: readonly StreamWrite[]): Promise<Appended> {
    const withIds = haveIds(writes);
    try {
      const earlier = withIds && this.#closing === undefined ? this.#running.find(writes) : undefined;
      if (earlier !== undefined) return earlier.outcome;
      this.#checkAccepts();
      checkWrites(writes);
      const prepared = new PreparedAppend(writes, maxEventBytes);
      checkSize(prepared, this.#options.engine);
      const sent = this.#outbox.append(prepared);
      if (!withIds) return sent;
      const appended = sent.catch((error: unknown) => recordedBefore(this, writes, error));
      const running = this.#running.add(writes, appended);
      appended.catch(() => this.#running.remove(running));
      return appended;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Appends the records of another log as they are, with their ids, times and bodies. Each reader fills in the revisions,
   * which are those of the other log when the writes expect them.
   * @throws EventTooLarge, WrongExpectedRevision, EventIdReused, LogUnavailable
   */
  async appendRecords(append: EncodedAppend): Promise<Appended> {
    this.#checkAccepts();
    checkWrites(append.writes);
    checkSize(append, this.#options.engine);
    return this.#outbox.append(append);
  }

  /** @throws LogUnavailable when no append is accepted at the moment */
  #checkAccepts(): void {
    if (this.#closing !== undefined) throw new LogUnavailable('it has been closed', 'none');
    if (this.#fatal !== undefined) throw new LogUnavailable(this.#fatal.message, 'none', this.#fatal);
    // an append that is read back could not be placed: it is not sent
    if (this.#replicaTrouble !== undefined) throw new LogUnavailable(this.#replicaTrouble, 'none');
    if (this.#conflict.exists) throw new LogUnavailable(conflictReason, 'none');
  }

  readStream(stream: StreamName, options?: ReadStreamOptions): AsyncIterable<RecordedEvent> {
    return this.#replica.readStream(stream, options);
  }

  readAll(options?: ReadAllOptions): AsyncIterable<RecordedEvent> {
    return this.#replica.readAll(options);
  }

  subscribe(options?: SubscribeOptions): AsyncIterable<RecordedEvent | CaughtUp> {
    return this.#replica.subscribe(options);
  }

  head(): Promise<Position> {
    return this.#replica.head();
  }

  status(): LogStatus {
    const replica = this.#replica.status();
    const conflict = this.#conflict.exists ? conflictReason : undefined;
    const reason = this.#fatal?.message ?? this.#outbox.trouble ?? conflict ?? replica.reason;
    const degraded = this.#difference ?? replica.degraded;
    const status = { ...replica, degraded, queuedBytes: this.#outbox.bytes, engine: this.#engineStatus() };
    return reason === undefined ? { ...status, state: 'ok' } : { ...status, state: 'unavailable', reason };
  }

  #engineStatus(): LogEngineStatus {
    return {
      name: this.#options.engine.name,
      connected: this.#fatal === undefined && this.#outbox.trouble === undefined,
      unreadAppends: this.#outbox.unread,
      ...(this.#lastReadAt === undefined ? {} : { lastReadAt: this.#lastReadAt }),
    };
  }

  onStatusChange(listener: (status: LogStatus) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #reportStatus(): void {
    for (const listener of this.#listeners) listener(this.status());
  }

  close(): Promise<void> {
    this.#closing ??= this.#outbox.close(2 * this.#timing.stalledMs).then(() => this.#stop());
    return this.#closing;
  }

  async #stop(): Promise<void> {
    this.#closing ??= Promise.resolve();
    this.#ended.abort();
    this.#conflict.end();
    this.#checkpoints.stop();
    await this.#options.engine.close();
    await this.#reading;
    try {
      await this.#replica.close();
    } catch (error) {
      // the engine has everything that the replica lacks at the next start
      this.#options.warn?.('the latest events of the replica may not be on disk', error);
      return;
    }
    if (this.#fatal === undefined && !this.#applier.isBehindReplica) await this.#checkpoints.write();
  }
}
