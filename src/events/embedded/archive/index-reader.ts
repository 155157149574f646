/** Looks streams up in the index. */
import { existsSync } from 'node:fs';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { StreamName } from '../../event.ts';
import { decodeFramePlaces } from '../frame-places.ts';
import { indexFileOf, openIndexFile } from './index-file.ts';

export interface IndexedPart {
  /** Position of the segment's first event. */
  readonly segment: number;
  /** Revision of the stream's last event in it. */
  readonly last: number;
  readonly frames: readonly number[];
}

export class IndexReader {
  readonly #database: DatabaseSync;
  readonly #last: StatementSync;
  readonly #parts: StatementSync;

  /** The reader owns the connection from now on. */
  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#last = database.prepare(
      'select segment, last_revision from places where stream = ? order by segment desc limit 1',
    );
    this.#parts = database.prepare(
      'select segment, last_revision, frames from places where stream = ? order by segment',
    );
  }

  /** Undefined when there is no index. @throws IndexUnusable; SQLite's error when the disk is at fault */
  static open(dir: string, mark: number): IndexReader | undefined {
    return existsSync(indexFileOf(dir)) ? new IndexReader(openIndexFile(dir, mark)) : undefined;
  }

  /** First and last position of each segment that is in the index. */
  segments(): Map<number, number> {
    const rows = this.#database.prepare('select first, last from segments').all();
    return new Map(rows.map((row) => [Number(row['first']), Number(row['last'])]));
  }

  /** The greatest stream name of each category. */
  greatest(): Map<string, string> {
    const rows = this.#database.prepare('select category, greatest from categories').all();
    return new Map(rows.map((row) => [String(row['category']), String(row['greatest'])]));
  }

  /** The last indexed segment that holds events of the stream, and the revision of its last event there. */
  last(stream: StreamName): { readonly segment: number; readonly last: number } | undefined {
    const row = this.#last.get(stream);
    return row === undefined ? undefined : { segment: Number(row['segment']), last: Number(row['last_revision']) };
  }

  /** Where the stream's events lie, ascending. */
  parts(stream: StreamName): IndexedPart[] {
    return this.#parts.all(stream).map((row) => ({
      segment: Number(row['segment']),
      last: Number(row['last_revision']),
      frames: decodeFramePlaces(bytesOf(row['frames'])),
    }));
  }

  close(): void {
    this.#database.close();
  }
}

function bytesOf(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value;
  throw new Error('the index lacks frame positions');
}
