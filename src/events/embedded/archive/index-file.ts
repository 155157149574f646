/**
 * The file of the stream index: which streams have events in which closed segments, and where. SQLite, beside the
 * segments and derived from them: it may be deleted whenever the log is closed.
 */

import { existsSync, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { DatabaseSync, type SQLOutputValue, type StatementSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { crc32 } from 'node:zlib';
import type { StreamName } from '../../event.ts';
import { decodeFramePlaces } from '../frame.ts';

/**
 * Last revisions that were looked up in the segments whose streams are not in memory. They hold until another segment leaves
 * the memory. So a stream that is the condition of every append, such as that of a lease, is looked up once and not each time.
 */
const maxStreams = 1_000;

export class LookedUpRevisions {
  #known = new Map<StreamName, number>();

  /** -1 when the stream has no event there; undefined when it was not looked up. */
  get(stream: StreamName): number | undefined {
    return this.#known.get(stream);
  }

  /**
   * To be called when a look-up begins.
   * @returns keeps what it has found, unless a segment has left the memory since
   */
  begin(): (found: ReadonlyMap<StreamName, number>) => void {
    const known = this.#known;
    return (found) => {
      if (known.size + found.size > maxStreams) known.clear();
      for (const [stream, last] of found) known.set(stream, last);
    };
  }

  /** A segment leaves the memory, or segments were removed. */
  forget(): void {
    this.#known = new Map();
  }
}

/** One read of the stream index by something else than the log's writer, with or without a running writer. */
export interface IndexSnapshot {
  /** First and last position of each segment in the index. */
  readonly segments: ReadonlyMap<number, number>;
  /** Where the stream's events in these segments lie, ascending. */
  readonly parts: readonly IndexedPart[];
}

const attempts = 3;

/**
 * Changes no file. Undefined when there is no index, or none that can be used; callers then read the segments.
 * @throws nothing that only concerns the index
 */
export function lookIntoIndex(dir: string, mark: number, stream: StreamName): IndexSnapshot | undefined {
  return readIndex(dir, mark, (index) => ({ segments: index.segments(), parts: index.parts(stream) }));
}

/** As `lookIntoIndex`. @param read may be called more than once; all its reads see the same state */
export function readIndex<Result>(dir: string, mark: number, read: (index: IndexReader) => Result): Result | undefined {
  const file = indexFileOf(dir);
  for (let attempt = 0; attempt < attempts; attempt++) {
    const before = stateOf(file);
    if (before === undefined) return undefined;
    try {
      const result = readAt(before.isOpen ? file : immutable(file), mark, read);
      // a file that is read as immutable is not locked: the result is valid only if the file did not change meanwhile
      if (before.isOpen || before.version === stateOf(file)?.version) return result;
    } catch (error) {
      if (!(error instanceof IndexUnusable || isFromSqlite(error))) throw error;
    }
  }
  return undefined;
}

/** While a connection writes there is a journal, and SQLite's locks are needed; else they would have to be created. */
function stateOf(file: string): { isOpen: boolean; version: string } | undefined {
  const stat = statSync(file, { bigint: true, throwIfNoEntry: false });
  if (stat === undefined) return undefined;
  const isOpen = existsSync(`${file}-wal`);
  return { isOpen, version: `${stat.ino} ${stat.size} ${stat.mtimeNs} ${isOpen}` };
}

function immutable(file: string): URL {
  const url = pathToFileURL(file);
  url.searchParams.set('immutable', '1');
  return url;
}

function readAt<Result>(
  location: string | URL,
  mark: number,
  read: (index: IndexReader) => Result,
): Result | undefined {
  const database = new DatabaseSync(location, { readOnly: true, timeout: busyTimeoutMs });
  try {
    database.exec('begin');
    return isIndexOf(database, mark) ? read(new IndexReader(database)) : undefined;
  } finally {
    database.close();
  }
}

function isFromSqlite(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error;
}

/** Looks streams up in the index, and verifies what it finds. */
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

/**
 * First and last position of each segment in the stream index of the log with that mark. Empty when there is no such
 * index, or it cannot be read: the index is derived, so that its absence is no damage. Changes no file.
 */
export function indexedSegments(dir: string, mark: number): ReadonlyMap<number, number> {
  return readIndex(dir, mark, (index) => index.segments()) ?? new Map();
}
