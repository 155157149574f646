/** Finds out, when a log is opened for writing, where it ends, and cuts off what a crash left behind that. */
import path from 'node:path';
import { type Disk, datasync, syncDirectory } from './disk.ts';
import { LogCorrupted } from './log-errors.ts';
import { readManifest } from './manifest.ts';
import { findLaterFrames, scanSegment } from './scan-segment.ts';
import { Segment, segmentFile, segmentName, segmentsIn } from './segment.ts';
import { SegmentStreams } from './segment-streams.ts';

export interface Recovery {
  readonly segment: string;
  readonly keptBytes: number;
  readonly cutBytes: number;
  /** Events that had been acknowledged as durable and are not there any more: the disk broke its promise. */
  readonly lostEvents: number;
}

export interface OpenedSegments {
  /** In order; the last one is to be written to. */
  readonly segments: Segment[];
  /** Those of them that are compressed. */
  readonly sealed: ReadonlySet<Segment>;
  /** Position of the last event. */
  readonly last: number;
  readonly recovery: Recovery | undefined;
}

/**
 * @param durable the last position known to have been on disk, when that is known
 * @throws LogCorrupted when events are damaged or missing that others follow
 */
export async function openSegments(
  disk: Disk,
  dir: string,
  mark: number,
  durable: number | undefined,
): Promise<OpenedSegments> {
  const found = await removeLeftovers(disk, dir);
  const firsts = [...found.keys()];
  const segments = firsts.slice(0, -1).map(closedSegment);
  const sealed = new Set(segments.filter(({ first }) => !found.get(first)?.has('seg')));
  const lastFirst = firsts.at(-1);
  if (lastFirst === undefined) {
    const first = await createSegment(disk, dir, 1);
    return { segments: [first], sealed, last: 0, recovery: lossWithoutDefect(first, 0, durable) };
  }
  if (!found.get(lastFirst)?.has('seg')) {
    const manifest = readManifest(disk, dir, segmentName(lastFirst));
    const closed = closedSegment(lastFirst);
    const active = await createSegment(disk, dir, manifest.last + 1);
    return {
      segments: [...segments, closed, active],
      sealed: sealed.add(closed),
      last: manifest.last,
      recovery: lossWithoutDefect(active, manifest.last, durable),
    };
  }
  const active = await openActive(disk, dir, mark, lastFirst, durable);
  return { ...active, segments: [...segments, active.segment], sealed };
}

async function openActive(
  disk: Disk,
  dir: string,
  mark: number,
  first: number,
  durable: number | undefined,
): Promise<{ segment: Segment; last: number; recovery: Recovery | undefined }> {
  const { segment, last, fileBytes, defect } = scanSegment(disk, dir, mark, first);
  if (defect === undefined) return { segment, last, recovery: lossWithoutDefect(segment, last, durable) };
  const later = findLaterFrames(disk, dir, mark, segment.name, segment.bytes, last + 1);
  const acknowledged = Math.max(durable ?? 0, later.durable);
  // Whole frames behind a damaged one are no proof of damage: after a power cut a disk may have kept the later of two
  // writes that it was never asked to finish. That the damaged one had been acknowledged is.
  if (later.found && (durable === undefined || acknowledged > last)) {
    throw new LogCorrupted(segment.name, segment.bytes, `${defect}, and whole batches of events follow`);
  }
  const lostEvents = Math.max(0, acknowledged - last);
  if (lostEvents > 0) keepAside(disk, dir, segment, fileBytes);
  const fd = disk.open(segmentFile(dir, segment.name, 'seg'), 'write');
  try {
    disk.truncate(fd, segment.bytes);
    await datasync(disk, fd);
  } finally {
    disk.close(fd);
  }
  const cutBytes = fileBytes - segment.bytes;
  return { segment, last, recovery: { segment: segment.name, keptBytes: segment.bytes, cutBytes, lostEvents } };
}

function lossWithoutDefect(segment: Segment, last: number, durable: number | undefined): Recovery | undefined {
  if (durable === undefined || durable <= last) return undefined;
  return { segment: segment.name, keptBytes: segment.bytes, cutBytes: 0, lostEvents: durable - last };
}

/** A damaged end that had been acknowledged is evidence: it is copied before it is cut off. */
function keepAside(disk: Disk, dir: string, segment: Segment, fileBytes: number): void {
  const from = disk.open(segmentFile(dir, segment.name, 'seg'), 'read');
  const bytes = Buffer.allocUnsafeSlow(fileBytes - segment.bytes);
  disk.read(from, bytes, 0, bytes.length, segment.bytes);
  disk.close(from);
  const to = disk.open(path.join(dir, `${segment.name}-${segment.bytes}-${Date.now()}.damaged`), 'create');
  disk.write(to, bytes, 0, bytes.length, 0);
  disk.close(to);
}

function closedSegment(first: number): Segment {
  const segment = new Segment(first);
  segment.visibleBytes = Number.POSITIVE_INFINITY;
  return segment;
}

async function createSegment(disk: Disk, dir: string, first: number): Promise<Segment> {
  const segment = new Segment(first);
  segment.streams = new SegmentStreams();
  disk.close(disk.open(segmentFile(dir, segment.name, 'seg'), 'create'));
  await syncDirectory(disk, dir);
  return segment;
}

/** Removes what an interrupted sealing left: of each segment either the frames stay or the sealed form. */
async function removeLeftovers(disk: Disk, dir: string): Promise<Map<number, Set<string>>> {
  const files = disk.list(dir);
  for (const file of files) if (file.endsWith('.tmp')) disk.remove(path.join(dir, file));
  const found = segmentsIn(files);
  for (const [first, kinds] of found) {
    const name = segmentName(first);
    if (!kinds.has('seg')) {
      if (!kinds.has('zst') || !kinds.has('json')) throw new LogCorrupted(name, 0, 'one of its two files is missing');
      continue;
    }
    const surplus = (await isSealedWhole(disk, dir, name, kinds)) ? (['seg'] as const) : (['json', 'zst'] as const);
    for (const kind of surplus) if (kinds.delete(kind)) disk.remove(segmentFile(dir, name, kind));
  }
  return found;
}

async function isSealedWhole(disk: Disk, dir: string, name: string, kinds: Set<string>): Promise<boolean> {
  if (!kinds.has('zst') || !kinds.has('json')) return false;
  const fd = disk.open(segmentFile(dir, name, 'zst'), 'read');
  try {
    return disk.size(fd) === (readManifest(disk, dir, name)).compressedBytes;
  } finally {
    disk.close(fd);
  }
}
