/**
 * The note in the folder of a backup: which log it has, where it ended when it was complete last, and its files at that
 * time. It ends with a hash of itself.
 */
import { createHash } from 'node:crypto';
import path from 'node:path';
import { z } from 'zod';
import { type Disk, isMissing, replaceFile } from '../disk.ts';
import { BackupRefused } from './backup-refused.ts';

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
