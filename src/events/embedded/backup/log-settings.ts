/** The small files of a copied log: what makes a folder with segments a whole log. */
import path from 'node:path';
import { isMissing, syncDirectory } from '../disk.ts';
import { identityFile } from '../identity.ts';
import { lossesFile } from '../losses.ts';
import type { LogFiles } from '../segment.ts';
import { Watermark, watermarkFile } from '../watermark.ts';
import { replicaFile } from '../writer-lock.ts';
import type { BackupFiles } from './backup-files.ts';
import { BackupRefused } from './backup-refused.ts';

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
