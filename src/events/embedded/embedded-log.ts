/** The default engine: segment files in a directory, one writing process, group commit. */
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { logRecovered } from '../catalogue/gateway.ts';
import { type Position, type RecordedEvent, type StreamName, streamName } from '../event.ts';
import { ReaderIteration } from '../event-reader.ts';
import { CompiledFilter } from '../filter.ts';
import type {
  Appended,
  AppendOptions,
  CaughtUp,
  EventLog,
  LogCapabilities,
  ReadAllOptions,
  ReadStreamOptions,
  StreamWrite,
  SubscribeOptions,
} from '../log.ts';
import { StreamNotFound } from '../log.ts';
import { formatPosition, parsePosition } from '../sequence-position.ts';
import { SubscriptionHub } from '../subscription.ts';
import { type Disk, nodeDisk, syncDirectory } from './disk.ts';
import { RecordReader } from './event-record.ts';
import { GroupCommit, type GroupCommitOptions } from './group-commit.ts';
import { ensureIdentity } from './identity.ts';
import { LogReader, type ReadableLog } from './log-reader.ts';
import { LogSegments } from './log-segments.ts';
import { openSegments, type Recovery } from './recover.ts';
import type { Segment } from './segment.ts';
import { SegmentWriter } from './segment-writer.ts';
import { readStreamParts, type StreamPart } from './stream-reader.ts';
import { Watermark } from './watermark.ts';

export type Durability = 'standard' | 'strict' | 'relaxed';

export interface EmbeddedLogOptions {
  readonly durability?: Durability;
  /** Size at which a new segment is begun. Default 64 MiB. */
  readonly segmentBytes?: number;
  readonly commit?: Partial<GroupCommitOptions>;
  readonly disk?: Disk;
}

export interface EmbeddedLogStatus {
  readonly state: 'ok' | 'unavailable';
  /** Why appends are refused. */
  readonly reason?: string;
  /** Position of the last event handed to the operating system. */
  readonly head: Position;
  /** Position of the last event on disk. */
  readonly durableHead: Position;
  readonly unsyncedBytes: number;
  readonly queuedBytes: number;
  readonly segments: number;
  readonly subscriptions: number;
}

const defaults = {
  segmentBytes: 64 * 1024 * 1024,
  maxEventBytes: 64 * 1024 * 1024,
  maxUnsyncedBytes: 32 * 1024 * 1024,
  maxQueuedBytes: 64 * 1024 * 1024,
  queueTimeoutMs: 5_000,
  probeMs: 250,
  relaxedSyncMs: 100,
};

export class EmbeddedLog implements EventLog, ReadableLog {
  readonly capabilities: LogCapabilities;
  readonly dir: string;
  readonly disk: Disk;
  readonly mark: number;
  readonly records = new RecordReader();
  /** What was cut off when the log was opened, if anything. */
  readonly recovery: Recovery | undefined;
  readonly #segments: LogSegments;
  readonly #writer: SegmentWriter;
  readonly #commit: GroupCommit;
  readonly #watermark: Watermark | undefined;
  readonly #hub: SubscriptionHub;
  readonly #statusListeners = new Set<(status: EmbeddedLogStatus) => void>();

  private constructor(parts: {
    dir: string;
    disk: Disk;
    mark: number;
    options: EmbeddedLogOptions;
    segments: Segment[];
    last: number;
    recovery: Recovery | undefined;
    watermark: Watermark | undefined;
  }) {
    const { dir, disk, mark, options, segments, last } = parts;
    const relaxed = options.durability === 'relaxed';
    const commitOptions: GroupCommitOptions = {
      ...defaults,
      ...options.commit,
      relaxedSyncMs: relaxed ? (options.commit?.relaxedSyncMs ?? defaults.relaxedSyncMs) : undefined,
    };
    this.dir = dir;
    this.disk = disk;
    this.mark = mark;
    this.recovery = parts.recovery;
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
    this.#segments = new LogSegments(segments);
    this.#writer = new SegmentWriter(disk, dir, mark, options.segmentBytes ?? defaults.segmentBytes, active);
    this.#hub = new SubscriptionHub({
      visible: () => this.visible(),
      reader: (after, filter) => new LogReader(this, after, filter),
    });
    this.#commit = new GroupCommit(
      {
        mark,
        writer: this.#writer,
        records: this.records,
        olderRevision: (stream) => this.#olderRevision(stream),
        publish: (batch) => this.#hub.publish(batch),
        closed: () => {},
        segmentAdded: (segment) => this.#segments.add(segment),
        segmentsReplaced: (segment) => this.#segments.replaceFrom(segment),
        durableChanged: (position) => this.#watermark?.write(position),
        availabilityChanged: () => this.#tellStatus(),
      },
      commitOptions,
      last,
    );
  }

  /** @throws LogCorrupted, LogLocked, and what the file system throws */
  static async open(directory: string, options: EmbeddedLogOptions = {}): Promise<EmbeddedLog> {
    const dir = path.resolve(directory);
    const disk = options.disk ?? nodeDisk;
    const created = mkdirSync(dir, { recursive: true, mode: 0o700 });
    if (created !== undefined) await syncDirectory(disk, path.dirname(created));
    const { mark } = await ensureIdentity(disk, dir);
    const watermark = Watermark.open(disk, dir, mark, 'write');
    const { segments, last, recovery } = await openSegments(disk, dir, mark, watermark?.read());
    watermark?.write(last);
    const log = new EmbeddedLog({ dir, disk, mark, options, segments, last, recovery, watermark });
    if (recovery !== undefined) await log.#recordRecovery(recovery);
    return log;
  }

  async #recordRecovery(recovery: Recovery): Promise<void> {
    const event = logRecovered.create({ ...recovery }, { actor: 'system' });
    await this.append([{ stream: streamName('log', 'embedded'), events: [event], expectedRevision: 'any' }]);
  }

  append(writes: readonly StreamWrite[], options?: AppendOptions): Promise<Appended> {
    return this.#commit.append(writes, options);
  }

  async *readStream(stream: StreamName, options: ReadStreamOptions = {}): AsyncIterable<RecordedEvent> {
    const parts = this.#partsOf(stream);
    if (parts.length === 0) throw new StreamNotFound(stream);
    yield* readStreamParts(this, stream, parts, options);
  }

  readAll(options: ReadAllOptions = {}): AsyncIterable<RecordedEvent> {
    const after = options.after === undefined ? 0 : parsePosition(options.after);
    const filter = new CompiledFilter(options.filter);
    return new ReaderIteration(
      () => new LogReader(this, after, filter, this.visible()),
      options.maxCount,
      options.signal,
    );
  }

  subscribe(options: SubscribeOptions = {}): AsyncIterable<RecordedEvent | CaughtUp> {
    return this.#hub.subscribe(options);
  }

  async head(): Promise<Position> {
    return formatPosition(this.visible());
  }

  status(): EmbeddedLogStatus {
    const reason = this.#commit.trouble;
    return {
      state: reason === undefined ? 'ok' : 'unavailable',
      reason,
      head: formatPosition(this.#commit.written),
      durableHead: formatPosition(this.#commit.durable),
      unsyncedBytes: this.#commit.unsyncedBytes,
      queuedBytes: this.#commit.queuedBytes,
      segments: this.#segments.all.length,
      subscriptions: this.#hub.counts.open,
    };
  }

  /** Calls the listener whenever the log becomes unavailable or available again. Returns how to stop that. */
  onStatusChange(listener: (status: EmbeddedLogStatus) => void): () => void {
    this.#statusListeners.add(listener);
    return () => this.#statusListeners.delete(listener);
  }

  async close(): Promise<void> {
    try {
      await this.#commit.close();
    } finally {
      this.#hub.close();
      this.#writer.close();
      this.#watermark?.close();
    }
  }

  visible(): number {
    return this.#commit.visible;
  }

  segmentOf(position: number): Segment | undefined {
    return this.#segments.holding(position);
  }

  #olderRevision(stream: StreamName): number {
    for (const segment of this.#segments.all.slice(0, -1).toReversed()) {
      const last = segment.streams?.lastRevision(stream);
      if (last !== undefined) return last;
    }
    return -1;
  }

  /** Where the stream's visible events lie. */
  #partsOf(stream: StreamName): StreamPart[] {
    const parts: StreamPart[] = [];
    for (const segment of this.#segments.all) {
      const places = segment.streams?.places.get(stream);
      if (places !== undefined) {
        const part = visiblePart(segment, places);
        if (part !== undefined) parts.push(part);
      }
    }
    return parts;
  }

  #tellStatus(): void {
    const status = this.status();
    for (const listener of this.#statusListeners) listener(status);
  }
}

function visiblePart(
  segment: Segment,
  places: { readonly last: number; readonly frames: readonly number[] },
): StreamPart | undefined {
  const { frames } = places;
  let end = frames.length;
  while (end > 0 && (frames[end - 2] ?? 0) >= segment.visibleBytes) end -= 2;
  if (end === 0) return undefined;
  return end === frames.length
    ? { segment, last: places.last, frames: frames.slice() }
    : { segment, last: (frames[end + 1] ?? 0) - 1, frames: frames.slice(0, end) };
}
