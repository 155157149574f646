/**
 * The file of the stream index: which streams have events in which closed segments, and where. SQLite, beside the
 * segments and derived from them: it may be deleted whenever the log is closed.
 */
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { DatabaseSync, type SQLOutputValue } from 'node:sqlite';
import { crc32 } from 'node:zlib';

const version = 2;
/** A connection that opens or closes holds a lock for an instant. */
export const busyTimeoutMs = 1_000;
const suffixes = ['', '-wal', '-shm', '-journal'];

const schema = `
  create table segments (first integer primary key, last integer not null);
  create table places (
    stream text not null, segment integer not null, last_revision integer not null, frames blob not null,
    crc32 integer not null, primary key (stream, segment)
  ) without rowid;
  create table categories (category text primary key, greatest text not null) without rowid;
  create table checksums (crc32 integer not null);
`;

/** Where one stream has events in one segment. */
export interface IndexedPlace {
  readonly stream: string;
  /** Position of the segment's first event. */
  readonly segment: number;
  /** Revision of the stream's last event in it. */
  readonly last: number;
  /** See `encodeFramePlaces`. */
  readonly frames: Uint8Array;
  readonly crc32?: number;
}

/** Sorts before every stream, so that each place has one in front of it. */
const firstPlace: IndexedPlace = { stream: '', segment: 0, last: -1, frames: new Uint8Array() };

export const insertPlace =
  'insert or replace into places (stream, segment, last_revision, frames, crc32) values (?, ?, ?, ?, ?)';

export function rowOf(
  place: IndexedPlace,
  next: IndexedPlace | undefined,
): [string, number, number, Uint8Array, number] {
  const { stream, segment, last, frames } = place;
  return [stream, segment, last, frames, checksumOfPlace(place, next)];
}

/** @throws IndexUnusable */
export function indexedPlaceOf(row: Record<string, SQLOutputValue>): IndexedPlace {
  const { frames } = row;
  if (!(frames instanceof Uint8Array)) throw new IndexUnusable('it lacks frame positions');
  return {
    ...{ stream: String(row['stream']), segment: Number(row['segment']), last: Number(row['last_revision']) },
    ...{ frames, crc32: Number(row['crc32']) },
  };
}

/**
 * Of a place and of the key that follows it: when a place is missing, the checksum of the one in front of it is wrong. So two
 * places that follow each other also show that there is none between them.
 */
function checksumOfPlace({ stream, segment, last, frames }: IndexedPlace, next: IndexedPlace | undefined): number {
  return crc32(frames, crc32(`${stream}\n${segment} ${last}\n${next?.stream}\n${next?.segment}`));
}

/** @throws IndexUnusable when the place was changed, or another one follows it */
export function verifyIndexedPlace(place: IndexedPlace, next: IndexedPlace | undefined): void {
  if (place.crc32 !== checksumOfPlace(place, next)) throw new IndexUnusable('its places were changed');
}

/** The order of SQLite, which is that of code points. */
export function compareStreams(a: string, b: string): number {
  if (surrogates.test(a) || surrogates.test(b)) return Buffer.compare(Buffer.from(a), Buffer.from(b));
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Two names in which such a unit is are in another order by their units. */
const surrogates = /[\ud800-\udfff]/;

/** Of all rows of the small tables. */
function checksumOfTables(database: DatabaseSync): number {
  const segments = database.prepare('select first, last from segments order by first').all();
  const categories = database.prepare('select category, greatest from categories order by category').all();
  return crc32(JSON.stringify([segments, categories]));
}

/** To be called when the small tables have been changed. */
export function noteTables(database: DatabaseSync): void {
  database.exec('delete from checksums');
  database.prepare('insert into checksums (crc32) values (?)').run(checksumOfTables(database));
}

/** @throws IndexUnusable when a segment or a category was changed; what SQLite throws */
export function verifyTables(database: DatabaseSync): void {
  const [noted] = database.prepare('select crc32 from checksums').all();
  if (noted?.['crc32'] !== checksumOfTables(database))
    throw new IndexUnusable('its segments or categories were changed');
}

/** The file holds no index, or that of another log or version: a new one must be made. */
export class IndexUnusable extends Error {
  constructor(reason: string, cause?: unknown) {
    super(`the stream index cannot be used: ${reason}`, { cause });
  }
}

export function indexFileOf(dir: string): string {
  return path.join(dir, 'index.db');
}

/** Whether it is the index of the log with that mark, in this version. */
export function isIndexOf(database: DatabaseSync, mark: number): boolean {
  const found = database.prepare('pragma user_version').get()?.['user_version'];
  const owner = database.prepare('pragma application_id').get()?.['application_id'];
  return found === version && owner === (mark | 0);
}

/** Opens the index, or creates an empty one. @throws IndexUnusable; SQLite's error when the disk is at fault */
export function openIndexFile(dir: string, mark: number): DatabaseSync {
  const database = new DatabaseSync(indexFileOf(dir), { timeout: busyTimeoutMs });
  try {
    database.exec('pragma journal_mode = wal; pragma synchronous = normal; pragma cache_size = -4096');
    if (!isIndexOf(database, mark)) {
      const found = database.prepare('pragma user_version').get()?.['user_version'];
      if (found !== 0) throw new IndexUnusable('it belongs to another log or another version');
      database.exec(`begin; ${schema} pragma application_id = ${mark | 0}; pragma user_version = ${version}`);
      noteTables(database);
      database.prepare(insertPlace).run(...rowOf(firstPlace, undefined));
      database.exec('commit');
    }
    return database;
  } catch (error) {
    database.close();
    throw unusable(error);
  }
}

/** Removes the index. No connection to it may be open in this process. */
export async function removeIndexFile(dir: string): Promise<void> {
  for (const suffix of suffixes) await rm(indexFileOf(dir) + suffix, { force: true });
}

/** SQLite's codes for perm, nomem, busy, readonly, ioerr, full and cantopen: they do not depend on the file content. */
const passingCodes = new Set([3, 5, 7, 8, 10, 13, 14]);

/** IndexUnusable in the place of SQLite's error, unless that is about the disk or the moment. */
export function unusable(error: unknown): unknown {
  if (!(error instanceof Error) || !('errcode' in error)) return error;
  return passingCodes.has(Number(error.errcode) & 0xff) ? error : new IndexUnusable(error.message, error);
}
