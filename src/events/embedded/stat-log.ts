/**
 * Size and content of a log, mostly from manifests and file sizes. A closed segment with a manifest of an
 * earlier version is read, to count the streams that begin in it.
 */

import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { type Disk, isMissing, nodeDisk } from './disk.ts';
import { readIdentity } from './identity.ts';
import { readLosses } from './losses.ts';
import { type Manifest, readManifest } from './manifest.ts';
import { scanSegment } from './scan-segment.ts';
import {
  categoriesOf,
  type LogFiles,
  Segment,
  SegmentStreams,
  segmentFile,
  segmentName,
  segmentsIn,
} from './segment.ts';
import { walkSegment } from './segment-blocks.ts';

export interface SegmentStat {
  readonly name: string;
  readonly sealed: boolean;
  /** Positions of its first and last event; `last` is `first - 1` when there is none yet. */
  readonly first: number;
  readonly last: number;
  readonly rawBytes: number;
  readonly storedBytes: number;
  /** When its first and last batch were written, milliseconds since the epoch. */
  readonly firstAt?: number;
  readonly lastAt?: number;
}

export interface LogStat {
  readonly id: string;
  readonly segments: readonly SegmentStat[];
  readonly events: number;
  readonly rawBytes: number;
  readonly storedBytes: number;
  /** How many streams there are of each category: those whose first event is in the log. */
  readonly streams: Readonly<Record<string, number>>;
  readonly firstAt?: number;
  readonly lastAt?: number;
}

/** @throws Error when there is no log in that directory, LogCorrupted */
export async function statLog(directory: string, options: { readonly disk?: Disk } = {}): Promise<LogStat> {
  const dir = path.resolve(directory);
  const disk = options.disk ?? nodeDisk;
  const identity = await readIdentity(disk, dir);
  if (identity === undefined) throw new Error(`there is no event log in ${dir}`);
  const log = { disk, dir, mark: identity.mark };
  const segments: SegmentStat[] = [];
  const streams: Record<string, number> = {};
  const found = [...segmentsIn(disk.list(dir))];
  const losses = readLosses(disk, dir);
  for (const [at, [first, kinds]] of found.entries()) {
    const next = found[at + 1]?.[0];
    const following = next === undefined ? undefined : losses.lastBefore(next) + 1;
    const { segment, counts } = kinds.has('seg') ? await statRaw(log, first, following) : await statSealed(log, first);
    segments.push(segment);
    for (const [category, count] of Object.entries(counts)) streams[category] = (streams[category] ?? 0) + count;
  }
  return {
    id: identity.id,
    segments,
    events: segments.reduce((sum, { first, last }) => sum + last - first + 1, 0),
    rawBytes: segments.reduce((sum, { rawBytes }) => sum + rawBytes, 0),
    storedBytes: segments.reduce((sum, { storedBytes }) => sum + storedBytes, 0),
    streams,
    firstAt: segments.find(({ firstAt }) => firstAt !== undefined)?.firstAt,
    lastAt: segments.findLast(({ lastAt }) => lastAt !== undefined)?.lastAt,
  };
}

interface Described {
  readonly segment: SegmentStat;
  readonly counts: Record<string, number>;
}

async function statSealed(log: LogFiles, first: number): Promise<Described> {
  const { name } = new Segment(first);
  const manifest = readManifest(log.disk, log.dir, name);
  const { last, firstAt, lastAt, rawBytes, compressedBytes } = manifest;
  const counts = begunOf(manifest.categories) ?? (await begunIn(log, new Segment(first), last));
  return {
    segment: { name, sealed: true, first, last, rawBytes, storedBytes: compressedBytes, firstAt, lastAt },
    counts,
  };
}

async function statRaw(log: LogFiles, first: number, following: number | undefined): Promise<Described> {
  try {
    const { segment, last, fileBytes } = scanSegment(log.disk, log.dir, log.mark, first, following);
    let firstAt: number | undefined;
    let lastAt: number | undefined;
    for await (const run of walkSegment(log, segment, last)) {
      firstAt ??= run.frames[0]?.at;
      lastAt = run.frames.at(-1)?.at;
    }
    return {
      segment: {
        name: segment.name,
        sealed: false,
        first,
        last,
        rawBytes: segment.bytes,
        storedBytes: fileBytes,
        firstAt,
        lastAt,
      },
      counts: begunOf(categoriesOf(segment.streams ?? new SegmentStreams())) ?? {},
    };
  } catch (error) {
    // it has been compressed in the meantime
    if (isMissing(error)) return statSealed(log, first);
    throw error;
  }
}

/** Number of streams that begin in a segment, by category; undefined when its manifest does not contain it. */
function begunOf(categories: Manifest['categories']): Record<string, number> | undefined {
  const counts: Record<string, number> = {};
  for (const [category, { begun }] of Object.entries(categories)) {
    if (begun === undefined) return undefined;
    if (begun > 0) counts[category] = begun;
  }
  return counts;
}

async function begunIn(log: LogFiles, segment: Segment, last: number): Promise<Record<string, number>> {
  const streams = new SegmentStreams();
  for await (const run of walkSegment(log, segment, last)) streams.noteRun(run);
  return begunOf(categoriesOf(streams)) ?? {};
}

/** The files of a log while it is written, from their names and sizes: neither events nor manifests are read. */
interface ListedSegment {
  /** Position of its first event. */
  readonly first: number;
  /** Whether it is compressed. */
  readonly sealed: boolean;
  /** Size of its files. */
  readonly bytes: number;
}

/** In the order of positions. Sizes of compressed segments are kept for the next call. */
export function segmentLister(dir: string): () => Promise<readonly ListedSegment[]> {
  const sealedBytes = new Map<number, number>();

  async function sizeOf(first: number, kinds: ReadonlySet<string>): Promise<ListedSegment | undefined> {
    // Both exist for a moment, before the uncompressed one is removed.
    const sealed = kinds.has('zst') && kinds.has('json');
    const known = sealed ? sealedBytes.get(first) : undefined;
    if (known !== undefined) return { first, sealed, bytes: known };
    try {
      const { size } = await stat(segmentFile(dir, segmentName(first), sealed ? 'zst' : 'seg'));
      if (sealed) sealedBytes.set(first, size);
      return { first, sealed, bytes: size };
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  return async () => {
    const found = segmentsIn(await readdir(path.resolve(dir)));
    const listed: ListedSegment[] = [];
    for (const [first, kinds] of found) {
      const segment = await sizeOf(first, kinds);
      if (segment !== undefined) listed.push(segment);
    }
    return listed;
  };
}
