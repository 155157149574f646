/**
 * Which streams have events in which closed segments, and where: a SQLite file beside the segments, derived from them.
 * It may be deleted at any time the log is closed, and comes back.
 */
import { existsSync, rmSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { categoryOf, type StreamName } from '../event.ts';
import { decodeFramePlaces, encodeFramePlaces } from './frame-places.ts';
import type { SegmentStreams } from './segment-streams.ts';

const version = 1;
/** What is written before other work gets a turn, about a millisecond of it: rows, and in them places of frames. */
const workPerTurn = 200;
const placesPerWork = 50;

const schema = `
  create table segments (first integer primary key, last integer not null);
  create table places (
    stream text not null, segment integer not null, last_revision integer not null, frames blob not null,
    primary key (stream, segment)
  ) without rowid;
  create table categories (category text primary key, greatest text not null) without rowid;
`;

export interface IndexedPart {
  /** Position of the segment's first event. */
  readonly segment: number;
  readonly last: number;
  readonly frames: readonly number[];
}

interface OpenIndex {
  readonly database: DatabaseSync;
  readonly lastRevision: StatementSync;
  readonly parts: StatementSync;
}

export class StreamIndex {
  readonly #file: string;
  readonly #mark: number;
  /** Undefined until there is something to index: most small logs never close a segment. */
  #open: OpenIndex | undefined;
  /** The greatest stream name of each category: most new streams are named after the time, and so are greater. */
  readonly #greatest = new Map<string, string>();

  /** Opens the index if there is one; a file that cannot be read is removed. */
  constructor(dir: string, mark: number) {
    this.#file = path.join(dir, 'index.db');
    this.#mark = mark;
    if (!existsSync(this.#file)) return;
    try {
      this.#open = this.#openFile();
    } catch (error) {
      if (isOfTheDisk(error)) throw error;
      this.#removeFiles();
    }
  }

  #openFile(): OpenIndex {
    const database = new DatabaseSync(this.#file);
    try {
      database.exec('pragma journal_mode = wal; pragma synchronous = normal; pragma cache_size = -4096');
      const found = database.prepare('pragma user_version').get()?.['user_version'];
      const owner = database.prepare('pragma application_id').get()?.['application_id'];
      if (found !== version || owner !== (this.#mark | 0)) {
        if (found !== 0) throw new Error('the index is of another log or another version');
        database.exec(`begin; ${schema} pragma application_id = ${this.#mark | 0}; pragma user_version = ${version}`);
        database.exec('commit');
      }
      this.#greatest.clear();
      for (const row of database.prepare('select category, greatest from categories').all()) {
        this.#greatest.set(String(row['category']), String(row['greatest']));
      }
      return {
        database,
        lastRevision: database.prepare(
          'select last_revision from places where stream = ? order by segment desc limit 1',
        ),
        parts: database.prepare('select segment, last_revision, frames from places where stream = ? order by segment'),
      };
    } catch (error) {
      database.close();
      throw error;
    }
  }

  /** First and last position of each segment that is in the index. */
  segments(): Map<number, number> {
    const rows = this.#open?.database.prepare('select first, last from segments').all() ?? [];
    return new Map(rows.map((row) => [Number(row['first']), Number(row['last'])]));
  }

  /** Whether the stream is certainly in no indexed segment, told without looking into the file. */
  certainlyLacks(stream: StreamName): boolean {
    const greatest = this.#greatest.get(categoryOf(stream));
    return greatest === undefined || stream > greatest;
  }

  /** Revision of the stream's last event in the indexed segments, -1 when it has none there. */
  lastRevision(stream: StreamName): number {
    if (this.certainlyLacks(stream)) return -1;
    return Number(this.#open?.lastRevision.get(stream)?.['last_revision'] ?? -1);
  }

  /** Where the stream's events lie, ascending. */
  parts(stream: StreamName): IndexedPart[] {
    if (this.certainlyLacks(stream)) return [];
    const rows = this.#open?.parts.all(stream) ?? [];
    return rows.map((row) => ({
      segment: Number(row['segment']),
      last: Number(row['last_revision']),
      frames: decodeFramePlaces(bytesOf(row['frames'])),
    }));
  }

  /** Adds a closed segment, some streams at a time. Adding it again, after a crash in the middle, does no harm. */
  async add(first: number, last: number, streams: SegmentStreams): Promise<void> {
    this.#open ??= this.#openFile();
    const { database } = this.#open;
    const insert = database.prepare(
      'insert or replace into places (stream, segment, last_revision, frames) values (?, ?, ?, ?)',
    );
    const greatest = new Map<string, string>();
    const rows = streams.places.entries();
    for (let done = false; !done; ) {
      inTransaction(database, () => {
        for (let work = 0; work < workPerTurn; ) {
          const row = rows.next();
          if (row.done) {
            done = true;
            return;
          }
          const [stream, places] = row.value;
          work += 1 + places.frames.length / placesPerWork;
          insert.run(stream, first, places.last, encodeFramePlaces(places.frames));
          noteGreatest(greatest, categoryOf(stream), stream);
        }
      });
      await nextTurn();
    }
    for (const [category, stream] of this.#greatest) noteGreatest(greatest, category, stream);
    inTransaction(database, () => {
      const keep = database.prepare('insert or replace into categories (category, greatest) values (?, ?)');
      for (const [category, stream] of greatest) keep.run(category, stream);
      database.prepare('insert or replace into segments (first, last) values (?, ?)').run(first, last);
    });
    for (const [category, stream] of greatest) this.#greatest.set(category, stream);
  }

  /** Begins again with an empty index. */
  reset(): void {
    this.close();
    this.#greatest.clear();
    this.#removeFiles();
  }

  #removeFiles(): void {
    for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(this.#file + suffix, { force: true });
  }

  close(): void {
    this.#open?.database.close();
    this.#open = undefined;
  }
}

function noteGreatest(greatest: Map<string, string>, category: string, stream: string): void {
  const known = greatest.get(category);
  if (known === undefined || stream > known) greatest.set(category, stream);
}

function inTransaction(database: DatabaseSync, work: () => void): void {
  database.exec('begin immediate');
  try {
    work();
    database.exec('commit');
  } catch (error) {
    if (database.isTransaction) database.exec('rollback');
    throw error;
  }
}

function bytesOf(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value;
  throw new Error('the index holds no frame places where there should be some');
}

/** SQLite's codes for perm, nomem, readonly, ioerr, full and cantopen: they say nothing about what is in the file. */
const diskCodes = new Set([3, 7, 8, 10, 13, 14]);

function isOfTheDisk(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && diskCodes.has(Number(error.errcode) & 0xff);
}
