/** Looks streams up in the index, and verifies what it finds. */
import { existsSync } from 'node:fs';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { StreamName } from '../../event.ts';
import { decodeFramePlaces } from '../frame.ts';
import {
  compareStreams,
  type IndexedPlace,
  IndexUnusable,
  indexedPlaceOf,
  indexFileOf,
  openIndexFile,
  verifyIndexedPlace,
  verifyTables,
} from './index-file.ts';

export interface IndexedPart {
  /** Position of the segment's first event. */
  readonly segment: number;
  /** Revision of the stream's last event in it. */
  readonly last: number;
  readonly frames: readonly number[];
}

/** Each method throws IndexUnusable when what it reads was changed, and what SQLite throws. */
export class IndexReader {
  readonly #database: DatabaseSync;
  readonly #last: StatementSync;
  readonly #parts: StatementSync;

  /** The reader owns the connection from now on. */
  constructor(database: DatabaseSync) {
    this.#database = database;
    const places = 'select stream, segment, last_revision, frames, crc32 from places where stream';
    const next = `select * from (${places} > ?1 order by stream, segment limit 1)`;
    const last = (is: '<' | '<=') => `select * from (${places} ${is} ?1 order by stream desc, segment desc limit 1)`;
    // Each is one statement: a writer may commit between two.
    this.#last = database.prepare(`${last('<=')} union all ${next} order by stream, segment`);
    this.#parts = database.prepare(`${last('<')} union all ${places} = ?1 union all ${next} order by stream, segment`);
  }

  /** Undefined when there is no index. @throws IndexUnusable; SQLite's error when the disk is at fault */
  static open(dir: string, mark: number): IndexReader | undefined {
    return existsSync(indexFileOf(dir)) ? new IndexReader(openIndexFile(dir, mark)) : undefined;
  }

  /** First and last position of each segment that is in the index. */
  segments(): Map<number, number> {
    verifyTables(this.#database);
    const rows = this.#database.prepare('select first, last from segments').all();
    return new Map(rows.map((row) => [Number(row['first']), Number(row['last'])]));
  }

  /** The greatest stream name of each category. */
  greatest(): Map<string, string> {
    verifyTables(this.#database);
    const rows = this.#database.prepare('select category, greatest from categories').all();
    return new Map(rows.map((row) => [String(row['category']), String(row['greatest'])]));
  }

  /** The last indexed segment that holds events of the stream, and the revision of its last event there. */
  last(stream: StreamName): { readonly segment: number; readonly last: number } | undefined {
    return placesAround(stream, this.#last)[0];
  }

  /** Where the stream's events lie, ascending. */
  parts(stream: StreamName): IndexedPart[] {
    return placesAround(stream, this.#parts).map(({ segment, last, frames }) => ({
      ...{ segment, last },
      frames: decodeFramePlaces(frames),
    }));
  }

  close(): void {
    this.#database.close();
  }
}

/**
 * The places of the stream among those that the statement finds: one in front of it or its last one, its own, and the one
 * behind it. Their checksums show that there is no other between them.
 */
function placesAround(stream: StreamName, statement: StatementSync): IndexedPlace[] {
  const places = statement.all(stream).map(indexedPlaceOf);
  const next = places.findIndex((place) => compareStreams(place.stream, stream) > 0);
  const upTo = next === -1 ? places : places.slice(0, next);
  // `firstPlace` is in front of every stream
  if (upTo.length === 0) throw new IndexUnusable('places are missing');
  for (const [at, place] of upTo.entries()) verifyIndexedPlace(place, places[at + 1]);
  return upTo.filter((place) => place.stream === stream);
}
