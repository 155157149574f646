/** Opens or creates the files of a log for its writer, and verifies that no earlier file is missing. */
import type { Disk } from './disk.ts';
import { identityFile, markFromSegments, newMark, soundIdentity, writeIdentity } from './identity.ts';
import { inspectSegments, type SeenElsewhere } from './inspect-segments.ts';
import type { MissingPart } from './log-errors.ts';
import { lossesFile, noLosses, readLosses } from './losses.ts';
import { placeSegments } from './place-segments.ts';
import { finishRewrites, type LossAcceptance, type OpenedSegments, openSegments } from './recover.ts';
import { findDamage } from './salvage.ts';
import { rewrittenIn, segmentsIn } from './segment.ts';
import { Watermark, watermarkFile } from './watermark.ts';

export interface OpenedFiles {
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
