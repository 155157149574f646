/** Finds out, when a log is opened for writing, where it ends, and cuts off what a crash left behind that. */
import path from 'node:path';
import { datasync, type Disk, syncDirectory } from './disk.ts';
import { LogCorrupted } from './log-errors.ts';
import { Segment, segmentFile, segmentName, segmentsIn } from './segment.ts';
import { SegmentStreams } from './segment-streams.ts';
import { findLaterFrames, scanSegment } from './scan-segment.ts';
import { readManifest } from './manifest.ts';
import { isMissing } from './segment-blocks.ts';

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
  const found = removeLeftovers(disk, dir);
  const firsts = [...found.keys()];
  const segments: Segment[] = [];
  for (const [index, first] of firsts.slice(0, -1).entries()) {
    segments.push(openClosed(disk, dir, mark, first, firsts[index + 1] ?? 0, found.get(first)));
  }
  const lastFirst = firsts.at(-1);
  if (lastFirst === undefined) {
    const first = await createSegment(disk, dir, 1);
    return { segments: [first], last: 0, recovery: lossWithoutDefect(first, 0, durable) };
  }
  if (!found.get(lastFirst)?.has('seg')) {
    const manifest = await readManifest(dir, segmentName(lastFirst));
    const sealed = new Segment(lastFirst);
    const active = await createSegment(disk, dir, manifest.last + 1);
    return {
      segments: [...segments, sealed, active],
      last: manifest.last,
      recovery: lossWithoutDefect(active, manifest.last, durable),
    };
  }
  const active = await openActive(disk, dir, mark, lastFirst, durable);
  return { ...active, segments: [...segments, ...active.segments] };
}

async function openActive(
  disk: Disk,
  dir: string,
  mark: number,
  first: number,
  durable: number | undefined,
): Promise<OpenedSegments> {
  const { segment, last, fileBytes, defect } = scanSegment(disk, dir, mark, first);
  const segments = [segment];
  if (defect === undefined) return { segments, last, recovery: lossWithoutDefect(segment, last, durable) };
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
  return { segments, last, recovery: { segment: segment.name, keptBytes: segment.bytes, cutBytes, lostEvents } };
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

/** A segment that others follow: sealed, or still to be. */
function openClosed(
  disk: Disk,
  dir: string,
  mark: number,
  first: number,
  next: number,
  kinds: Set<string> | undefined,
): Segment {
  if (!kinds?.has('seg')) return new Segment(first);
  const { segment, last, defect } = scanSegment(disk, dir, mark, first, next);
  if (last !== next - 1) {
    const reason = defect ?? 'the segment ends too early';
    throw new LogCorrupted(segment.name, segment.bytes, `${reason}, and a later segment follows`);
  }
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
function removeLeftovers(disk: Disk, dir: string): Map<number, Set<string>> {
  const files = disk.list(dir);
  for (const file of files) if (file.endsWith('.tmp')) disk.remove(path.join(dir, file));
  const found = segmentsIn(files);
  for (const [first, kinds] of found) {
    const name = segmentName(first);
    const sealed = kinds.has('zst') && kinds.has('json');
    const surplus = sealed ? (['seg'] as const) : (['json', 'zst'] as const);
    if (!sealed && !kinds.has('seg')) throw new LogCorrupted(name, 0, 'one of its two files is missing');
    for (const kind of surplus) {
      if (!kinds.delete(kind)) continue;
      try {
        disk.remove(segmentFile(dir, name, kind));
      } catch (error) {
        if (!isMissing(error)) throw error;
      }
    }
  }
  return found;
}
