import { DatabaseSync } from 'node:sqlite';
import { indexFileOf } from './index-file.ts';

/**
 * First and last position of each segment in the stream index of the log with that mark. Empty when there is no such
 * index, or it cannot be read: the index is derived, so that its absence is no damage.
 */
export function indexedSegments(dir: string, mark: number): ReadonlyMap<number, number> {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(indexFileOf(dir), { readOnly: true, timeout: 1_000 });
    const owner = database.prepare('pragma application_id').get()?.['application_id'];
    if (owner !== (mark | 0)) return new Map();
    const rows = database.prepare('select first, last from segments').all();
    return new Map(rows.map((row) => [Number(row['first']), Number(row['last'])]));
  } catch {
    return new Map();
  } finally {
    database?.close();
  }
}
