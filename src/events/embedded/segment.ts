/** One segment of the log: a file of frames, named after the position of its first event. */
import path from 'node:path';
import { categoryOf, type StreamName } from '../event.ts';
import type { Disk } from './disk.ts';
import { recordEnd, recordRevision, recordStream, sameStream } from './event-record.ts';
import type { BatchFrame, FrameRun } from './frame.ts';
import { type Losses, lossesFile, noLosses, readLosses } from './losses.ts';

/** Frames are found by scanning from a place at most this far before them; also the size of a compressed block. */
export const placeEveryBytes = 256 * 1024;

const digits = 16;

export interface SegmentPlace {
  readonly position: number;
  readonly offset: number;
}

export class Segment {
  /** Position of its first event. */
  readonly first: number;
  readonly name: string;
  /** Uncompressed bytes of whole frames. */
  bytes = 0;
  /** How much of it is known to be on disk. */
  durableBytes = 0;
  /** How much of it is visible to readers. */
  visibleBytes = 0;
  /** Where frames begin, about every `placeEveryBytes`; empty when not known. */
  readonly places: SegmentPlace[] = [];
  /** Kept until the segment is in the index. */
  streams: SegmentStreams | undefined;
  /** Found when the segment was indexed, for its manifest. */
  categories: StreamCategories | undefined;

  constructor(first: number) {
    this.first = first;
    this.name = segmentName(first);
  }

  notePlace(position: number, offset: number): void {
    const latest = this.places.at(-1);
    if (latest === undefined || offset - latest.offset >= placeEveryBytes) this.places.push({ position, offset });
  }

  /** Notes that the frames from there on have been cut off. */
  shrinkTo(bytes: number): void {
    this.bytes = bytes;
    while ((this.places.at(-1)?.offset ?? -1) >= bytes) this.places.pop();
  }
}

/** The last place at or before the position. */
export function seekPlace<Place extends SegmentPlace>(places: readonly Place[], position: number): Place | undefined {
  return places[lastIndexWhere(places, (place) => place.position <= position)];
}

/** Index of the last member for which the test holds, in a list where it holds only for the first ones; -1 for none. */
export function lastIndexWhere<Member>(list: readonly Member[], holds: (member: Member) => boolean): number {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const member = list[middle];
    if (member !== undefined && holds(member)) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

export function segmentName(first: number): string {
  return String(first).padStart(digits, '0');
}

const fileName = /^(\d{16})\.(seg|zst|json)$/;

/** The file of a segment: its frames (`seg`), or its compressed blocks (`zst`) and their table (`json`). */
export function segmentFile(dir: string, name: string, kind: 'seg' | 'zst' | 'json'): string {
  return path.join(dir, `${name}.${kind}`);
}

/**
 * A segment that was written again after a failed sync and is on disk, whole. It replaces every uncompressed segment from
 * its first position on; when they have been removed it gets its usual name.
 */
export function rewrittenFile(dir: string, name: string): string {
  return path.join(dir, `${name}.rewritten`);
}

/** Names of the segments that were written again and have not replaced the others yet. */
export function rewrittenIn(files: readonly string[]): string[] {
  return files.filter((file) => /^\d{16}\.rewritten$/.test(file)).map((file) => file.slice(0, digits));
}

/** The kinds of files of each segment, in the order of positions. */
export function segmentsIn(files: readonly string[]): Map<number, Set<string>> {
  const found = new Map<number, Set<string>>();
  for (const file of files.toSorted()) {
    const match = fileName.exec(file);
    if (match?.[1] === undefined || match[2] === undefined) continue;
    const first = Number(match[1]);
    const kinds = found.get(first);
    if (kinds === undefined) found.set(first, new Set([match[2]]));
    else kinds.add(match[2]);
  }
  return found;
}

/** Where the files of a log are, and how its frames are recognised. */
export interface LogFiles {
  readonly disk: Disk;
  /** The log's directory. */
  readonly dir: string;
  /** Begins every frame of this log; see `identity.ts`. */
  readonly mark: number;
}

/** Which streams have events in one segment, and where: kept in memory while the segment is being written. */
interface StreamPlaces {
  /** Revision of the stream's last event. */
  last: number;
  /** Pairs: the offset of a frame with events of the stream, and the revision of the first of them. */
  readonly frames: number[];
}

/**
 * For each category how many streams have events in a segment, how many of these have their first event there, and the
 * greatest of their names.
 */
export type StreamCategories = Record<string, { streams: number; begun: number; greatest: string }>;

export class SegmentStreams {
  readonly places = new Map<StreamName, StreamPlaces>();

  lastRevision(stream: StreamName): number | undefined {
    return this.places.get(stream)?.last;
  }

  /** Notes that the frame at `frameOffset` holds the stream's events `first` to `last`. */
  note(stream: StreamName, frameOffset: number, first: number, last: number): StreamPlaces {
    const places = this.places.get(stream);
    if (places === undefined) {
      const fresh = { last, frames: [frameOffset, first] };
      this.places.set(stream, fresh);
      return fresh;
    }
    places.last = last;
    const { frames } = places;
    if (frames[frames.length - 2] !== frameOffset) frames.push(frameOffset, first);
    return places;
  }

  noteFrame(buffer: Buffer, frame: BatchFrame, frameOffset: number): void {
    let latest: StreamPlaces | undefined;
    let latestAt = 0;
    for (let at = frame.start; at < frame.end; at = recordEnd(buffer, at)) {
      const revision = recordRevision(buffer, at);
      // most events follow one of the same stream: their name need not be read again
      if (latest !== undefined && sameStream(buffer, latestAt, at)) {
        latest.last = revision;
      } else {
        latest = this.note(recordStream(buffer, at), frameOffset, revision, revision);
      }
      latestAt = at;
    }
  }

  noteRun({ buffer, start, offset, frames }: FrameRun): void {
    let at = start;
    for (const frame of frames) {
      this.noteFrame(buffer, frame, offset + at - start);
      at = frame.end;
    }
  }

  /** Undoes `note` for the records in `buffer[start..end)`, which were to become the frame at `frameOffset`. */
  forget(buffer: Buffer, start: number, end: number, frameOffset: number): void {
    for (let at = start; at < end; at = recordEnd(buffer, at)) {
      const stream = recordStream(buffer, at);
      const places = this.places.get(stream);
      const [offset, first = 0] = places?.frames.slice(-2) ?? [];
      if (places === undefined || offset !== frameOffset) continue;
      places.frames.length -= 2;
      places.last = first - 1;
      if (places.frames.length === 0) this.places.delete(stream);
    }
  }
}

export function categoriesOf(streams: SegmentStreams): StreamCategories {
  const categories: StreamCategories = {};
  for (const [stream, { frames }] of streams.places) {
    const category = categoryOf(stream);
    const known = categories[category];
    const begun = frames[1] === 0 ? 1 : 0;
    if (known === undefined) {
      categories[category] = { streams: 1, begun, greatest: stream };
    } else {
      known.streams++;
      known.begun += begun;
      if (stream > known.greatest) known.greatest = stream;
    }
  }
  return categories;
}

/** The segments in the folder of a log; those that are known stay the same objects. */
export function listSegments(
  { disk, dir }: Pick<LogFiles, 'disk' | 'dir'>,
  known: ReadonlyMap<number, Segment> = new Map(),
): LogSegments {
  const files = disk.list(dir);
  const segments = [...segmentsIn(files).keys()].map((first) => known.get(first) ?? new Segment(first));
  return new LogSegments(segments, files.includes(lossesFile) ? readLosses(disk, dir) : noLosses);
}

/** The segments of a log in the order of positions. */
export class LogSegments {
  #list: Segment[];
  readonly losses: Losses;

  constructor(list: readonly Segment[], losses: Losses = noLosses) {
    this.#list = [...list];
    this.losses = losses;
  }

  get all(): readonly Segment[] {
    return this.#list;
  }

  /** The segment that holds the position, or will. */
  holding(position: number): Segment | undefined {
    return this.#list[lastIndexWhere(this.#list, (segment) => segment.first <= position)];
  }

  /**
   * The position after the segment's last event: the next segment begins there, or positions that were accepted as lost.
   * Infinite for the last segment.
   */
  endOf({ first }: { readonly first: number }): number {
    const at = lastIndexWhere(this.#list, (segment) => segment.first <= first);
    const next = this.#list[at + 1];
    return next === undefined ? Number.POSITIVE_INFINITY : this.losses.lastBefore(next.first) + 1;
  }

  add(segment: Segment): void {
    this.#list.push(segment);
  }

  /** Puts the segment in the place of all that begin at its first position or later. */
  replaceFrom(segment: Segment): void {
    this.#list = [...this.#list.filter((member) => member.first < segment.first), segment];
  }
}
