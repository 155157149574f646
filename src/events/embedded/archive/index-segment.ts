import type { DatabaseSync } from 'node:sqlite';
import { encodeFramePlaces } from '../frame-places.ts';
import type { SegmentStreams, StreamCategories } from '../segment-streams.ts';
import { openIndexFile, unusable } from './index-file.ts';
import type { Pace } from './pace.ts';

/** Number of rows written between two readings of the clock. */
const rowsPerLook = 32;

/**
 * Enters a closed segment in the index, all of it or nothing: in one transaction, and in the order of the index, so
 * that each of its pages is written once. Entering a segment again does no harm.
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
  const place = database.prepare(
    'insert or replace into places (stream, segment, last_revision, frames) values (?, ?, ?, ?)',
  );
  let rows = 0;
  for (const stream of [...streams.places.keys()].sort()) {
    const places = streams.places.get(stream);
    if (places === undefined) continue;
    place.run(stream, first, places.last, encodeFramePlaces(places.frames));
    if (++rows % rowsPerLook === 0) await pace();
  }
  const known = database.prepare('select greatest from categories where category = ?');
  const category = database.prepare('insert or replace into categories (category, greatest) values (?, ?)');
  for (const [name, { greatest }] of Object.entries(categories)) {
    // compared here and not in SQL, which orders some names otherwise
    if (greatest > String(known.get(name)?.['greatest'] ?? '')) category.run(name, greatest);
  }
  database.prepare('insert or replace into segments (first, last) values (?, ?)').run(first, last);
}
