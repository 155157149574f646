/** One segment of the log: a file of frames, named after the position of its first event. */
import path from 'node:path';
import type { SegmentStreams, StreamCategories } from './segment-streams.ts';

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
