/**
 * A copy in files: a log of its own with the same events. While it is unfinished, its folder has a file because of which
 * no gateway opens it.
 */
import path from 'node:path';
import { readBackupNote } from '../embedded/backup/backup-note.ts';
import { nodeDisk as disk, isMissing, replaceFile, syncDirectory } from '../embedded/disk.ts';
import { EmbeddedLog } from '../embedded/embedded-log.ts';
import { copyFile } from '../embedded/folder-use.ts';
import { identityInFile } from '../embedded/identity.ts';
import type { InOrderWriter } from '../embedded/in-order-writer.ts';
import { makeDirectory } from '../embedded/make-directory.ts';
import { ReadOnlyLog } from '../embedded/read-only-log.ts';
import { replicaFile } from '../embedded/replica-file.ts';
import { hasWriter, lockForWriting, type WriterLock } from '../embedded/writer-lock.ts';
import { parsePosition } from '../sequence-position.ts';
import type { RecordGroup } from './append-groups.ts';
import { CopyRefused } from './copy-refused.ts';
import type { CopyTarget } from './copy-target.ts';
import type { RecordSource } from './stored-records.ts';

const noRecords: RecordSource = { disk, dir: '', mark: 0, segmentOf: () => undefined, endOf: () => 0 };

/** @throws CopyRefused, LogCorrupted, LogIncomplete, LogLocked, what the file system throws */
export async function openFolderTarget(folder: string, signal: AbortSignal): Promise<CopyTarget> {
  const isUnfinished = isCopyBegun(folder);
  if (isUnfinished) {
    // removes what an interrupted write has left
    const log = await EmbeddedLog.open(folder, { durability: 'relaxed', replica: true, copying: true });
    await log.close();
  }
  const records = identityOf(folder) === undefined ? undefined : await ReadOnlyLog.open(folder);
  return new FolderTarget(folder, records, isUnfinished, signal);
}

/** @returns whether an unfinished copy is there. @throws CopyRefused when there is something else than a log in files */
function isCopyBegun(folder: string): boolean {
  const files = filesIn(folder);
  if (files.includes(replicaFile)) throw new CopyRefused(`${folder} is a replica of a log on an engine`);
  if (readBackupNote(disk, folder) !== undefined) {
    throw new CopyRefused(`${folder} is a backup; "chancery log restore" makes a log of it`);
  }
  if (files.includes(copyFile)) return true;
  if (files.length > 0 && identityOf(folder) === undefined) {
    throw new CopyRefused(`${folder} is not empty and has no log; use an empty folder`);
  }
  if (files.length > 0 && hasWriter(folder))
    throw new CopyRefused(`a gateway writes the log in ${folder}; stop it first`);
  return false;
}

function filesIn(folder: string): string[] {
  try {
    return disk.list(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

function identityOf(folder: string) {
  return filesIn(folder).length === 0 ? undefined : identityInFile(disk, folder);
}

interface Writing {
  readonly log: EmbeddedLog;
  readonly writer: InOrderWriter;
}

class FolderTarget implements CopyTarget {
  readonly last: number;
  readonly #folder: string;
  readonly #signal: AbortSignal;
  #records: ReadOnlyLog | undefined;
  #isUnfinished: boolean;
  #writing: Writing | undefined;
  #lock: WriterLock | undefined;

  constructor(folder: string, records: ReadOnlyLog | undefined, isUnfinished: boolean, signal: AbortSignal) {
    this.#folder = folder;
    this.#records = records;
    this.last = records?.visible() ?? 0;
    this.#isUnfinished = isUnfinished;
    this.#signal = signal;
  }

  get records(): RecordSource {
    return this.#records ?? noRecords;
  }

  async append(group: RecordGroup): Promise<void> {
    this.#writing ??= await this.#begin();
    const { log, writer } = this.#writing;
    await writer.prepare(group.writes, this.#signal);
    const position = writer.place(group)?.position;
    if (position === undefined || parsePosition(position) !== group.last) {
      throw new CopyRefused(`position ${group.last} of the source would be ${position} in ${this.#folder}`);
    }
    if (writer.write() < group.last) {
      throw new Error(`the disk refused a part of the copy: ${log.status().reason ?? 'for an unknown reason'}`);
    }
  }

  async #begin(): Promise<Writing> {
    await makeDirectory(disk, this.#folder);
    const note = { format: 'chancery-copy', version: 1, begun: new Date().toISOString() };
    await replaceFile(disk, path.join(this.#folder, copyFile), Buffer.from(`${JSON.stringify(note)}\n`));
    this.#isUnfinished = true;
    const log = await EmbeddedLog.open(this.#folder, { durability: 'relaxed', replica: true, copying: true });
    if (log.visible() === this.last) return { log, writer: log.inOrder() };
    await log.close();
    throw new CopyRefused(`something else has written into ${this.#folder}`);
  }

  async finish(): Promise<number> {
    if (this.#writing !== undefined) {
      const { log } = this.#writing;
      await log.settled();
      await log.close();
      this.#writing = undefined;
    }
    // no other copy may go on with it while it is read back
    this.#lock = lockForWriting(this.#folder);
    await this.#records?.close();
    this.#records = await ReadOnlyLog.open(this.#folder);
    return this.#records.visible();
  }

  async complete(): Promise<void> {
    if (!this.#isUnfinished) return;
    await disk.removeLater(path.join(this.#folder, copyFile));
    await syncDirectory(disk, this.#folder);
  }

  async close(): Promise<void> {
    await this.#writing?.log.close();
    this.#lock?.release();
    await this.#records?.close();
  }
}
