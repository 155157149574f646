/** Finds out, when a log is opened for writing, where it ends, and cuts off what a crash left behind that. */
import path from 'node:path';
import { type Disk, datasync, syncDirectory, writeFully } from './disk.ts';
import { LogCorrupted } from './log-errors.ts';
import { readManifest } from './manifest.ts';
import { findLaterFrames, type ScannedSegment, scanSegment } from './scan-segment.ts';
import { Segment, seekPlace, segmentFile, segmentName, segmentsIn } from './segment.ts';
import { SegmentStreams } from './segment-streams.ts';

const copyBytes = 1024 * 1024;

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
 * @throws LogCorrupted when events are damaged or missing that had been acknowledged, and others follow
 */
export async function openSegments(
  disk: Disk,
  dir: string,
  mark: number,
  durable: number | undefined,
): Promise<OpenedSegments> {
  const found = removeLeftovers(disk, dir);
  const firsts = [...found.keys()];
  const isSealed = (first: number) => !found.get(first)?.has('seg');
  const unsure = firsts.slice(firstUnsure(firsts, isSealed, durable));
  const segments = firsts.slice(0, firsts.length - unsure.length).map(closedSegment);
  const sealed = new Set(segments.filter(({ first }) => isSealed(first)));
  if (unsure.length > 0) {
    const end = await openUnsure({ disk, dir, mark }, unsure, durable);
    return { segments: [...segments, ...end.segments], sealed, last: end.last, recovery: end.recovery };
  }
  const lastFirst = firsts.at(-1);
  const last = lastFirst === undefined ? 0 : readManifest(disk, dir, segmentName(lastFirst)).last;
  const active = await createSegment(disk, dir, last + 1);
  return { segments: [...segments, active], sealed, last, recovery: lossWithoutDefect(active, last, durable) };
}

/**
 * Index of the first segment that may not have been wholly on disk when the writer ended: the last one, and those
 * before it that it had not heard to be, unless they are compressed already.
 */
function firstUnsure(firsts: readonly number[], isSealed: (first: number) => boolean, durable = 0): number {
  let index = firsts.length;
  while (index > 0) {
    const first = firsts[index - 1] ?? 0;
    const following = firsts[index];
    if (isSealed(first) || (following !== undefined && durable >= following - 1)) break;
    index--;
  }
  return index;
}

interface LogFiles {
  readonly disk: Disk;
  readonly dir: string;
  readonly mark: number;
}

/** Opens the segments at the end of the log, of which the last is to be written to, unless the log ends before it. */
async function openUnsure(
  log: LogFiles,
  firsts: readonly number[],
  durable: number | undefined,
): Promise<{ segments: Segment[]; last: number; recovery: Recovery | undefined }> {
  const { disk, dir, mark } = log;
  const segments: Segment[] = [];
  let last = (firsts[0] ?? 1) - 1;
  for (const [index, first] of firsts.entries()) {
    const following = firsts[index + 1];
    const scanned = scanSegment(disk, dir, mark, first, following);
    segments.push(scanned.segment);
    ({ last } = scanned);
    if (following === undefined ? scanned.defect !== undefined : last < following - 1) {
      const recovery = await cut(log, scanned, firsts.slice(index + 1), durable);
      await makeDurable(log, segments, durable);
      return { segments, last, recovery };
    }
  }
  if (last > (durable ?? 0)) await makeDurable(log, segments, durable);
  const active = segments.at(-1);
  const recovery = active === undefined ? undefined : lossWithoutDefect(active, last, durable);
  return { segments, last, recovery };
}

/**
 * What a killed process had written may be with the operating system only, and from now on counts as if it were on
 * disk. It is written once more, not only synced: if the last sync of that process failed, the kernel takes for clean
 * what it never wrote.
 */
async function makeDurable({ disk, dir }: LogFiles, segments: readonly Segment[], durable = 0): Promise<void> {
  for (const { name, bytes, places } of segments) {
    const from = seekPlace(places, durable + 1)?.offset ?? 0;
    const fd = disk.open(segmentFile(dir, name, 'seg'), 'write');
    try {
      if (disk.size(fd) !== bytes) disk.truncate(fd, bytes);
      const buffer = Buffer.allocUnsafeSlow(Math.min(copyBytes, bytes - from));
      for (let offset = from; offset < bytes; offset += buffer.length) {
        const length = Math.min(buffer.length, bytes - offset);
        disk.read(fd, buffer, 0, length, offset);
        writeFully(disk, fd, buffer, 0, length, offset);
      }
      await datasync(disk, fd);
    } finally {
      disk.close(fd);
    }
  }
  await syncDirectory(disk, dir);
}

/** Cuts the log off where the segment is torn; `later` are the segments after it. */
async function cut(
  { disk, dir, mark }: LogFiles,
  { segment, last, fileBytes, defect = 'the segment ends too early' }: ScannedSegment,
  later: readonly number[],
  durable: number | undefined,
): Promise<Recovery> {
  const names = later.map(segmentName);
  const evidence = [
    findLaterFrames(disk, dir, mark, segment.name, segment.bytes, last + 1),
    ...names.map((name) => findLaterFrames(disk, dir, mark, name, 0, last + 1)),
  ];
  const acknowledged = Math.max(durable ?? 0, ...evidence.map((frames) => frames.durable));
  // Whole frames behind a damaged one are no proof of damage: after a power cut a disk may have kept the later of two
  // writes that it was never asked to finish. That the damaged one had been acknowledged is.
  if (evidence.some(({ found }) => found) && (durable === undefined || acknowledged > last)) {
    throw new LogCorrupted(segment.name, segment.bytes, `${defect}, and whole batches of events follow`);
  }
  const lostEvents = Math.max(0, acknowledged - last);
  if (lostEvents > 0) keepAside(disk, dir, segment, fileBytes);
  let cutBytes = fileBytes - segment.bytes;
  for (const name of names.toReversed()) {
    const file = segmentFile(dir, name, 'seg');
    cutBytes += fileSize(disk, file);
    disk.remove(file);
  }
  await syncDirectory(disk, dir);
  const fd = disk.open(segmentFile(dir, segment.name, 'seg'), 'write');
  try {
    disk.truncate(fd, segment.bytes);
  } finally {
    disk.close(fd);
  }
  return { segment: segment.name, keptBytes: segment.bytes, cutBytes, lostEvents };
}

function fileSize(disk: Disk, file: string): number {
  const fd = disk.open(file, 'read');
  try {
    return disk.size(fd);
  } finally {
    disk.close(fd);
  }
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
function removeLeftovers(disk: Disk, dir: string): Map<number, Set<string>> {
  const files = disk.list(dir);
  for (const file of files) if (file.endsWith('.tmp')) disk.remove(path.join(dir, file));
  const found = segmentsIn(files);
  for (const [first, kinds] of found) {
    const name = segmentName(first);
    if (!kinds.has('seg')) {
      if (!kinds.has('zst') || !kinds.has('json')) throw new LogCorrupted(name, 0, 'one of its two files is missing');
      continue;
    }
    const surplus = isSealedWhole(disk, dir, name, kinds) ? (['seg'] as const) : (['json', 'zst'] as const);
    for (const kind of surplus) if (kinds.delete(kind)) disk.remove(segmentFile(dir, name, kind));
  }
  return found;
}

function isSealedWhole(disk: Disk, dir: string, name: string, kinds: Set<string>): boolean {
  if (!kinds.has('zst') || !kinds.has('json')) return false;
  return fileSize(disk, segmentFile(dir, name, 'zst')) === readManifest(disk, dir, name).compressedBytes;
}
