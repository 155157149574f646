/** One read of the stream index by something else than the log's writer, with or without a running writer. */
import { existsSync, statSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import type { StreamName } from '../../event.ts';
import { busyTimeoutMs, IndexUnusable, indexFileOf, isIndexOf } from './index-file.ts';
import { type IndexedPart, IndexReader } from './index-reader.ts';

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
