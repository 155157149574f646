/** Makes a log of a backup: checks all of it, copies it beside the place of the log, and renames the copy. */
import { mkdirSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { checkLog, type LogCheck } from '../check-log.ts';
import { type Disk, isMissing, makeDirectory, nodeDisk, syncDirectory } from '../disk.ts';
import { identityInFile, readIdentity } from '../identity.ts';
import { readLosses } from '../losses.ts';
import type { LogFiles } from '../segment.ts';
import { hasWriter, lockForWriting } from '../writer-lock.ts';
import { BackupFiles, copyLosses, finishFolder, firstBadFile, readReplicaNote } from './backup-files.ts';
import { BackupRefused, durableEnd, isFolderWithin, readBackupNote } from './backup-note.ts';
import { type CopiedSegments, type CopyProgress, copySegments } from './copy-segments.ts';

export interface RestoreLogOptions {
  readonly disk?: Disk;
  readonly onCheck?: (progress: { events: number; bytes: number; segment: string }) => void;
  readonly onProgress?: (progress: CopyProgress) => void;
  readonly signal?: AbortSignal;
}

export interface RestoredLog extends Pick<CopiedSegments, 'last' | 'segments' | 'copiedBytes'> {
  /** Id of the log. */
  readonly log: string;
  readonly events: number;
  readonly streams: number;
}

/** The backup is not what was copied into it. */
export class BackupDamaged extends Error {
  readonly code = 'backup_damaged';
  /** @param place the first bad one */
  constructor(dir: string, place: string, reason: string) {
    super(`the backup in ${dir} is damaged: ${place}: ${reason}`);
  }
}

/**
 * @throws BackupDamaged, BackupRefused, the signal's reason, what the file system throws; there is then nothing at the
 *   place of the log that was not there before
 */
export async function restoreLog(from: string, to: string, options: RestoreLogOptions = {}): Promise<RestoredLog> {
  const disk = options.disk ?? nodeDisk;
  const place = path.resolve(to);
  const dir = path.resolve(from);
  if (isFolderWithin(place, dir)) throw new BackupRefused(`${place} is in the backup; restore into another folder`);
  await checkPlace(disk, place);
  refuseMountPoint(place);
  const { check, last, id, mark } = await checkBackup(disk, dir, options);
  const source: LogFiles = { disk, dir, mark };
  const target: LogFiles = { disk, dir: `${place}.restoring`, mark };
  await makeDirectory(disk, path.dirname(place));
  // a restore that was interrupted
  rmSync(target.dir, { recursive: true, force: true });
  mkdirSync(target.dir, { mode: 0o700 });
  try {
    const copied = await copyInto(source, target, last, options);
    await checkPlace(disk, place);
    rmSync(place, { recursive: true, force: true });
    disk.rename(target.dir, place);
    await syncDirectory(disk, path.dirname(place));
    const { segments, copiedBytes } = copied;
    return { log: id, last, segments, copiedBytes, events: check.events, streams: check.streams };
  } catch (error) {
    rmSync(target.dir, { recursive: true, force: true });
    throw error;
  }
}

async function copyInto(source: LogFiles, target: LogFiles, last: number, options: RestoreLogOptions) {
  const replica = readReplicaNote(source);
  const losses = readLosses(source.disk, source.dir);
  const files = new BackupFiles(target.disk, target.dir, undefined);
  await copyLosses(source, files);
  const { onProgress, signal } = options;
  const copied = await copySegments({ source, target, files, losses, until: last, quick: false, onProgress, signal });
  await finishFolder(source, target, files, last, replica);
  return copied;
}

interface SoundBackup {
  readonly check: LogCheck;
  /** Position of its last event. */
  readonly last: number;
  readonly id: string;
  readonly mark: number;
}

async function checkBackup(disk: Disk, dir: string, { onCheck, signal }: RestoreLogOptions): Promise<SoundBackup> {
  if (hasWriter(dir)) throw new BackupRefused(`${dir} is being written: by a backup that runs, or by a gateway`);
  const note = readBackupNote(disk, dir);
  if (note === undefined) throw new BackupRefused(`there is no backup in ${dir}: backup.json is missing`);
  const { complete } = note;
  if (complete === undefined) {
    throw new BackupRefused(`the backup in ${dir} was never completed: run "chancery log backup" again`);
  }
  const check = await checkLog(dir, {
    disk,
    ...(onCheck === undefined ? {} : { onProgress: onCheck }),
    ...(signal === undefined ? {} : { signal }),
  });
  if (check.problem !== undefined) {
    const { segment, offset, position, reason } = check.problem;
    const at = position === undefined ? '' : `, position ${position}`;
    throw new BackupDamaged(dir, `${segment} at byte ${offset}${at}`, reason);
  }
  const bad = await firstBadFile(disk, dir, complete.files, signal);
  if (bad !== undefined) throw new BackupDamaged(dir, bad.name, bad.reason);
  const identity = identityInFile(disk, dir);
  if (identity === undefined) throw new BackupRefused(`there is no backup in ${dir}`);
  const last = await durableEnd(disk, dir, identity.mark);
  const damaged = (reason: string, place = `its end at position ${last}`) => new BackupDamaged(dir, place, reason);
  if (check.unfinishedBytes > 0) throw damaged(`${check.unfinishedBytes} bytes follow its last whole batch`);
  if (note.log !== identity.id) {
    throw damaged(`it is the log ${identity.id}, the backup of ${note.log}`, 'log.json');
  }
  if (last < complete.position) throw damaged(`it ended at position ${complete.position} when it was complete`);
  const replica = readReplicaNote({ disk, dir });
  if (replica !== undefined && replica.position > last) {
    throw damaged(`it says position ${replica.position}`, 'replica.json');
  }
  return { check, last, id: identity.id, mark: identity.mark };
}

/** Nothing may be at the place of the log, or a log without events that no process has open. */
async function checkPlace(disk: Disk, place: string): Promise<void> {
  const files = filesAt(disk, place);
  if (files.length === 0) return;
  const other = files.find((file) => !/^(log\.json|durable|writer\.\S+|index\.db\S*|0{15}1\.seg)$/.test(file));
  if (other !== undefined || !(await isEmptyLog(disk, place))) {
    const what = (await readIdentity(disk, place).catch(() => 'damaged')) === undefined ? 'is not empty' : 'has a log';
    throw new BackupRefused(`${place} ${what}; move it away, or restore into another folder with --to`);
  }
}

/** A folder cannot be renamed to one. A mount of a folder of the same file system is not noticed here. */
function refuseMountPoint(place: string): void {
  const found = statSync(place, { throwIfNoEntry: false });
  if (found === undefined || found.dev === statSync(path.dirname(place)).dev) return;
  throw new BackupRefused(
    `${place} is a mount point, which a restored log cannot replace; mount the file system one folder higher, or restore ` +
      'into a folder in it with --to and name that folder in LOG_URL',
  );
}

async function isEmptyLog(disk: Disk, place: string): Promise<boolean> {
  const identity = identityInFile(disk, place);
  if (identity === undefined) return false;
  const lock = lockForWriting(place);
  try {
    const { problem, events, unfinishedBytes } = await checkLog(place, { disk });
    return problem === undefined && events === 0 && unfinishedBytes === 0;
  } finally {
    lock.release();
  }
}

function filesAt(disk: Disk, place: string): string[] {
  try {
    return disk.list(place);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}
