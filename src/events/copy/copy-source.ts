/** The log that is copied: a log in files, or the replica of a log on an engine after it has read everything. */

import { durableEnd } from '../embedded/backup/durable-end.ts';
import { nodeDisk } from '../embedded/disk.ts';
import { copyFile } from '../embedded/folder-use.ts';
import { readLosses } from '../embedded/losses.ts';
import { ReadOnlyLog } from '../embedded/read-only-log.ts';
import type { CopyOptions, CopyPlace } from './copy-place.ts';
import { CopyRefused } from './copy-refused.ts';
import { openEngineReplica } from './engine-replica.ts';
import type { RecordSource } from './stored-records.ts';

export interface CopySource {
  readonly records: RecordSource;
  /** Position of the last event that is copied: those that are appended later are not. */
  readonly last: number;
  close(): Promise<void>;
}

/** @throws CopyRefused, LogIncomplete, LogCorrupted, and as `ReplicatedLog.open` */
export async function openCopySource(place: CopyPlace, options: CopyOptions): Promise<CopySource> {
  if ('folder' in place) return openFolder(place.folder, async () => {});
  const { log, folder, remove } = await openEngineReplica(place, 'reading the source', options);
  await log.close();
  return openFolder(folder, remove);
}

async function openFolder(folder: string, remove: () => Promise<void>): Promise<CopySource> {
  let records: ReadOnlyLog | undefined;
  const close = async () => {
    await records?.close();
    await remove();
  };
  try {
    records = await ReadOnlyLog.open(folder);
    if (nodeDisk.list(folder).includes(copyFile)) {
      throw new CopyRefused(`${folder} is an unfinished copy; complete it first`);
    }
    if (readLosses(nodeDisk, folder).any) {
      throw new CopyRefused(`the log in ${folder} has lost positions, so a copy could not have the same positions`);
    }
    const last = await durableEnd(nodeDisk, folder, records.mark);
    if (last === 0) throw new CopyRefused('the source has no events');
    return { records, last, close };
  } catch (error) {
    await close();
    throw error;
  }
}
