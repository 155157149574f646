/** Reading the segments of the primary, up to what it has made visible. */

import { PublishedBatch } from '../embedded/append-batch.ts';
import { type IndexSnapshot, lookIntoIndex, readIndex } from '../embedded/archive/index-file.ts';
import { type Disk, isMissing } from '../embedded/disk.ts';
import type { VisibleEnd } from '../embedded/embedded-log.ts';
import { RecordReader } from '../embedded/event-record.ts';
import { readFrame } from '../embedded/frame.ts';
import { LogCorrupted } from '../embedded/log-errors.ts';
import { LogReader, readAllOf } from '../embedded/log-reader.ts';
import {
  type LogFiles,
  LogSegments,
  listSegments,
  type Segment,
  SegmentStreams,
  segmentFile,
  segmentName,
} from '../embedded/segment.ts';
import { openBlocks, type ReadableSegment, type ReadableSegments, walkBlocks } from '../embedded/segment-blocks.ts';
import { checkContinues, indexedPart, readStreamOf, type StreamPart } from '../embedded/stream-reader.ts';
import type { RecordedEvent, StreamName } from '../event.ts';
import {
  type CaughtUp,
  LogUnavailable,
  type ReadAllOptions,
  type ReadStreamOptions,
  type SubscribeOptions,
} from '../log.ts';
import { type LiveBatch, SubscriptionHub } from '../subscription.ts';

export class SharedReads implements ReadableSegments {
  readonly dir: string;
  readonly disk: Disk;
  readonly mark: number;
  readonly records = new RecordReader();
  readonly #hub: SubscriptionHub;
  readonly #frames: LiveFrames;
  readonly #places: RecentStreamPlaces;
  #segments: LogSegments = new LogSegments([]);
  #end: VisibleEnd;

  constructor({ disk, dir, mark }: LogFiles, end: VisibleEnd) {
    this.disk = disk;
    this.dir = dir;
    this.mark = mark;
    this.#end = end;
    this.#hub = new SubscriptionHub({
      visible: () => this.visible(),
      reader: (after, filter) => new LogReader(this, after, filter),
    });
    const { records } = this;
    this.#frames = new LiveFrames({ disk, dir, mark, records, publish: (batch) => this.#hub.publish(batch) });
    this.#places = new RecentStreamPlaces({
      dir,
      disk,
      mark,
      segments: () => this.#segments,
      visible: () => this.visible(),
    });
  }

  visible(): number {
    return this.#end.position;
  }

  segmentOf(position: number): ReadableSegment | undefined {
    return this.#segments.holding(position);
  }

  endOf(segment: ReadableSegment): number {
    return this.#segments.endOf(segment);
  }

  lostUntil(position: number): number | undefined {
    return this.#segments.losses.lostUntil(position);
  }

  get segments(): number {
    return this.#segments.all.length;
  }

  get subscriptions(): number {
    return this.#hub.counts.open;
  }

  /**
   * Begins anew at what a primary has told of its log: at first, and after the connection was lost.
   * @param places for segments: the position of the first event, then pairs of a position and its offset
   */
  begin(end: VisibleEnd, places: readonly (readonly number[])[]): void {
    this.#forget();
    this.#end = end;
    for (const [first, ...pairs] of places) {
      const segment = this.#segments.all.find((member) => member.first === first);
      for (let at = 0; at < pairs.length; at += 2) segment?.notePlace(pairs[at] ?? 0, pairs[at + 1] ?? 0);
    }
    this.#hub.readFromLog();
  }

  /** More has become visible. */
  advance(end: VisibleEnd): void {
    const before = this.#end;
    if (end.moves !== before.moves) {
      this.begin(end, []);
      return;
    }
    if (end.segment !== before.segment) this.#rotated();
    this.#end = end;
    this.#segments.holding(end.segment)?.notePlace(end.position + 1, end.bytes);
    if (end.position === before.position || this.#hub.counts.live === 0) return;
    if (!this.#frames.publish(before, end)) this.#hub.readFromLog();
  }

  #forget(): void {
    this.#frames.close();
    this.#places.clear();
    this.#segments = listSegments(this);
  }

  #rotated(): void {
    const known = new Map(this.#segments.all.map((segment) => [segment.first, segment]));
    this.#segments = listSegments(this, known);
    this.#places.rotated();
  }

  async *readStream(stream: StreamName, options: ReadStreamOptions = {}): AsyncIterable<RecordedEvent> {
    try {
      yield* readStreamOf(this, stream, options, (wrong) => this.#places.parts(stream, wrong === undefined));
    } catch (error) {
      if (error instanceof LogCorrupted && isMissing(error.cause))
        throw new LogUnavailable(`files of the log are missing in ${this.dir}`, 'none', error);
      throw error;
    }
  }

  readAll(options: ReadAllOptions = {}): AsyncIterable<RecordedEvent> {
    return readAllOf(this, options);
  }

  subscribe(options: SubscribeOptions = {}): AsyncIterable<RecordedEvent | CaughtUp> {
    return this.#hub.subscribe(options);
  }

  close(): void {
    this.#hub.close();
    this.#frames.close();
  }
}

// Reads the frames that have just become visible, each once, for the live subscriptions.

/** More is left to the subscriptions, which read it block by block. */
const maxBytes = 1024 * 1024;

interface LiveFramesParts {
  readonly disk: Disk;
  readonly dir: string;
  readonly mark: number;
  readonly records: RecordReader;
  readonly publish: (batch: LiveBatch) => void;
}

class LiveFrames {
  readonly #log: LiveFramesParts;
  #file: { readonly segment: number; readonly fd: number } | undefined;
  #buffer: Buffer = Buffer.allocUnsafeSlow(64 * 1024);

  constructor(log: LiveFramesParts) {
    this.#log = log;
  }

  /**
   * Publishes everything between the two ends, with synchronous reads: the operating system has these bytes in memory.
   * @returns false when something of it was not published
   */
  publish(from: VisibleEnd, to: VisibleEnd): boolean {
    const bytes = to.bytes - from.bytes;
    if (from.segment !== to.segment || bytes > maxBytes || bytes <= 0) return false;
    if (this.#buffer.length < bytes) this.#buffer = Buffer.allocUnsafeSlow(maxBytes);
    const fd = this.#open(to.segment);
    if (fd === undefined || this.#log.disk.read(fd, this.#buffer, 0, bytes, from.bytes) < bytes) return false;
    let position = from.position;
    for (let at = 0; at < bytes; ) {
      const frame = readFrame(this.#buffer, at, bytes, this.#log.mark);
      if (typeof frame === 'string' || frame.first !== position + 1) return false;
      const { start, first, count } = frame;
      this.#log.publish(new PublishedBatch({ buffer: this.#buffer, start, first, count }, this.#log.records));
      position = frame.last;
      at = frame.end;
    }
    return position === to.position;
  }

  #open(segment: number): number | undefined {
    if (this.#file?.segment === segment) return this.#file.fd;
    this.close();
    const { disk, dir } = this.#log;
    try {
      const fd = disk.open(segmentFile(dir, segmentName(segment), 'seg'), 'read');
      this.#file = { segment, fd };
      return fd;
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  close(): void {
    if (this.#file !== undefined) this.#log.disk.close(this.#file.fd);
    this.#file = undefined;
  }
}

/**
 * Where the events of streams lie, for a process that reads the log of another one. The streams of segments that the index
 * lacks are kept in memory: these segments are walked when a stream is first read, and then only what was added.
 */
interface RecentStreamPlacesParts {
  readonly dir: string;
  readonly disk: Disk;
  readonly mark: number;
  readonly segments: () => LogSegments;
  readonly visible: () => number;
}

/** The streams in the beginning of a segment. */
interface WalkedSegment {
  readonly streams: SegmentStreams;
  offset: number;
  /** Position of the next event. */
  next: number;
  walking: Promise<void> | undefined;
}

class RecentStreamPlaces {
  readonly #log: RecentStreamPlacesParts;
  #walked = new Map<Segment, WalkedSegment>();
  /** First positions of segments that are in the index. */
  #indexed: ReadonlyMap<number, number> = new Map();

  constructor(log: RecentStreamPlacesParts) {
    this.#log = log;
  }

  /** Forgets the segments: others may have their places. */
  clear(): void {
    this.#walked = new Map();
  }

  /**
   * The stream's visible events, ascending.
   * @throws IndexIsWrong, LogCorrupted
   */
  async parts(stream: StreamName, withIndex: boolean): Promise<StreamPart[]> {
    const visible = this.#log.visible();
    const found: StreamPart[] = [];
    let index: IndexSnapshot | undefined;
    const older = this.#log.segments().all.filter(({ first }) => first <= visible);
    for (let segment = older.pop(); segment !== undefined; segment = older.pop()) {
      const last = Math.min(visible, this.#log.segments().endOf(segment) - 1);
      let part: StreamPart | undefined;
      if (withIndex && this.#isIndexed(segment, last)) index ??= lookIntoIndex(this.#log.dir, this.#log.mark, stream);
      if (index?.segments.get(segment.first) === last) part = indexedPart(segment, index.parts);
      else part = await this.#partIn(segment, last, stream);
      if (part === undefined) continue;
      found.push(part);
      // the stream begins here
      if (part.frames[1] === 0) break;
    }
    const parts = found.reverse();
    // where events were lost, revisions jump
    if (!this.#log.segments().losses.any) for (const [at, part] of parts.entries()) checkContinues(parts[at - 1], part);
    return parts;
  }

  #isIndexed(segment: Segment, last: number): boolean {
    if (segment === this.#log.segments().all.at(-1)) return false;
    if (this.#indexed.get(segment.first) === last) return true;
    // a segment that is not walked is expected in the index
    if (this.#walked.has(segment)) return false;
    this.#readIndexed();
    return this.#indexed.get(segment.first) === last;
  }

  /** Learns which segments are in the index, and forgets the streams of these. */
  #readIndexed(): void {
    this.#indexed = readIndex(this.#log.dir, this.#log.mark, (index) => index.segments()) ?? new Map();
    for (const segment of this.#walked.keys()) if (this.#indexed.has(segment.first)) this.#walked.delete(segment);
  }

  /** To be called when another segment has been begun. */
  rotated(): void {
    this.#readIndexed();
  }

  async #partIn(segment: Segment, last: number, stream: StreamName): Promise<StreamPart | undefined> {
    const walked = this.#walked.get(segment) ?? {
      streams: new SegmentStreams(),
      offset: 0,
      next: segment.first,
      walking: undefined,
    };
    this.#walked.set(segment, walked);
    while (walked.next <= last) {
      walked.walking ??= this.#walk(segment, walked, last).finally(() => {
        walked.walking = undefined;
      });
      await walked.walking;
    }
    const places = walked.streams.places.get(stream);
    return places === undefined ? undefined : { segment, last: places.last, frames: places.frames.slice() };
  }

  async #walk(segment: Segment, walked: WalkedSegment, last: number): Promise<void> {
    const { disk, dir, mark } = this.#log;
    const blocks = await openBlocks(disk, dir, segment.name, mark, segment.places);
    try {
      const from = { offset: walked.offset, position: walked.next };
      for await (const run of walkBlocks(blocks, mark, segment, last, from)) {
        walked.streams.noteRun(run);
        const first = run.frames[0];
        if (first !== undefined) segment.notePlace(first.first, run.offset);
        walked.offset = run.offset + run.end - run.start;
        walked.next = (run.frames.at(-1)?.last ?? walked.next - 1) + 1;
      }
    } finally {
      blocks.close();
    }
  }
}
