/** Reading the segments of the primary, up to what it has made visible. */
import { type Disk, isMissing } from '../embedded/disk.ts';
import type { VisibleEnd } from '../embedded/embedded-log.ts';
import { RecordReader } from '../embedded/event-record.ts';
import { IndexIsWrong, LogCorrupted } from '../embedded/log-errors.ts';
import type { LogFiles } from '../embedded/log-files.ts';
import { LogReader, type ReadableSegment, type ReadableSegments } from '../embedded/log-reader.ts';
import { LogSegments } from '../embedded/log-segments.ts';
import { lossesFile, noLosses, readLosses } from '../embedded/losses.ts';
import { Segment, segmentsIn } from '../embedded/segment.ts';
import { readStreamParts } from '../embedded/stream-reader.ts';
import type { RecordedEvent, StreamName } from '../event.ts';
import { ReaderIteration } from '../event-reader.ts';
import { CompiledFilter } from '../filter.ts';
import {
  type CaughtUp,
  LogUnavailable,
  type ReadAllOptions,
  type ReadStreamOptions,
  type SubscribeOptions,
} from '../log.ts';
import { parsePosition } from '../sequence-position.ts';
import { SubscriptionHub } from '../subscription.ts';
import { LiveFrames } from './live-frames.ts';
import { RecentStreamPlaces } from './recent-stream-places.ts';

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
    this.#segments = this.#list(new Map());
  }

  #rotated(): void {
    const known = new Map(this.#segments.all.map((segment) => [segment.first, segment]));
    this.#segments = this.#list(known);
    this.#places.rotated();
  }

  #list(known: ReadonlyMap<number, Segment>): LogSegments {
    const files = this.disk.list(this.dir);
    const segments = [...segmentsIn(files).keys()].map((first) => known.get(first) ?? new Segment(first));
    return new LogSegments(segments, files.includes(lossesFile) ? readLosses(this.disk, this.dir) : noLosses);
  }

  async *readStream(stream: StreamName, options: ReadStreamOptions = {}): AsyncIterable<RecordedEvent> {
    let read = 0;
    try {
      for await (const event of readStreamParts(this, stream, await this.#places.parts(stream, true), options)) {
        read++;
        yield event;
      }
    } catch (error) {
      if (error instanceof LogCorrupted && isMissing(error.cause))
        throw new LogUnavailable(`files of the log are missing in ${this.dir}`, 'none', error);
      if (!(error instanceof IndexIsWrong)) throw error;
      let skip = read;
      const parts = await this.#places.parts(stream, false);
      for await (const event of readStreamParts(this, stream, parts, options)) if (skip-- <= 0) yield event;
    }
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

  close(): void {
    this.#hub.close();
    this.#frames.close();
  }
}
