/**
 * The note in the folder of a backup: which log it has, where it ended when it was complete last, and its files at that
 * time. It ends with a hash of itself.
 */
import { createHash } from 'node:crypto';
import { realpathSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { indexedSegments } from '../archive/index-file.ts';
import { type Disk, isMissing, replaceFile } from '../disk.ts';
import { LogIncomplete } from '../log-errors.ts';
import { ReadOnlyLog } from '../read-only-log.ts';
import { rewrittenIn } from '../segment.ts';
import { Watermark, watermarkFile } from '../watermark.ts';

/** A backup or a restore that cannot be done with these folders. The message says why; nothing was lost. */
export class BackupRefused extends Error {
  readonly code = 'backup_refused';
  constructor(reason: string, cause?: unknown) {
    super(reason, { cause });
  }
}

export const backupNoteFile = 'backup.json';

const count = z.number().int().nonnegative();
const format = 'chancery-backup';
const version = 2;

/** A file of a backup. */
export const fileStateSchema = z.strictObject({ name: z.string(), bytes: count, sha256: z.string() });
export type FileState = z.infer<typeof fileStateSchema>;

const noteSchema = z.strictObject({
  /** Id of the log. */
  log: z.string(),
  /** The latest complete backup; absent before the first one. */
  complete: z
    .strictObject({
      /** Position of its last event. */
      position: count,
      at: z.string(),
      /** Every file that a restore reads. */
      files: z.array(fileStateSchema),
    })
    .optional(),
});

export type BackupNote = z.infer<typeof noteSchema>;

/** Undefined when there is none. @throws BackupRefused when it cannot be read */
export function readBackupNote(disk: Disk, dir: string): BackupNote | undefined {
  const file = path.join(dir, backupNoteFile);
  let text: string;
  try {
    text = disk.readFile(file).toString();
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  const note = noteIn(text, file);
  if (textOf(note) !== text) throw new BackupRefused(`the backup in ${dir} is damaged: ${backupNoteFile} was changed`);
  return note;
}

function noteIn(text: string, file: string): BackupNote {
  let found: { format?: unknown; version?: unknown; note?: unknown };
  try {
    found = JSON.parse(text);
    if (found.format === format && found.version === version) return noteSchema.parse(found.note);
  } catch (error) {
    throw new BackupRefused(`${file} cannot be read`, error);
  }
  const isEarlier = found.format === format && found.version === 1;
  throw new BackupRefused(
    isEarlier ? `${file} is of an earlier version: back up into an empty folder` : `${file} is of an unknown format`,
  );
}

export async function writeBackupNote(disk: Disk, dir: string, note: BackupNote): Promise<void> {
  await replaceFile(disk, path.join(dir, backupNoteFile), Buffer.from(textOf(noteSchema.parse(note))));
}

function textOf(note: BackupNote): string {
  const sha256 = createHash('sha256').update(JSON.stringify(note)).digest('hex');
  return `${JSON.stringify({ format, version, note, sha256 })}\n`;
}

/** Whether one folder is the other one, or in it. Symbolic links are followed, also above a folder that does not exist. */
export function isFolderWithin(folder: string, other: string): boolean {
  const [inner, outer] = [realPath(path.resolve(folder)), realPath(path.resolve(other))];
  return inner === outer || inner.startsWith(outer.endsWith(path.sep) ? outer : outer + path.sep);
}

function realPath(folder: string): string {
  try {
    return realpathSync(folder);
  } catch {
    const above = path.dirname(folder);
    return above === folder ? folder : path.join(realPath(above), path.basename(folder));
  }
}

/**
 * Position of the last event on disk. Without a writer every whole batch counts, like for the next writer. Frames up to
 * there are final: they are only moved when their segment is compressed.
 * @throws LogIncomplete, LogCorrupted
 */
export async function durableEnd(disk: Disk, dir: string, mark: number): Promise<number> {
  // before the note: what is in the index was on disk when it was entered
  const indexed = Math.max(0, ...indexedSegments(dir, mark).values());
  const noted = notedEnd(disk, dir, mark);
  if (noted === undefined) throw new LogIncomplete(dir, [{ files: [watermarkFile] }]);
  // frames behind the note move when the next writer finishes an interrupted repair
  const end = rewrittenIn(disk.list(dir)).length > 0 ? noted : Math.max(noted, await visibleEnd(disk, dir));
  if (indexed > end) throw new LogIncomplete(dir, [{ positions: { first: end + 1, last: indexed }, files: [] }]);
  return end;
}

function notedEnd(disk: Disk, dir: string, mark: number): number | undefined {
  const watermark = Watermark.openForReading(disk, dir, mark);
  const position = watermark?.read();
  watermark?.close();
  return position;
}

async function visibleEnd(disk: Disk, dir: string): Promise<number> {
  const log = await ReadOnlyLog.open(dir, { disk });
  const position = log.visible();
  await log.close();
  return position;
}
