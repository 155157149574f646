/**
 * The files of a backup with their sizes and hashes. Before a file of a complete backup is changed, its next state is
 * added to a file of changes, so that a backup that was interrupted can be checked: of each file, the listed state and
 * those in the changes are right.
 */
import { createHash } from 'node:crypto';
import path from 'node:path';
import { z } from 'zod';
import { type Disk, datasync, isMissing, replaceFile, syncDirectory, writeFully } from '../disk.ts';
import { identityFile } from '../identity.ts';
import { lossesFile } from '../losses.ts';
import type { LogFiles } from '../segment.ts';
import { Watermark, watermarkFile } from '../watermark.ts';
import { replicaFile } from '../writer-lock.ts';
import { type BackupNote, BackupRefused, type FileState, fileStateSchema } from './backup-note.ts';

const changesFile = 'backup.changes';
const smallFiles = [identityFile, lossesFile, replicaFile, watermarkFile];
const readBytes = 1024 * 1024;

const changeSchema = z.union([fileStateSchema, z.strictObject({ name: z.string(), removed: z.literal(true) })]);
type Change = z.infer<typeof changeSchema>;

/** Whether a restore reads the file. */
function isListed(name: string): boolean {
  return smallFiles.includes(name) || /^\d{16}\.(seg|zst|json)$/.test(name);
}

export class BackupFiles {
  readonly #disk: Disk;
  readonly #dir: string;
  /** What the files have that were not changed since they were listed or announced. */
  readonly #states = new Map<string, FileState>();
  readonly #isComplete: boolean;
  /** Undefined before the first change. */
  #changes: { readonly fd: number; end: number } | undefined;

  constructor(disk: Disk, dir: string, note: BackupNote | undefined) {
    this.#disk = disk;
    this.#dir = dir;
    this.#isComplete = note?.complete !== undefined;
    for (const state of note?.complete?.files ?? []) this.#states.set(state.name, state);
    // of a backup that was interrupted: which of the states a file has is not known
    for (const { name } of readChanges(disk, dir)) this.#states.delete(name);
  }

  /** The file is about to get this content, which is in `source`. */
  async announce(name: string, source: string | Buffer): Promise<void> {
    const hashed = typeof source === 'string' ? await hashOfFile(this.#disk, source) : hashOf(source);
    const state = { name, ...hashed };
    await this.#add(state);
    this.#states.set(name, state);
  }

  async replace(name: string, content: Buffer): Promise<void> {
    await this.announce(name, content);
    await replaceFile(this.#disk, path.join(this.#dir, name), content);
  }

  /** A missing file is no error. */
  async remove(name: string): Promise<void> {
    if (!this.#disk.list(this.#dir).includes(name)) return;
    await this.#add({ name, removed: true });
    this.#states.delete(name);
    await this.#disk.removeLater(path.join(this.#dir, name));
  }

  /** Whether the file has what is known of it. */
  async isAsKnown(name: string): Promise<boolean> {
    const known = this.#states.get(name);
    return known === undefined || isSame(known, await hashOfFile(this.#disk, path.join(this.#dir, name)));
  }

  /** The files that are there. Those of which nothing is known are read. */
  async list(): Promise<FileState[]> {
    const names = this.#disk.list(this.#dir).filter(isListed).toSorted();
    const states: FileState[] = [];
    for (const name of names) {
      const known = this.#states.get(name);
      states.push(known ?? { name, ...(await hashOfFile(this.#disk, path.join(this.#dir, name))) });
    }
    return states;
  }

  /** The note has the list. */
  async forgetChanges(): Promise<void> {
    this.close();
    await this.#disk.removeLater(path.join(this.#dir, changesFile));
    await syncDirectory(this.#disk, this.#dir);
  }

  close(): void {
    if (this.#changes !== undefined) this.#disk.close(this.#changes.fd);
    this.#changes = undefined;
  }

  /** Resolves when it is on disk. Nothing is noted before the first complete backup, which cannot be restored yet. */
  async #add(change: Change): Promise<void> {
    if (!this.#isComplete) return;
    this.#changes ??= await this.#openChanges();
    // begins with a line feed: the line before it may be torn
    const line = Buffer.from(`\n${JSON.stringify(change)}`);
    writeFully(this.#disk, this.#changes.fd, line, 0, line.length, this.#changes.end);
    this.#changes.end += line.length;
    await datasync(this.#disk, this.#changes.fd);
  }

  async #openChanges(): Promise<{ fd: number; end: number }> {
    const file = path.join(this.#dir, changesFile);
    const isThere = this.#disk.list(this.#dir).includes(changesFile);
    const fd = this.#disk.open(file, isThere ? 'write' : 'create');
    await syncDirectory(this.#disk, this.#dir);
    return { fd, end: this.#disk.size(fd) };
  }
}

export interface BadFile {
  readonly name: string;
  readonly reason: string;
}

/** The first file that is not as it was listed or announced; undefined when all are. @throws the signal's reason */
export async function firstBadFile(
  disk: Disk,
  dir: string,
  listed: readonly FileState[],
  signal: AbortSignal | undefined,
): Promise<BadFile | undefined> {
  const changes = readChanges(disk, dir);
  const there = disk.list(dir).filter(isListed);
  const removed = new Set(changes.filter((change) => 'removed' in change).map(({ name }) => name));
  const states = [...listed, ...changes.filter((change) => 'sha256' in change)];
  const names = new Set([...listed.map(({ name }) => name), ...there]);
  for (const name of [...names].toSorted()) {
    signal?.throwIfAborted();
    if (!there.includes(name)) {
      if (removed.has(name)) continue;
      return { name, reason: 'it is missing' };
    }
    const expected = states.filter((state) => state.name === name);
    if (expected.length === 0) return { name, reason: 'it is not a file of the backup' };
    const found = await hashOfFile(disk, path.join(dir, name));
    if (expected.some((state) => isSame(state, found))) continue;
    return { name, reason: `it has ${found.bytes} bytes with SHA-256 ${found.sha256}, and other ones were backed up` };
  }
  return undefined;
}

type Hashed = Pick<FileState, 'bytes' | 'sha256'>;

function isSame(one: Hashed, other: Hashed): boolean {
  return one.bytes === other.bytes && one.sha256 === other.sha256;
}

function hashOf(content: Buffer): Hashed {
  return { bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') };
}

async function hashOfFile(disk: Disk, file: string): Promise<Hashed> {
  const fd = disk.open(file, 'read');
  try {
    const hash = createHash('sha256');
    const buffer = Buffer.allocUnsafeSlow(Math.min(readBytes, Math.max(1, disk.size(fd))));
    for (let bytes = 0; ; ) {
      const read = await disk.readLater(fd, buffer, 0, buffer.length, bytes);
      if (read === 0) return { bytes, sha256: hash.digest('hex') };
      hash.update(buffer.subarray(0, read));
      bytes += read;
    }
  } finally {
    disk.close(fd);
  }
}

/** A line that cannot be read was torn, and its change not made; or it is damaged, and its file then is none of the listed. */
function readChanges(disk: Disk, dir: string): Change[] {
  let text: string;
  try {
    text = disk.readFile(path.join(dir, changesFile)).toString();
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
  return text.split('\n').flatMap((line) => {
    try {
      return [changeSchema.parse(JSON.parse(line))];
    } catch {
      return [];
    }
  });
}

// The small files of a copied log: what makes a folder with segments a whole log.

/** A replica's note of how far it has read its engine. It must not be ahead of the events that are copied with it. */
export interface ReplicaNote {
  readonly content: Buffer;
  readonly position: number;
}

export function readReplicaNote({ disk, dir }: Pick<LogFiles, 'disk' | 'dir'>): ReplicaNote | undefined {
  const content = contentOf({ disk, dir }, replicaFile);
  if (content === undefined) return undefined;
  const position = positionIn(content);
  if (position === undefined) throw new BackupRefused(`${path.join(dir, replicaFile)} has no position`);
  return { content, position };
}

function positionIn(content: Buffer): number | undefined {
  try {
    const { position }: { position?: unknown } = JSON.parse(content.toString());
    return typeof position === 'number' ? position : undefined;
  } catch {
    return undefined;
  }
}

/** Before the segments: without the list, a folder with later segments would have a gap. */
export async function copyLosses(source: LogFiles, files: BackupFiles): Promise<void> {
  const content = contentOf(source, lossesFile);
  if (content !== undefined) await files.replace(lossesFile, content);
}

/** After the segments. With the identity, as the last file, the folder is a whole log for the first time. */
export async function finishFolder(
  source: LogFiles,
  { disk, dir, mark }: LogFiles,
  files: BackupFiles,
  last: number,
  replica: ReplicaNote | undefined,
): Promise<void> {
  await files.replace(watermarkFile, Watermark.contentOf(mark, last));
  if (replica === undefined) await files.remove(replicaFile);
  else await files.replace(replicaFile, replica.content);
  const identity = contentOf(source, identityFile);
  if (identity === undefined) throw new BackupRefused(`${path.join(source.dir, identityFile)} is missing`);
  await files.replace(identityFile, identity);
  await syncDirectory(disk, dir);
}

function contentOf({ disk, dir }: Pick<LogFiles, 'disk' | 'dir'>, file: string): Buffer | undefined {
  try {
    return disk.readFile(path.join(dir, file));
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}
