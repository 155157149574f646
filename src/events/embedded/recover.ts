/** Prepares a log for writing: removes an incomplete write at its end, and rewrites frames that may not be on disk. */
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Disk, datasync, fileSize, syncDirectory, writeFully } from './disk.ts';
import { identityFile, markFromSegments, newMark, soundIdentity, writeIdentity } from './identity.ts';
import {
  type Inspection,
  inspectSegments,
  type KnownOfLog,
  type SeenElsewhere,
  type Surplus,
} from './inspect-segments.ts';
import { LogCorrupted, LogIncomplete, type MissingPart } from './log-errors.ts';
import { type AcceptedLoss, type Losses, lossesFile, noLosses, readLosses, writeLosses } from './losses.ts';
import { placeSegments, renameMisplaced } from './place-segments.ts';
import { findDamage, writeAgain } from './salvage.ts';
import { type ScannedSegment, scanSegment } from './scan-segment.ts';
import {
  type LogFiles,
  rewrittenFile,
  rewrittenIn,
  Segment,
  SegmentStreams,
  seekPlace,
  segmentFile,
  segmentName,
  segmentsIn,
} from './segment.ts';
import { type ReadableSegment, walkSegment } from './segment-blocks.ts';
import { Watermark, watermarkFile } from './watermark.ts';

const copyBytes = 1024 * 1024;

export interface Recovery {
  readonly segment: string;
  readonly keptBytes: number;
  readonly cutBytes: number;
  /** Events that had been acknowledged as durable and are not there any more; an operator accepted that. */
  readonly lostEvents: number;
}

export interface OpenedSegments {
  /** In order; the last one is to be written to. */
  readonly segments: Segment[];
  /** Those of them that are compressed. */
  readonly sealed: ReadonlySet<Segment>;
  /** Position of the last event, or of the last one that was accepted as lost. */
  readonly last: number;
  readonly losses: Losses;
  /** Missing parts that were accepted as lost at this opening. */
  readonly accepted: AcceptedLoss | undefined;
  readonly recovery: Recovery | undefined;
}

/** Makes this process the writer. Resolves to whether the writer before it closed the log. */
export type TakeOver = () => Promise<boolean>;

/** Who accepts the missing parts as lost. */
export interface LossAcceptance {
  readonly by: string;
  readonly reason: string;
  readonly at: Date;
  /** Found outside the folder, and accepted too. */
  readonly also?: readonly MissingPart[];
}

/**
 * @param absent files without events that are missing
 * @param takeOver called when nothing is missing, before the end of the log is inspected for the last time
 * @param acceptance given to accept missing parts as lost
 * @throws LogIncomplete when something is missing and `acceptance` is not given; nothing was changed then
 * @throws LogCorrupted when events are damaged that had been acknowledged, and others follow
 */
export async function openSegments(
  log: LogFiles,
  known: KnownOfLog,
  absent: readonly MissingPart[],
  acceptance: LossAcceptance | undefined,
  takeOver: TakeOver,
): Promise<OpenedSegments> {
  const { disk, dir } = log;
  let accepted: AcceptedLoss | undefined;
  let { losses } = known;
  /** Before any change that loses something: after this, in every case, the lost positions are not used again. */
  async function accept(missing: readonly MissingPart[], by: LossAcceptance): Promise<void> {
    if (missing.length === 0) return;
    const before = losses.accepted.filter((loss) => loss !== accepted);
    accepted = entryFor(missing, by, accepted);
    losses = await writeLosses(disk, dir, [...before, accepted]);
  }
  let wasClosed = false;
  let indexed = known.indexed;
  if (acceptance !== undefined) {
    wasClosed = await takeOver();
    const { parts: misplaced } = placeSegments(log, losses);
    await renameMisplaced(log, misplaced);
    await accept(misplaced, acceptance);
    const { segments: damaged } = findDamage(log, known);
    if (damaged.length > 0) {
      const parts = damaged.flatMap((segment) => segment.parts);
      await writeAgain(log, damaged, () => accept(parts, acceptance));
      indexed = new Map([...indexed].filter(([first]) => damaged.every((segment) => segment.first !== first)));
    }
  }
  const seen = filesNow(log);
  let inspection = inspectSegments(log, { ...known, indexed, losses });
  if (acceptance === undefined) {
    if (absent.length + inspection.missing.length > 0) throw new LogIncomplete(dir, [...absent, ...inspection.missing]);
    wasClosed = await takeOver();
    // a writer whose lock was lost may have acknowledged more until then; from now on it does not
    if (filesNow(log) !== seen) inspection = inspectSegments(log, known);
  }
  const missing = [...absent, ...inspection.missing];
  if (acceptance !== undefined) await accept(missing, acceptance);
  else if (missing.length > 0) throw new LogIncomplete(dir, missing);
  for (const file of inspection.leftovers) await disk.removeLater(file);
  for (const file of inspection.halves) disk.rename(file, `${file}.damaged`);
  for (const surplus of inspection.surplus) await moveAside(log, surplus);
  const lost = losses.lostUntil(inspection.last + 1);
  const recovery = await cut(log, inspection, (lost ?? inspection.last) - inspection.last);
  const ends = await endSegments(log, inspection.end, lost !== undefined);
  const last = lost ?? inspection.last;
  if (recovery !== undefined || inspection.last > (known.durable ?? 0)) await makeDurable(log, ends, known.durable);
  const active = ends.at(-1);
  // a writer that has not closed the log may still write behind the end of its segment, or into its empty one
  const isActiveUsable = active !== undefined && wasClosed && lost === undefined && accepted === undefined;
  if (active?.bytes === 0 && !isActiveUsable) {
    disk.remove(segmentFile(dir, active.name, 'seg'));
    ends.pop();
  }
  if (!isActiveUsable) ends.push(await createSegment(disk, dir, last + 1));
  return { segments: [...inspection.closed, ...ends], sealed: inspection.sealed, last, losses, accepted, recovery };
}

/**
 * Finishes what a killed process began after a failed sync: the rewritten segment takes the place of those that it
 * replaces. It is whole and on disk, else it would not have its name.
 */
export async function finishRewrites({ disk, dir, mark }: LogFiles): Promise<void> {
  for (const name of rewrittenIn(disk.list(dir))) {
    const raw = [...segmentsIn(disk.list(dir))].filter(([, kinds]) => kinds.has('seg')).map(([first]) => first);
    for (const first of raw.toReversed()) {
      if (first >= Number(name)) disk.remove(segmentFile(dir, segmentName(first), 'seg'));
    }
    const cut = raw.findLast((first) => first < Number(name));
    if (cut !== undefined) await cutAt(disk, dir, scanSegment(disk, dir, mark, cut, Number(name)).segment);
    await syncDirectory(disk, dir);
    disk.rename(rewrittenFile(dir, name), segmentFile(dir, name, 'seg'));
    await syncDirectory(disk, dir);
  }
}

/** The segments' files and the size of the last one: they change when another process writes. */
function filesNow({ disk, dir }: LogFiles): string {
  const files = disk.list(dir).filter((file) => /^\d{16}\./.test(file));
  const last = files
    .filter((file) => file.endsWith('.seg'))
    .toSorted()
    .at(-1);
  return [...files.toSorted(), last === undefined ? 0 : fileSize(disk, path.join(dir, last))].join();
}

/** Copies another writer's frames behind the end of a segment into a separate file, and cuts them off. */
async function moveAside({ disk, dir }: LogFiles, { name, from }: Surplus): Promise<void> {
  const file = segmentFile(dir, name, 'seg');
  keepAside(disk, dir, { name, bytes: from }, fileSize(disk, file));
  await syncDirectory(disk, dir);
  await cutAt(disk, dir, { name, bytes: from });
}

async function cutAt(
  disk: Disk,
  dir: string,
  { name, bytes }: { readonly name: string; readonly bytes: number },
): Promise<void> {
  const fd = disk.open(segmentFile(dir, name, 'seg'), 'write');
  try {
    disk.truncate(fd, bytes);
    await datasync(disk, fd);
  } finally {
    disk.close(fd);
  }
}

/** @param before what was accepted at this opening already */
function entryFor(
  missing: readonly MissingPart[],
  { by, reason, at }: LossAcceptance,
  before: AcceptedLoss | undefined,
): AcceptedLoss {
  const positions = missing.map((part) => part.positions).filter((range) => range !== undefined);
  return {
    at: at.toISOString(),
    by,
    reason,
    positions: [...(before?.positions ?? []), ...positions].toSorted((one, other) => one.first - other.first),
    files: [...(before?.files ?? []), ...missing.flatMap(filesOf)],
    recorded: false,
  };
}

function filesOf({ files, renames }: MissingPart): readonly string[] {
  return renames?.map(({ from, to }) => `${from} under this name: renamed to ${to}`) ?? files;
}

/** The segments at the end; not one without events when the positions that it was to hold are lost. */
async function endSegments({ disk, dir }: LogFiles, end: readonly ScannedSegment[], lost: boolean): Promise<Segment[]> {
  const segments = end.map(({ segment }) => segment);
  const empty = lost && segments.at(-1)?.bytes === 0 ? segments.pop() : undefined;
  if (empty !== undefined) {
    disk.remove(segmentFile(dir, empty.name, 'seg'));
    await syncDirectory(disk, dir);
  }
  return segments;
}

/**
 * Frames that a killed process had written may be only in the page cache, and must be on disk from now on. They are
 * written once more, not only synced: if the last sync of that process failed, the kernel marks pages as clean that it
 * never wrote.
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

/** Cuts the log off at the incomplete write. @param lostEvents number of removed events that had been acknowledged */
async function cut(
  { disk, dir }: LogFiles,
  { tear, closed }: Inspection,
  lostEvents: number,
): Promise<Recovery | undefined> {
  if (tear === undefined) return undefined;
  const { scanned, later } = tear;
  const segment = scanned?.segment ?? closed.at(-1) ?? new Segment(1);
  let cutBytes = 0;
  if (scanned !== undefined) {
    if (lostEvents > 0) keepAside(disk, dir, segment, scanned.fileBytes);
    cutBytes = scanned.fileBytes - segment.bytes;
  }
  for (const name of later.toReversed()) {
    const file = segmentFile(dir, name, 'seg');
    cutBytes += fileSize(disk, file);
    disk.remove(file);
  }
  await syncDirectory(disk, dir);
  if (scanned !== undefined) {
    const fd = disk.open(segmentFile(dir, segment.name, 'seg'), 'write');
    try {
      disk.truncate(fd, segment.bytes);
    } finally {
      disk.close(fd);
    }
  }
  return { segment: segment.name, keptBytes: segment.bytes, cutBytes, lostEvents };
}

/** A damaged end that had been acknowledged is evidence: it is copied before it is cut off. */
function keepAside(
  disk: Disk,
  dir: string,
  segment: { readonly name: string; readonly bytes: number },
  fileBytes: number,
): void {
  const from = disk.open(segmentFile(dir, segment.name, 'seg'), 'read');
  const bytes = Buffer.allocUnsafeSlow(fileBytes - segment.bytes);
  disk.read(from, bytes, 0, bytes.length, segment.bytes);
  disk.close(from);
  const to = disk.open(path.join(dir, `${segment.name}-${segment.bytes}-${Date.now()}.damaged`), 'create');
  disk.write(to, bytes, 0, bytes.length, 0);
  disk.close(to);
}

async function createSegment(disk: Disk, dir: string, first: number): Promise<Segment> {
  const segment = new Segment(first);
  segment.streams = new SegmentStreams();
  disk.close(disk.open(segmentFile(dir, segment.name, 'seg'), 'create'));
  await syncDirectory(disk, dir);
  return segment;
}

/** Opens or creates the files of a log for its writer, and verifies that no earlier file is missing. */
interface OpenedFiles {
  readonly mark: number;
  readonly watermark: Watermark;
  readonly opened: OpenedSegments;
}

/**
 * A log is created in this order, each step on disk before the next: note of what is on disk, identity, first segment.
 * So an identity without the note, or any other file without the identity, is the remainder of a damaged log.
 * @param indexed first and last position of the segments in the stream index of the log with that mark
 * @throws LogIncomplete, LogCorrupted
 */
export async function openFiles(
  disk: Disk,
  dir: string,
  indexed: (mark: number) => ReadonlyMap<number, number>,
  { acceptance, seen }: { readonly acceptance?: LossAcceptance; readonly seen?: SeenElsewhere } = {},
): Promise<OpenedFiles> {
  const identity = await soundIdentity(disk, dir);
  if (identity === undefined && !hasTraces(disk, dir)) {
    if (acceptance !== undefined) throw new Error(`there is no event log in ${dir}`);
    return createFiles(disk, dir);
  }
  const mark = identity?.mark ?? (await markOfTraces(disk, dir));
  await finishRewrites({ disk, dir, mark });
  const absent: MissingPart[] = identity === undefined ? [{ files: [identityFile] }] : [];
  let watermark = Watermark.openForReading(disk, dir, mark, 'write');
  try {
    const durable = watermark?.read();
    if (durable === undefined) absent.push({ files: [watermarkFile] });
    absent.push(...(acceptance?.also ?? []));
    const known = { durable, indexed: indexed(mark), losses: readLosses(disk, dir), seen };
    const takeOver = async () => (await watermark?.takeOver()) ?? false;
    const opened = await openSegments({ disk, dir, mark }, known, absent, acceptance, takeOver);
    if (watermark === undefined || durable === undefined) {
      watermark?.close();
      watermark = undefined;
      watermark = await Watermark.create(disk, dir, mark);
      await watermark.takeOver();
    }
    if (identity === undefined) await writeIdentity(disk, dir, mark);
    // as the last step: until here the next opening finds the same parts missing
    watermark.reset(opened.last);
    return { mark, watermark, opened };
  } catch (error) {
    watermark?.close();
    throw error;
  }
}

/**
 * What an opening with an acceptance would accept as lost. Changes no file of the log.
 * @throws LogLocked; LogCorrupted when no acceptance helps
 */
export async function findLoss(
  disk: Disk,
  dir: string,
  indexed: (mark: number) => ReadonlyMap<number, number>,
  seen?: SeenElsewhere,
): Promise<MissingPart[]> {
  const identity = await soundIdentity(disk, dir);
  if (identity === undefined && !hasTraces(disk, dir)) throw new Error(`there is no event log in ${dir}`);
  const mark = identity?.mark ?? (await markOfTraces(disk, dir));
  const watermark = Watermark.openForReading(disk, dir, mark);
  const durable = watermark?.read();
  watermark?.close();
  const known = { durable, indexed: indexed(mark), losses: readLosses(disk, dir), seen };
  const placed = placeSegments({ disk, dir, mark }, known.losses);
  const files = { disk: placed.disk, dir, mark };
  const parts: MissingPart[] = [
    ...(identity === undefined ? [{ files: [identityFile] }] : []),
    ...(durable === undefined ? [{ files: [watermarkFile] }] : []),
    ...placed.parts,
  ];
  const damage = findDamage(files, known);
  parts.push(...damage.segments.flatMap((segment) => segment.parts));
  if (damage.segments.length === 0) return [...parts, ...inspectSegments(files, known).missing];
  return [...parts, ...damage.absent.map((positions) => ({ positions, files: ['in no segment'] }))];
}

async function createFiles(disk: Disk, dir: string): Promise<OpenedFiles> {
  const mark = newMark();
  const watermark = await Watermark.create(disk, dir, mark);
  try {
    await writeIdentity(disk, dir, mark);
    const known = { durable: 0, indexed: new Map<number, number>(), losses: noLosses };
    return {
      mark,
      watermark,
      opened: await openSegments({ disk, dir, mark }, known, [], undefined, () => watermark.takeOver()),
    };
  } catch (error) {
    watermark.close();
    throw error;
  }
}

/** Whether a file exists that is created only after the identity. */
function hasTraces(disk: Disk, dir: string): boolean {
  const files = disk.list(dir);
  if (files.some((file) => file === identityFile || file === lossesFile || file === 'index.db')) return true;
  return segmentsIn(files).size > 0 || rewrittenIn(files).length > 0 || (Watermark.find(disk, dir)?.position ?? 0) > 0;
}

async function markOfTraces(disk: Disk, dir: string): Promise<number> {
  return (await markFromSegments(disk, dir)) ?? Watermark.find(disk, dir)?.mark ?? newMark();
}

// Reads the closed segments of an open log once, in the background: read models with snapshots start behind most segments,
// so that damage there would be found only by the request that needs it.

/** Milliseconds of rest for each one of work: a twentieth of one processor, and of the disk. */
const restFactor = 19;

/**
 * Resolves when all of them have been read, or the signal is aborted. Of each, the first damage is passed on.
 * @param segments each with the position of its last event
 */
export async function verifyClosed(
  log: LogFiles,
  segments: readonly { readonly segment: ReadableSegment; readonly last: number }[],
  signal: AbortSignal,
  onDamage: (damage: LogCorrupted) => void,
): Promise<void> {
  for (const { segment, last } of segments) {
    try {
      let began = performance.now();
      for await (const _run of walkSegment(log, segment, last)) {
        const worked = performance.now() - began;
        await delay(worked * restFactor, undefined, { signal, ref: false });
        began = performance.now();
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof LogCorrupted) onDamage(error);
      // Other errors are the disk's: the next reader of the segment reports them.
    }
  }
}
