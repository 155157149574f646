/**
 * Where the events of streams lie, for a process that reads the log of another one. The streams of segments that the index
 * lacks are kept in memory: these segments are walked when a stream is first read, and then only what was added.
 */
import { type IndexSnapshot, lookIntoIndex, readIndex } from '../embedded/archive/index-snapshot.ts';
import type { Disk } from '../embedded/disk.ts';
import type { LogSegments } from '../embedded/log-segments.ts';
import { openBlocks } from '../embedded/open-blocks.ts';
import { checkContinues, indexedPart } from '../embedded/outside-parts.ts';
import type { Segment } from '../embedded/segment.ts';
import { SegmentStreams } from '../embedded/segment-streams.ts';
import type { StreamPart } from '../embedded/stream-reader.ts';
import { walkBlocks } from '../embedded/walk-blocks.ts';
import type { StreamName } from '../event.ts';

export interface RecentStreamPlacesParts {
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

export class RecentStreamPlaces {
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
