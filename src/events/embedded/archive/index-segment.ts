import type { DatabaseSync } from 'node:sqlite';
import { encodeFramePlaces } from '../frame-places.ts';
import type { SegmentStreams, StreamCategories } from '../segment-streams.ts';
import {
  compareStreams,
  type IndexedPlace,
  IndexUnusable,
  indexedPlaceOf,
  insertPlace,
  noteTables,
  openIndexFile,
  rowOf,
  unusable,
  verifyIndexedPlace,
  verifyTables,
} from './index-file.ts';
import type { Pace } from './pace.ts';

/** Number of rows written between two readings of the clock. */
const rowsPerLook = 32;

/**
 * Enters a closed segment in the index, all of it or nothing: in one transaction, and in the order of the index, so
 * that each of its pages is written once. Checksums that a change made wrong are not made right. Entering a segment again does no harm.
 * @throws IndexUnusable; SQLite's error when the disk is at fault; what `pace` throws
 */
export async function indexSegment(
  log: { readonly dir: string; readonly mark: number },
  segment: { readonly first: number; readonly last: number },
  streams: SegmentStreams,
  categories: StreamCategories,
  pace: Pace,
): Promise<void> {
  const database = openIndexFile(log.dir, log.mark);
  try {
    database.exec('begin immediate');
    await insert(database, segment, streams, categories, pace);
    database.exec('commit');
  } catch (error) {
    throw unusable(error);
  } finally {
    // rolls back what has not been committed
    database.close();
  }
}

async function insert(
  database: DatabaseSync,
  { first, last }: { readonly first: number; readonly last: number },
  streams: SegmentStreams,
  categories: StreamCategories,
  pace: Pace,
): Promise<void> {
  verifyTables(database);
  const insertion = database.prepare(insertPlace);
  const columns = 'stream, segment, last_revision, frames, crc32';
  const before = database.prepare(
    `select ${columns} from places where (stream, segment) < (?, ?) order by stream desc, segment desc limit 1`,
  );
  const after = database.prepare(
    `select ${columns} from places where (stream, segment) > (?, ?) order by stream, segment limit 1`,
  );
  const following = ({ stream, segment }: IndexedPlace) => {
    const row = after.get(stream, segment);
    return row === undefined ? undefined : indexedPlaceOf(row);
  };
  /** The place that is to be written when it is known which one follows it, and the next one in the index. */
  let held: IndexedPlace | undefined;
  let next: IndexedPlace | undefined;
  let rows = 0;
  for (const [stream, { last: lastRevision, frames }] of [...streams.places].sort(byName)) {
    const place = { stream, segment: first, last: lastRevision, frames: encodeFramePlaces(frames) };
    if (held !== undefined && compare(held, place) < 0 && (next === undefined || compare(place, next) < 0)) {
      insertion.run(...rowOf(held, place));
    } else {
      if (held !== undefined) insertion.run(...rowOf(held, next));
      const row = before.get(stream, first);
      if (row === undefined) throw new IndexUnusable('places are missing');
      held = indexedPlaceOf(row);
      next = following(held);
      verifyIndexedPlace(held, next);
      if (next !== undefined && compare(next, place) === 0) next = following(next);
      insertion.run(...rowOf(held, place));
    }
    held = place;
    if (++rows % rowsPerLook === 0) await pace();
  }
  if (held !== undefined) insertion.run(...rowOf(held, next));
  const known = database.prepare('select greatest from categories where category = ?');
  const category = database.prepare('insert or replace into categories (category, greatest) values (?, ?)');
  for (const [name, { greatest }] of Object.entries(categories)) {
    // compared here and not in SQL, which orders some names otherwise
    if (greatest > String(known.get(name)?.['greatest'] ?? '')) category.run(name, greatest);
  }
  database.prepare('insert or replace into segments (first, last) values (?, ?)').run(first, last);
  noteTables(database);
}

function byName([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1;
}

function compare(a: IndexedPlace, b: IndexedPlace): number {
  return compareStreams(a.stream, b.stream) || a.segment - b.segment;
}
