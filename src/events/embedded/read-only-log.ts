/**
 * A log read by a process that is not its writer, with or without a running writer. Takes no lock and changes no
 * file. Beside a writer it shows what is on disk, as the writer notes it after each sync (with relaxed durability that
 * is up to 100 ms behind what the writer itself shows); without one, every whole batch there is.
 */
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { formatPosition, type Position, parsePosition, type RecordedEvent, type StreamName } from '../event.ts';
import {
  type Appended,
  type CaughtUp,
  CompiledFilter,
  type EventLog,
  type LogCapabilities,
  type LogStatus,
  LogUnavailable,
  type ReadAllOptions,
  type ReadStreamOptions,
  type SubscribeOptions,
} from '../log.ts';
import { lookIntoIndex } from './archive/index-file.ts';
import { type Disk, isMissing, nodeDisk } from './disk.ts';
import { RecordReader } from './event-record.ts';
import { readIdentity } from './identity.ts';
import { LogReader, readAllOf } from './log-reader.ts';
import { readManifest } from './manifest.ts';
import { scanSegment } from './scan-segment.ts';
import { LogSegments, listSegments } from './segment.ts';
import type { ReadableSegment, ReadableSegments } from './segment-blocks.ts';
import { checkContinues, findStreamPart, indexedPart, readStreamOf, type StreamPart } from './stream-reader.ts';
import { Watermark } from './watermark.ts';
import { hasWriter } from './writer-lock.ts';

export interface ReadOnlyLogOptions {
  readonly disk?: Disk;
  /** How often a subscription that has caught up looks for more. Default 50 ms. */
  readonly pollMs?: number;
}

/** After so long without new events the reader checks whether there is a writer. */
const quietMs = 1_000;

export class ReadOnlyLog implements EventLog, ReadableSegments {
  readonly capabilities: LogCapabilities = {
    expectedRevision: 'native',
    globalOrder: 'total',
    durability: 'disk',
    maxEventBytes: 0,
    atomicMultiStream: true,
  };
  readonly dir: string;
  readonly disk: Disk;
  readonly mark: number;
  readonly records = new RecordReader();
  readonly #pollMs: number;
  readonly #watermark: Watermark | undefined;
  readonly #closed = new AbortController();
  #segments = new LogSegments([]);
  #visible = 0;
  #newsAt = 0;
  /** The last end of the log that was found without a writer's note. */
  #tail: { readonly fileBytes: number; readonly segment: number } | undefined;
  #subscriptions = 0;

  private constructor(dir: string, disk: Disk, mark: number, pollMs: number) {
    this.dir = dir;
    this.disk = disk;
    this.mark = mark;
    this.#pollMs = pollMs;
    this.#watermark = Watermark.openForReading(disk, dir, mark);
  }

  /** @throws Error when there is no log in that directory, LogCorrupted */
  static async open(directory: string, options: ReadOnlyLogOptions = {}): Promise<ReadOnlyLog> {
    const dir = path.resolve(directory);
    const disk = options.disk ?? nodeDisk;
    const identity = await readIdentity(disk, dir).catch((error: unknown) => {
      throw isMissing(error) ? noLog(dir, error) : error;
    });
    if (identity === undefined) throw noLog(dir);
    const log = new ReadOnlyLog(dir, disk, identity.mark, options.pollMs ?? 50);
    log.#list();
    await log.#look(true);
    return log;
  }

  visible(): number {
    return this.#visible;
  }

  /** Lists the directory again: segments are added, and old ones are cut and replaced after a failed sync. */
  segmentOf(position: number): ReadableSegment | undefined {
    this.#list();
    return this.#segments.holding(position);
  }

  endOf(segment: ReadableSegment): number {
    return this.#segments.endOf(segment);
  }

  lostUntil(position: number): number | undefined {
    return this.#segments.losses.lostUntil(position);
  }

  #list(): void {
    this.#segments = listSegments(this);
  }

  /** Finds the position up to which the log may be read now. */
  async #look(thoroughly = false): Promise<void> {
    // after closing, the note's file descriptor may belong to another file
    if (this.#closed.signal.aborted) return;
    const noted = this.#watermark?.read();
    if (noted !== undefined) this.#advance(noted);
    const quiet = performance.now() - this.#newsAt > quietMs;
    if (!thoroughly && !quiet && this.#watermark !== undefined) return;
    this.#newsAt = performance.now();
    if (noted !== undefined && hasWriter(this.dir)) return;
    await this.#findEnd();
  }

  #advance(position: number): void {
    if (position <= this.#visible) return;
    this.#visible = position;
    this.#newsAt = performance.now();
  }

  /** Without a writer every whole batch counts, like it would for the next writer. */
  async #findEnd(): Promise<void> {
    this.#list();
    const last = this.#segments.all.at(-1);
    if (last === undefined) return;
    try {
      const fd = this.disk.open(path.join(this.dir, `${last.name}.seg`), 'read');
      const fileBytes = this.disk.size(fd);
      this.disk.close(fd);
      if (this.#tail?.segment === last.first && this.#tail.fileBytes === fileBytes) return;
      this.#tail = { segment: last.first, fileBytes };
      this.#advance(scanSegment(this.disk, this.dir, this.mark, last.first).last);
    } catch (error) {
      if (!isMissing(error)) throw error;
      this.#advance(readManifest(this.disk, this.dir, last.name).last);
    }
  }

  append(): Promise<Appended> {
    return Promise.reject(new LogUnavailable('it was opened for reading only', 'none'));
  }

  async *readStream(stream: StreamName, options: ReadStreamOptions = {}): AsyncIterable<RecordedEvent> {
    await this.#look(true);
    yield* readStreamOf(this, stream, options, (wrong) => this.#partsOf(stream, wrong === undefined));
  }

  /**
   * Where the stream's visible events lie: from the index, and from the segments themselves as far as it lacks them.
   * @throws IndexIsWrong
   */
  async #partsOf(stream: StreamName, withIndex: boolean): Promise<StreamPart[]> {
    const index = withIndex ? lookIntoIndex(this.dir, this.mark, stream) : undefined;
    // after the index was read, which therefore has no segment that is missing here
    this.#list();
    const parts: StreamPart[] = [];
    for (const segment of this.#segments.all) {
      const end = this.#segments.endOf(segment);
      if (segment.first > this.#visible) break;
      const isIndexed = end - 1 <= this.#visible && index?.segments.get(segment.first) === end - 1;
      const part = isIndexed
        ? indexedPart(segment, index.parts)
        : await findStreamPart(this, segment, Math.min(this.#visible, end - 1), stream);
      if (part === undefined) continue;
      // where events were lost, revisions jump
      if (!this.#segments.losses.any) checkContinues(parts.at(-1), part);
      parts.push(part);
    }
    return parts;
  }

  async *readAll(options: ReadAllOptions = {}): AsyncIterable<RecordedEvent> {
    await this.#look(true);
    yield* readAllOf(this, options);
  }

  async *subscribe(options: SubscribeOptions = {}): AsyncIterable<RecordedEvent | CaughtUp> {
    const after = options.after === undefined ? 0 : parsePosition(options.after);
    const reader = new LogReader(this, after, new CompiledFilter(options.filter));
    const signal = AbortSignal.any([this.#closed.signal, ...(options.signal === undefined ? [] : [options.signal])]);
    let announced = -1;
    this.#subscriptions++;
    try {
      while (!signal.aborted) {
        for (let event = reader.take(); event !== undefined && !signal.aborted; event = reader.take()) yield event;
        await this.#look();
        if (signal.aborted || (await reader.load())) continue;
        if (reader.position > announced) {
          announced = reader.position;
          yield { type: '$caughtUp', position: formatPosition(announced) };
        } else {
          await delay(this.#pollMs, undefined, { signal }).catch(() => {});
        }
      }
    } finally {
      this.#subscriptions--;
      reader.close();
    }
  }

  async head(): Promise<Position> {
    await this.#look(true);
    return formatPosition(this.#visible);
  }

  status(): LogStatus {
    const head = formatPosition(this.#visible);
    return {
      state: 'ok',
      head,
      durableHead: head,
      unsyncedBytes: 0,
      queuedBytes: 0,
      segments: this.#segments.all.length,
      unindexedSegments: 0,
      subscriptions: this.#subscriptions,
    };
  }

  /** Never calls the listener: a log opened for reading does not become unavailable. */
  onStatusChange(): () => void {
    return () => {};
  }

  async close(): Promise<void> {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort();
    this.#watermark?.close();
  }
}

function noLog(dir: string, cause?: unknown): Error {
  return new Error(`there is no event log in ${dir}`, { cause });
}
