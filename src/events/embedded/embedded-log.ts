/** The default engine: segment files in a directory, one writing process, group commit. */
import { statfsSync } from 'node:fs';
import path from 'node:path';
import { logLossAccepted, logRecovered } from '../catalogue/gateway.ts';
import {
  formatPosition,
  type NewEvent,
  type Position,
  type RecordedEvent,
  type StreamName,
  streamName,
} from '../event.ts';
import {
  type Appended,
  type AppendOptions,
  type CaughtUp,
  type EventLog,
  type LogCapabilities,
  type LogStatus,
  LogUnavailable,
  type ReadAllOptions,
  type ReadStreamOptions,
  type StreamWrite,
  type SubscribeOptions,
} from '../log.ts';
import { haveIds, recordedBefore } from '../recent-appends.ts';
import { SubscriptionHub } from '../subscription.ts';
import { InlineArchivist } from './archive/archive-segment.ts';
import { ClosedSegments } from './archive/closed-segments.ts';
import { indexedSegments } from './archive/index-file.ts';
import { ThreadedArchivist } from './archive/threaded-archivist.ts';
import { type Disk, makeDirectory, nodeDisk } from './disk.ts';
import { RecordReader } from './event-record.ts';
import { SizedFinder } from './find/sized-finder.ts';
import { LocalStreamFinder } from './find/stream-finder.ts';
import { ThreadedFinder } from './find/threaded-finder.ts';
import { GroupCommit, type GroupCommitOptions, type RecordsAppend } from './group-commit.ts';
import { InOrderWriter } from './in-order-writer.ts';
import type { SeenElsewhere } from './inspect-segments.ts';
import { LogCorrupted, type MissingPart } from './log-errors.ts';
import { LogReader, readAllOf } from './log-reader.ts';
import { type AcceptedLoss, type Losses, writeLosses } from './losses.ts';
import {
  findLoss,
  type LossAcceptance,
  type OpenedSegments,
  openFiles,
  type Recovery,
  verifyClosed,
} from './recover.ts';
import { LogSegments, type Segment } from './segment.ts';
import type { ReadableSegment, ReadableSegments } from './segment-blocks.ts';
import { RotationHealth, SegmentWriter } from './segment-writer.ts';
import { readStreamOf, visiblePart } from './stream-reader.ts';
import type { Watermark } from './watermark.ts';
import { checkFolderUse, lockForWriting, type WriterLock } from './writer-lock.ts';

export type Durability = 'standard' | 'strict' | 'relaxed';

export interface EmbeddedLogOptions {
  readonly durability?: Durability;
  /** Size at which a new segment is begun. Default 64 MiB. */
  readonly segmentBytes?: number;
  /** Zeros written ahead of the frames of the active segment; see `SegmentWriter`. Default 512 KiB. */
  readonly layOutBytes?: number;
  /** Whether full segments are compressed. Default true. */
  readonly seal?: boolean;
  /**
   * How many bytes of full segments may wait uncompressed while the process is busy; never more than a quarter of the free
   * disk. Default 2 GiB.
   */
  readonly archiveBacklogBytes?: number;
  /** Whether the closed segments are read once in the background, to report damage in the status. Default false. */
  readonly verify?: boolean;
  /** Whether streams are found on a thread also when the log is small. Default false. */
  readonly findOnThread?: boolean;
  /** How many streams of closed segments may be in memory until the index has them. Default 400,000. */
  readonly maxStreamsInMemory?: number;
  readonly commit?: Partial<GroupCommitOptions>;
  /** Called with failures of background work that is tried again. */
  readonly warn?: (message: string, error: unknown) => void;
  /** For opening a log with missing parts: they are then recorded as lost, and their positions are not used again. */
  readonly acceptLoss?: LossAcceptance;
  /** Evidence from outside the folder of how far the log reached. */
  readonly seen?: SeenElsewhere;
  /**
   * The log is a copy that is fed by `inOrder()` from an engine. Nothing of its own is recorded, also not what was cut
   * off at the opening: the engine has it. Only such an opening accepts a folder with a `replicaFile`.
   */
  readonly replica?: boolean;
  /** The log is written by a copy. Only such an opening accepts a folder with a `copyFile`. */
  readonly copying?: boolean;
  /** For tests. Full segments are then archived, and streams found, on the thread that opened the log. */
  readonly disk?: Disk;
}

const defaults = {
  segmentBytes: 64 * 1024 * 1024,
  layOutBytes: 512 * 1024,
  maxEventBytes: 64 * 1024 * 1024,
  maxUnsyncedBytes: 32 * 1024 * 1024,
  maxQueuedBytes: 64 * 1024 * 1024,
  queueTimeoutMs: 5_000,
  probeMs: 250,
  relaxedSyncMs: 100,
  unawaitedSyncMs: 5,
  maxStreamsInMemory: 400_000,
  archiveBacklogBytes: 2 * 1024 ** 3,
};

/** Of the free disk, that full segments may take while they wait to be compressed. */
const backlogShareOfFree = 0.25;

/** Places of damage in the status. */
const MOST_DAMAGE = 100;
/** How often an idle log finds out whether it was moved, or taken over by another writer. */
const placeCheckMs = 1_000;

/** Where the visible part of a log ends, and the next frame begins. */
export interface VisibleEnd {
  /** Of the last visible event. */
  readonly position: number;
  /** Position of the first event of the segment. */
  readonly segment: number;
  /** Offset in the segment. */
  readonly bytes: number;
  /** How often frames have been moved to another segment: what is known of places and segments is then outdated. */
  readonly moves: number;
}

const embeddedStream = streamName('log', 'embedded');

export class EmbeddedLog implements EventLog, ReadableSegments {
  readonly capabilities: LogCapabilities;
  readonly dir: string;
  readonly disk: Disk;
  readonly mark: number;
  readonly records = new RecordReader();
  /** The part that was cut off when the log was opened, if any. */
  readonly recovery: Recovery | undefined;
  /** Missing parts that were accepted as lost when the log was opened. */
  readonly acceptedLoss: AcceptedLoss | undefined;
  readonly #segments: LogSegments;
  readonly #segmentBytes: number;
  readonly #writer: SegmentWriter;
  readonly #commit: GroupCommit;
  readonly #watermark: Watermark;
  readonly #hub: SubscriptionHub;
  readonly #closedSegments: ClosedSegments;
  readonly #rotation: RotationHealth;
  readonly #lock: WriterLock;
  readonly #statusListeners = new Set<(status: LogStatus) => void>();
  readonly #shownListeners = new Set<() => void>();
  /** How often frames were moved to another segment after a failed sync. */
  #moves = 0;
  #placeTimer: NodeJS.Timeout | undefined;
  readonly #closed = new AbortController();
  /** Places in segments that cannot be read, as far as a read has found them. */
  readonly #damage = new Set<string>();
  readonly #warn: (message: string, error: unknown) => void;
  #closing: Promise<void> | undefined;

  private constructor(parts: {
    dir: string;
    disk: Disk;
    mark: number;
    options: EmbeddedLogOptions;
    opened: OpenedSegments;
    watermark: Watermark;
    lock: WriterLock;
  }) {
    const { dir, disk, mark, options } = parts;
    const { segments, sealed, last, recovery, losses, accepted } = parts.opened;
    const relaxed = options.durability === 'relaxed';
    const commitOptions: GroupCommitOptions = {
      ...defaults,
      ...options.commit,
      relaxedSyncMs: relaxed ? (options.commit?.relaxedSyncMs ?? defaults.relaxedSyncMs) : undefined,
    };
    this.dir = dir;
    this.disk = disk;
    this.mark = mark;
    this.recovery = recovery;
    this.acceptedLoss = accepted;
    this.#lock = parts.lock;
    this.#watermark = parts.watermark;
    this.capabilities = {
      expectedRevision: 'native',
      globalOrder: 'total',
      durability: relaxed ? 'os' : 'disk',
      maxEventBytes: commitOptions.maxEventBytes,
      atomicMultiStream: true,
    };
    const active = segments.at(-1);
    if (active === undefined) throw new Error('a log has at least one segment');
    this.#segments = new LogSegments(segments, losses);
    const { segmentBytes = defaults.segmentBytes, layOutBytes = defaults.layOutBytes } = options;
    this.#segmentBytes = segmentBytes;
    this.#writer = new SegmentWriter(disk, dir, mark, { segmentBytes, layOutBytes }, active);
    const warn = options.warn ?? (() => {});
    this.#warn = warn;
    this.#rotation = new RotationHealth(warn);
    this.#closedSegments = new ClosedSegments({
      disk,
      dir,
      mark,
      archivist:
        options.disk === undefined ? new ThreadedArchivist(dir, mark) : new InlineArchivist({ disk, dir, mark }),
      finder:
        options.disk === undefined
          ? new SizedFinder(
              dir,
              { small: new LocalStreamFinder({ disk, dir, mark }), large: new ThreadedFinder(dir, mark) },
              options.findOnThread === true ? { indexBytes: 0, segmentBytes: 0 } : undefined,
            )
          : new LocalStreamFinder({ disk, dir, mark }),
      mayWait: () => this.#mayWait(options.archiveBacklogBytes ?? defaults.archiveBacklogBytes),
      maxStreamsInMemory: options.maxStreamsInMemory ?? defaults.maxStreamsInMemory,
      segments: this.#segments,
      sealed,
      seal: options.seal ?? true,
      warn,
      failed: (error) => this.#rotation.failed('archive', error),
      succeeded: () => this.#rotation.succeeded('archive'),
    });
    this.#hub = new SubscriptionHub({
      visible: () => this.visible(),
      reader: (after, filter) => new LogReader(this, after, filter),
    });
    this.#commit = new GroupCommit(
      {
        dir,
        mark,
        watermark: parts.watermark,
        writer: this.#writer,
        records: this.records,
        olderRevision: (stream, expected) => this.#closedSegments.lastRevision(stream, expected),
        lookUp: (streams) => this.#closedSegments.lookUp(streams),
        publish: (batch) => {
          this.#hub.publish(batch);
          for (const listener of this.#shownListeners) listener();
        },
        rotationFailed: (error) => this.#rotation.failed('begin', error),
        rotated: (full, fresh) => {
          this.#rotation.succeeded('begin');
          this.#segments.add(fresh);
          this.#closedSegments.rotated(full);
        },
        rewritten: (cut, fresh) => {
          this.#segments.replaceFrom(fresh);
          this.#moves++;
          this.#closedSegments.rewritten(cut, fresh);
        },
        closed: () => this.#closedSegments.start(),
        availabilityChanged: () => this.#reportStatus(),
      },
      commitOptions,
      last,
    );
  }

  /** @throws LogIncomplete, LogCorrupted, LogLocked, and what the file system throws */
  static async open(directory: string, options: EmbeddedLogOptions = {}): Promise<EmbeddedLog> {
    const dir = path.resolve(directory);
    const disk = options.disk ?? nodeDisk;
    await makeDirectory(disk, dir);
    checkFolderUse(dir, options);
    const lock = lockForWriting(dir);
    let watermark: Watermark | undefined;
    try {
      const files = await openFiles(disk, dir, (mark) => indexedSegments(dir, mark), {
        ...(options.acceptLoss === undefined ? {} : { acceptance: options.acceptLoss }),
        ...(options.seen === undefined ? {} : { seen: options.seen }),
      });
      ({ watermark } = files);
      const log = new EmbeddedLog({ dir, disk, options, lock, ...files });
      log.#closedSegments.start();
      if (!options.replica) await log.#recordOpening(files.opened);
      if (options.verify) void log.#verify();
      log.#placeTimer = setInterval(() => log.#commit.checkPlace(), placeCheckMs).unref();
      return log;
    } catch (error) {
      watermark?.close();
      lock.release();
      throw error;
    }
  }

  /**
   * What `acceptLoss` would accept, in the order of positions; none when the log is whole. Reads all of it.
   * @throws LogLocked, LogCorrupted, and what the file system throws
   */
  static async findLoss(directory: string, seen?: SeenElsewhere): Promise<readonly MissingPart[]> {
    const dir = path.resolve(directory);
    const lock = lockForWriting(dir);
    try {
      return await findLoss(nodeDisk, dir, (mark) => indexedSegments(dir, mark), seen);
    } finally {
      lock.release();
    }
  }

  async #verify(): Promise<void> {
    const closed = this.#segments.all.slice(0, -1);
    const segments = closed.map((segment) => ({ segment, last: this.#segments.endOf(segment) - 1 }));
    await verifyClosed(this, segments, this.#closed.signal, this.readFailed);
  }

  /** Notes damage for the status. */
  readonly readFailed = (error: unknown): void => {
    if (!(error instanceof LogCorrupted)) return;
    const place = `segment ${error.segment} at byte ${error.offset}: ${error.reason}`;
    if (this.#damage.has(place) || this.#damage.size >= MOST_DAMAGE) return;
    this.#damage.add(place);
    this.#warn('a segment of the event log is damaged; everything else is read and written', error);
  };

  async #recordOpening({ recovery, losses }: OpenedSegments): Promise<void> {
    if (recovery !== undefined)
      await this.#recordWhenPossible(logRecovered.create({ ...recovery }, { actor: 'system' }));
    await this.#recordLosses(losses);
  }

  /** Appends the events about losses that have none yet: the process that accepted one may have been killed. */
  async #recordLosses(losses: Losses): Promise<void> {
    if (losses.accepted.every(({ recorded }) => recorded)) return;
    for (const { recorded, at, ...loss } of losses.accepted) {
      if (recorded) continue;
      const event = logLossAccepted.create({ acceptedAt: at, ...loss }, { actor: 'system' });
      try {
        await this.append([{ stream: embeddedStream, events: [event], expectedRevision: 'any' }]);
      } catch (error) {
        // at the next opening then
        if (error instanceof LogUnavailable) return;
        throw error;
      }
    }
    const accepted = losses.accepted.map((loss) => ({ ...loss, recorded: true }));
    await writeLosses(this.disk, this.dir, accepted);
  }

  /** A full disk does not prevent the opening: the event is appended later. */
  async #recordWhenPossible(event: NewEvent): Promise<void> {
    try {
      await this.append([{ stream: embeddedStream, events: [event], expectedRevision: 'any' }]);
    } catch (error) {
      if (!(error instanceof LogUnavailable) || error.outcome === 'unknown') return;
      const stop = this.onStatusChange(({ state }) => {
        if (state !== 'ok') return;
        stop();
        void this.#recordWhenPossible(event);
      });
    }
  }

  /** For a log that was opened as a `replica`: places appends that already have their order. */
  inOrder(): InOrderWriter {
    return new InOrderWriter(this.#commit, (streams) => this.#closedSegments.lookUp(streams));
  }

  /** For the server of the processes that share the log; see `GroupCommit.appendRecords`. */
  appendRecords(request: RecordsAppend): void {
    this.#commit.appendRecords(request);
  }

  /**
   * Calls the listener when events have become visible, once per batch, before the callers of its appends.
   * @returns a function that ends the calls
   */
  onShown(listener: () => void): () => void {
    this.#shownListeners.add(listener);
    return () => this.#shownListeners.delete(listener);
  }

  /** Where the visible part of the log ends. */
  visibleEnd(): VisibleEnd {
    const position = this.visible();
    const segment = this.#segments.holding(position + 1);
    return { position, segment: segment?.first ?? 1, bytes: segment?.visibleBytes ?? 0, moves: this.#moves };
  }

  /** Where frames begin in the segments that are not compressed; see `Segment`. */
  segmentPlaces(): readonly Pick<Segment, 'first' | 'places'>[] {
    return this.#segments.all.filter(({ places }) => places.length > 0);
  }

  append(writes: readonly StreamWrite[], options?: AppendOptions): Promise<Appended> {
    const withIds = haveIds(writes);
    const appended = this.#commit.append(writes, options?.until ?? 'durable', withIds);
    return withIds ? appended.catch((error: unknown) => recordedBefore(this, writes, error)) : appended;
  }

  readStream(stream: StreamName, options: ReadStreamOptions = {}): AsyncIterable<RecordedEvent> {
    return readStreamOf(this, stream, options, async (wrong) => {
      if (wrong !== undefined) await this.#closedSegments.repair(wrong);
      const active = visiblePart(this.#writer.active, stream);
      const parts = await this.#closedSegments.parts(stream);
      // the active one may have become full, and may have been entered in the index, in the meantime
      if (active !== undefined && !parts.some(({ segment }) => segment.first === active.segment.first))
        parts.push(active);
      return parts;
    });
  }

  readAll(options: ReadAllOptions = {}): AsyncIterable<RecordedEvent> {
    return readAllOf(this, options);
  }

  subscribe(options: SubscribeOptions = {}): AsyncIterable<RecordedEvent | CaughtUp> {
    return this.#hub.subscribe(options);
  }

  async head(): Promise<Position> {
    return formatPosition(this.visible());
  }

  /** How many full segments, when they may have so many bytes; none where the free disk is not known. */
  #mayWait(bytes: number): number {
    try {
      const { bavail, bsize } = statfsSync(this.dir);
      return Math.floor(Math.min(bytes, bavail * bsize * backlogShareOfFree) / this.#segmentBytes);
    } catch {
      return 0;
    }
  }

  status(): LogStatus {
    const reason = this.#commit.trouble;
    const damage = this.#damage.size === 0 ? undefined : [...this.#damage];
    const degraded = [this.#rotation.lastError, damage && `the event log is damaged: ${damage.join('; ')}`].filter(
      (problem) => problem !== undefined,
    );
    return {
      state: reason === undefined ? 'ok' : 'unavailable',
      reason,
      head: formatPosition(this.#commit.written),
      durableHead: formatPosition(this.#commit.durable),
      unsyncedBytes: this.#commit.unsyncedBytes,
      queuedBytes: this.#commit.queuedBytes,
      segments: this.#segments.all.length,
      degraded: degraded.length === 0 ? undefined : degraded.join('; '),
      damage,
      failedRotations: this.#rotation.failures,
      uncompressedBytes: this.#closedSegments.waiting * this.#segmentBytes,
      unindexedSegments: this.#closedSegments.unknownSegments,
      subscriptions: this.#hub.counts.open,
    };
  }

  onStatusChange(listener: (status: LogStatus) => void): () => void {
    this.#statusListeners.add(listener);
    return () => this.#statusListeners.delete(listener);
  }

  /** Resolves when full segments have been entered in the index and compressed, for now. */
  settled(): Promise<void> {
    return this.#closedSegments.settled();
  }

  async close(): Promise<void> {
    if (this.#closing !== undefined) return this.#closing;
    this.#closing = this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    clearInterval(this.#placeTimer);
    this.#closed.abort();
    try {
      await this.#commit.close();
    } finally {
      this.#hub.close();
      await this.#closedSegments.close();
      await this.#endWriting();
      this.#writer.close();
      this.#watermark.close();
      this.#lock.release();
    }
  }

  /** Notes that this writer has ended, unless some of its frames may not be on disk. */
  async #endWriting(): Promise<void> {
    try {
      if (this.#commit.unsyncedBytes === 0) this.#watermark.writer.close();
      await this.#watermark.sync();
    } catch {
      // the next writer then begins a segment of its own
    }
  }

  visible(): number {
    return this.#commit.visible;
  }

  segmentOf(position: number): Segment | undefined {
    return this.#segments.holding(position);
  }

  endOf(segment: ReadableSegment): number {
    return this.#segments.endOf(segment);
  }

  lostUntil(position: number): number | undefined {
    return this.#segments.losses.lostUntil(position);
  }

  #reportStatus(): void {
    const status = this.status();
    for (const listener of this.#statusListeners) listener(status);
  }
}
