/**
 * Ensures that one log object at a time writes a directory. The kernel keeps the lock (SQLite's lock on a separate
 * file, through `node:sqlite`), so it ends with the process in every case, and is effective across containers on the
 * same machine.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { LogIsReplica, LogIsUnfinishedCopy, LogLocked } from './log-errors.ts';

const lockFile = 'writer.lock';
const holderFile = 'writer.json';
/** How long to retry: a process that only checks for a writer holds the lock for an instant. */
const patienceMs = 500;

/** Keeps connections referenced: a connection that is garbage collected releases its lock. */
const held = new Set<DatabaseSync>();

export interface WriterLock {
  release(): void;
}

/** @throws LogLocked */
export function lockForWriting(dir: string): WriterLock {
  const database = new DatabaseSync(path.join(dir, lockFile));
  try {
    database.exec(
      `pragma busy_timeout = ${patienceMs}; pragma journal_mode = memory; pragma locking_mode = exclusive; begin exclusive`,
    );
  } catch (error) {
    database.close();
    throw isBusy(error) ? new LogLocked(dir, holder(dir)) : error;
  }
  held.add(database);
  noteHolder(dir);
  return {
    release: () => {
      if (held.delete(database)) database.close();
    },
  };
}

/** Whether a writer has the log open now, in this process or another. */
export function hasWriter(dir: string): boolean {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path.join(dir, lockFile), { readOnly: true });
    database.prepare('select count(*) from sqlite_schema').get();
    return false;
  } catch (error) {
    return isBusy(error);
  } finally {
    database?.close();
  }
}

const sqliteBusy = 5;

function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && (Number(error.errcode) & 0xff) === sqliteBusy;
}

function noteHolder(dir: string): void {
  try {
    writeFileSync(path.join(dir, holderFile), `${JSON.stringify({ pid: process.pid, since: new Date() })}\n`);
  } catch {
    // only for the message that a second writer gets
  }
}

/** The process that opened the log last, if it could note that. */
export function writerOf(dir: string): string {
  return holder(dir);
}

function holder(dir: string): string {
  try {
    const { pid, since }: { pid?: unknown; since?: unknown } = JSON.parse(
      readFileSync(path.join(dir, holderFile), 'utf8'),
    );
    return `process ${pid} (since ${since})`;
  } catch {
    return 'another process';
  }
}

// Files in the folder of a log that say who may write it: only the one that feeds it.

/** In the folder of a log that `chancery log copy` has begun and not completed. */
export const copyFile = 'copying.json';

interface FolderUse {
  /** By a log on an engine, which feeds its replica. */
  readonly replica?: boolean;
  /** By a copy. */
  readonly copying?: boolean;
}

/** @throws LogIsReplica, LogIsUnfinishedCopy */
export function checkFolderUse(dir: string, { replica = false, copying = false }: FolderUse): void {
  if (!replica && existsSync(path.join(dir, replicaFile))) throw new LogIsReplica(dir);
  if (!copying && existsSync(path.join(dir, copyFile))) throw new LogIsUnfinishedCopy(dir);
}

/** In the folder of a replica: which log on which engine it has, and up to where. */
export const replicaFile = 'replica.json';
