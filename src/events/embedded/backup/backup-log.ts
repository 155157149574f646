/**
 * Copies a log into another folder, beside its writer: everything that is on disk when it begins, as a log of its own.
 * Repeated, it copies what is new. At every moment the folder is one of: no log (`log.json` is missing), or a whole log
 * that ends where a backup ended, or later.
 */
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Disk, makeDirectory, nodeDisk } from '../disk.ts';
import { identityInFile } from '../identity.ts';
import { readLosses } from '../losses.ts';
import type { LogFiles } from '../segment.ts';
import { Watermark } from '../watermark.ts';
import { lockForWriting } from '../writer-lock.ts';
import { BackupFiles, copyLosses, finishFolder, type ReplicaNote, readReplicaNote } from './backup-files.ts';
import { BackupRefused, durableEnd, isFolderWithin, readBackupNote, writeBackupNote } from './backup-note.ts';
import { type CopiedSegments, type CopyProgress, copySegments } from './copy-segments.ts';

/** How long the events may take to be on disk that the note of a replica counts. */
const replicaPatienceMs = 10_000;
const replicaPollMs = 50;

export interface BackupOptions {
  readonly disk?: Disk;
  /** Compares compressed segments that are there already by manifest and size, without reading them. */
  readonly quick?: boolean;
  readonly onProgress?: (progress: CopyProgress) => void;
  readonly signal?: AbortSignal;
}

export interface LogBackup extends CopiedSegments {
  /** Id of the log. */
  readonly log: string;
  /** Where the backup in this folder ended before; undefined for a first one. */
  readonly before: number | undefined;
  /** Position up to which the replica has read its engine; undefined when it is none. */
  readonly replica: number | undefined;
}

/** @throws BackupRefused, LogIncomplete, LogCorrupted, LogLocked, the signal's reason, what the file system throws */
export async function backupLog(from: string, to: string, options: BackupOptions = {}): Promise<LogBackup> {
  const disk = options.disk ?? nodeDisk;
  const dir = path.resolve(from);
  const identity = identityInFile(disk, dir);
  if (identity === undefined) throw new BackupRefused(`there is no event log in ${dir}, or its log.json is damaged`);
  const source: LogFiles = { disk, dir, mark: identity.mark };
  const target: LogFiles = { ...source, dir: path.resolve(to) };
  checkApart(dir, target.dir);
  await makeDirectory(disk, target.dir);
  checkUse(target, identity.id);
  const lock = lockForWriting(target.dir);
  try {
    return await copyLog(source, target, identity.id, options);
  } finally {
    lock.release();
  }
}

async function copyLog(source: LogFiles, target: LogFiles, id: string, options: BackupOptions): Promise<LogBackup> {
  const { quick = false, onProgress, signal } = options;
  // first: the segments are then at least as far
  const replica = readReplicaNote(source);
  const until = await endWith(source, replica, signal);
  const losses = readLosses(source.disk, source.dir);
  const note = readBackupNote(target.disk, target.dir);
  const before = note?.complete?.position;
  checkLosses(source, target, before ?? 0);
  if (note === undefined) await writeBackupNote(target.disk, target.dir, { log: id });
  const files = new BackupFiles(target.disk, target.dir, note);
  try {
    await copyLosses(source, files);
    const copied = await copySegments({ source, target, files, losses, until, quick, onProgress, signal });
    await finishFolder(source, target, files, copied.last, replica);
    const complete = { position: copied.last, at: new Date().toISOString(), files: await files.list() };
    await writeBackupNote(target.disk, target.dir, { log: id, complete });
    await files.forgetChanges();
    return { ...copied, log: id, before, replica: replica?.position };
  } finally {
    files.close();
  }
}

/** Position of the last event on disk, which is not before that of the replica's note. */
async function endWith(source: LogFiles, replica: ReplicaNote | undefined, signal?: AbortSignal): Promise<number> {
  const deadline = performance.now() + replicaPatienceMs;
  for (;;) {
    const end = await durableEnd(source.disk, source.dir, source.mark);
    if (replica === undefined || replica.position <= end) return end;
    if (performance.now() > deadline) {
      throw new BackupRefused(`the replica in ${source.dir} counts ${replica.position} events and has ${end} on disk`);
    }
    await delay(replicaPollMs, undefined, { signal });
  }
}

function checkApart(source: string, target: string): void {
  if (!isFolderWithin(source, target) && !isFolderWithin(target, source)) return;
  throw new BackupRefused(`${target} is not apart from the log's folder ${source}`);
}

/** The lock of a folder, left by an earlier backup. */
const lockFiles = /^writer\.(lock|lock-journal|json)$/;

/** Only an empty folder, or one that has a backup of this log, is used. */
function checkUse({ disk, dir, mark }: LogFiles, id: string): void {
  const note = readBackupNote(disk, dir);
  if (note === undefined) {
    const others = disk.list(dir).filter((file) => !lockFiles.test(file) && file !== 'backup.json.tmp');
    if (others.length === 0) return;
    throw new BackupRefused(`${dir} is not empty and has no backup (${others[0]}); use an empty folder`);
  }
  const found = identityInFile(disk, dir)?.id ?? note.log;
  if (note.log !== id || found !== id) {
    throw new BackupRefused(`${dir} has a backup of another log (${found}); this log is ${id}`);
  }
  const watermark = Watermark.openForReading(disk, dir, mark);
  const wasOpened = watermark?.writer.isPresent ?? false;
  watermark?.close();
  if (!wasOpened) return;
  throw new BackupRefused(`a gateway has written into the backup in ${dir}; use an empty folder`);
}

/** A backup keeps what its log has lost. */
function checkLosses(source: LogFiles, target: LogFiles, position: number): void {
  const known = readLosses(target.disk, target.dir);
  for (const { positions } of readLosses(source.disk, source.dir).accepted) {
    for (const { first, last } of positions) {
      if (first > position || known.lostUntil(first) !== undefined) continue;
      throw new BackupRefused(
        `the log has lost positions ${first} to ${last}, which the backup in ${target.dir} still has; keep it, and ` +
          'use an empty folder',
      );
    }
  }
}
