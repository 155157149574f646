/**
 * The file of the stream index: which streams have events in which closed segments, and where. SQLite, beside the
 * segments and derived from them: it may be deleted whenever the log is closed.
 */
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';

const version = 1;
/** A connection that opens or closes holds a lock for an instant. */
export const busyTimeoutMs = 1_000;
const suffixes = ['', '-wal', '-shm', '-journal'];

const schema = `
  create table segments (first integer primary key, last integer not null);
  create table places (
    stream text not null, segment integer not null, last_revision integer not null, frames blob not null,
    primary key (stream, segment)
  ) without rowid;
  create table categories (category text primary key, greatest text not null) without rowid;
`;

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
