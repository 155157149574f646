/**
 * Stores snapshots of projections between two runs: in one SQLite file, which is derived from the log. An unusable file
 * is always handled in the same way: it is created anew, and the log is folded again.
 */
import { chmodSync, closeSync, existsSync, openSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import type { Position, RecordedEvent } from '../events/event.ts';

/** The file of a gateway with this data folder. */
export const viewsFile = (dataDir: string) => join(dataDir, 'views.db');

export interface Snapshot {
  readonly name: string;
  readonly version: number;
  /** Id of the log's first event: a snapshot of another log is not used. */
  readonly logId: string;
  /** Every event up to this position is in `state`. */
  readonly position: Position;
  /** As `v8.serialize` writes it. */
  readonly state: Uint8Array;
}

/** A snapshot with the state that was last saved, or loaded, under its name: only its position is newer. */
export type MovedSnapshot = Omit<Snapshot, 'state'> & { readonly state?: undefined };

export interface ViewStore {
  /** Another process saves the snapshots: `save` does nothing. */
  readonly isReadOnly?: boolean;
  /** The snapshot last saved under this name; undefined when there is none, or its checksum is wrong. */
  load(name: string): Snapshot | undefined;
  /**
   * All of them in one transaction, each with its checkpoint. One that has only moved costs nothing, however large its
   * state is; when the file had to be made anew, it is left out, and the next start folds the log again.
   * @param bound an event that the log has on disk, to which they and all up to its position are bound
   */
  save(snapshots: readonly (Snapshot | MovedSnapshot)[], bound?: BoundEvent): void;
  /** Position of the newest event that was saved with snapshots since the store was opened. */
  readonly boundTo: Position | undefined;
  close(): void;
}

/** An event of the log from which the snapshots were built. */
export interface BoundEvent {
  /** Id of the log's first event. */
  readonly logId: string;
  readonly position: Position;
  readonly id: string;
  /** See `checksumOfEvent`. */
  readonly crc32: number;
}

/** Of what no upcast changes. */
export function checksumOfEvent({ id, stream, revision, at, body }: RecordedEvent): number {
  return crc32(body ?? '', crc32(JSON.stringify([id, stream, String(revision), at])));
}

function checksumOfBound({ logId, position, id, crc32: crc }: BoundEvent): number {
  return crc32(JSON.stringify([logId, position, id, crc]));
}

/** So many bound events are kept. Where another branch begins is known as exactly as they lie apart. */
const KEPT = 200;

export interface ViewStoreOptions {
  /** Called when an unusable file was replaced. */
  readonly onDiscarded?: (reason: Error) => void;
}

/** Earlier versions have their snapshots, of another form, in a table of another name, and make it again. */
const schema = `
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = NORMAL;
  DROP TABLE IF EXISTS snapshots;
  CREATE TABLE IF NOT EXISTS states (
    name TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    log_id TEXT NOT NULL,
    position TEXT NOT NULL,
    state BLOB NOT NULL,
    crc32 INTEGER NOT NULL,
    saved_at TEXT NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS events (position TEXT PRIMARY KEY, log_id TEXT NOT NULL, id TEXT NOT NULL, crc32 INTEGER NOT NULL,
    row_crc32 INTEGER NOT NULL) STRICT;
`;

/** `path` is a file, made when missing, or `:memory:`. @throws only when the file can neither be used nor replaced. */
export function openViewStore(path: string, options: ViewStoreOptions = {}): ViewStore {
  let db = naming(path, openOrReplace);
  /** Checksums of the states in the file, by the name of the snapshot. */
  const states = new Map<string, number>();

  function open(): DatabaseSync {
    if (path !== ':memory:') keepPrivate(path);
    const opened = new DatabaseSync(path);
    try {
      opened.exec(schema);
      // A file that is a database but has another `states` table fails here, and not at the first save.
      opened.prepare('SELECT name, version, log_id, position, state, crc32, saved_at FROM states LIMIT 0').all();
      return opened;
    } catch (error) {
      opened.close();
      throw error;
    }
  }

  function replace(reason: unknown): DatabaseSync {
    options.onDiscarded?.(reason instanceof Error ? reason : new Error(String(reason)));
    if (path !== ':memory:') {
      for (const file of filesOf(path)) rmSync(file, { force: true, recursive: true });
    }
    return open();
  }

  function openOrReplace(): DatabaseSync {
    try {
      return open();
    } catch (error) {
      return replace(error);
    }
  }

  function reopen(reason: unknown): void {
    try {
      db.close();
    } catch {
      // Closing a broken database may fail; the file is about to be removed.
    }
    states.clear();
    db = replace(reason);
  }

  let boundTo: Position | undefined;

  function bind(event: BoundEvent): void {
    const { position, logId, id, crc32: crc } = event;
    // A position of another branch, behind this one, is evidence of nothing any more.
    db.prepare('DELETE FROM events WHERE position >= ? OR log_id <> ?').run(position, logId);
    db.prepare('INSERT INTO events (position, log_id, id, crc32, row_crc32) VALUES (?,?,?,?,?)').run(
      ...[position, logId, id, crc, checksumOfBound(event)],
    );
    db.prepare(
      `DELETE FROM events WHERE position < (SELECT position FROM events ORDER BY position DESC LIMIT 1 OFFSET ${KEPT})`,
    ).run();
  }

  function write(snapshots: readonly (Snapshot | MovedSnapshot)[], bound: BoundEvent | undefined): void {
    const written = new Map<string, number>();
    db.exec('BEGIN IMMEDIATE');
    try {
      const upsert = db.prepare(
        'INSERT OR REPLACE INTO states (name, version, log_id, position, state, crc32, saved_at) VALUES (?,?,?,?,?,?,?)',
      );
      const move = db.prepare('UPDATE states SET position = ?, crc32 = ?, saved_at = ? WHERE name = ?');
      const savedAt = new Date().toISOString();
      for (const snapshot of snapshots) {
        const { name, version, logId, position, state } = snapshot;
        const stateCrc = state === undefined ? states.get(name) : crc32(state);
        if (stateCrc === undefined) continue;
        const crc = checksum(snapshot, stateCrc);
        if (state === undefined) move.run(position, crc, savedAt, name);
        else upsert.run(name, version, logId, position, state, crc, savedAt);
        written.set(name, stateCrc);
      }
      if (bound !== undefined) bind(bound);
      db.exec('COMMIT');
      boundTo = bound?.position ?? boundTo;
      for (const [name, stateCrc] of written) states.set(name, stateCrc);
    } catch (error) {
      if (db.isTransaction) db.exec('ROLLBACK');
      throw error;
    }
  }

  return {
    load(name) {
      try {
        const snapshot = loadFrom(db, name);
        if (snapshot !== undefined) states.set(name, crc32(snapshot.state));
        return snapshot;
      } catch (error) {
        reopen(error);
        return undefined;
      }
    },
    save(snapshots, bound) {
      if (snapshots.length === 0 && bound === undefined) return;
      try {
        write(snapshots, bound);
      } catch (error) {
        if (!isDamage(error)) throw named(path, error);
        naming(path, () => {
          reopen(error);
          write(snapshots, bound);
        });
      }
    },
    get boundTo() {
      return boundTo;
    },
    close() {
      db.close();
    },
  };
}

/** The snapshots in a file that another process saves; unreadable ones are as if they were missing. */
export function readViewStore(path: string): ViewStore {
  return {
    isReadOnly: true,
    load(name) {
      let db: DatabaseSync | undefined;
      try {
        db = new DatabaseSync(path, { readOnly: true });
        db.exec('PRAGMA busy_timeout = 1000');
        return loadFrom(db, name);
      } catch {
        return undefined;
      } finally {
        db?.close();
      }
    },
    save() {},
    boundTo: undefined,
    close() {},
  };
}

/** Undefined when there is none, or its checksum is wrong. @throws what SQLite throws */
function loadFrom(db: DatabaseSync, name: string): Snapshot | undefined {
  const row = db.prepare('SELECT * FROM states WHERE name = ?').get(name);
  if (row === undefined) return undefined;
  if (!(row.state instanceof Uint8Array)) return undefined;
  const snapshot: Snapshot = {
    name,
    version: Number(row.version),
    logId: String(row.log_id),
    position: String(row.position) as Position,
    state: row.state,
  };
  return checksum(snapshot, crc32(snapshot.state)) === row.crc32 ? snapshot : undefined;
}

/** A database's file and those that SQLite puts beside it. */
function filesOf(path: string): readonly string[] {
  return ['', '-wal', '-shm', '-journal'].map((suffix) => path + suffix);
}

/** Removes the snapshots of a gateway that does not run: its next start folds the log. */
export function removeViews(dataDir: string): void {
  for (const file of filesOf(viewsFile(dataDir))) rmSync(file, { force: true });
}

/** Only for the owner, also when an earlier version made it readable to others. SQLite's other files get this mode. */
function keepPrivate(path: string): void {
  closeSync(openSync(path, 'a', 0o600));
  for (const file of filesOf(path)) if (existsSync(file)) chmodSync(file, 0o600);
}

/** Checksum of the whole snapshot, computed from that of its state: the state may be large, and is read once. */
function checksum({ name, version, logId, position }: Omit<Snapshot, 'state'>, stateCrc: number): number {
  return crc32(JSON.stringify([name, version, logId, position]), stateCrc);
}

/** Of what SQLite throws, only some errors name the file. */
function named(path: string, error: unknown): unknown {
  if (!(error instanceof Error) || error.message.includes(path)) return error;
  return Object.assign(new Error(`${path}: ${error.message}`, { cause: error }), { ...error, path });
}

function naming<Result>(path: string, action: () => Result): Result {
  try {
    return action();
  } catch (error) {
    throw named(path, error);
  }
}

/** SQLITE_CORRUPT and SQLITE_NOTADB: the file itself is bad, unlike a full disk or a lock, which pass. */
function isDamage(error: unknown): boolean {
  const errcode = error instanceof Error && 'errcode' in error ? Number(error.errcode) : 0;
  return [11, 26].includes(errcode & 0xff);
}

/** A snapshot without its state. */
export interface SavedSnapshot {
  readonly version: number;
  readonly position: Position;
  /** ISO 8601, in UTC. */
  readonly savedAt: string;
  /** Size of its state in bytes. */
  readonly size: number;
}

/** The bound events in a file, newest first; none when it cannot be read: it is then made anew. Changes no snapshot. */
export function boundEvents(path: string): BoundEvent[] {
  if (!existsSync(path)) return [];
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { readOnly: true });
    db.exec('PRAGMA busy_timeout = 1000');
    const rows = db.prepare('SELECT * FROM events ORDER BY position DESC').all();
    return rows.flatMap(({ position, log_id: logId, id, crc32: crc, row_crc32: rowCrc }) => {
      const event = {
        position: String(position) as Position,
        logId: String(logId),
        id: String(id),
        crc32: Number(crc),
      };
      return checksumOfBound(event) === rowCrc ? [event] : [];
    });
  } catch {
    return [];
  } finally {
    db?.close();
  }
}

/** The snapshots in a file, by name; a gateway may use the file at the same time. @throws what SQLite throws */
export function savedSnapshots(path: string): ReadonlyMap<string, SavedSnapshot> {
  if (!existsSync(path)) return new Map();
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    db.exec('PRAGMA busy_timeout = 1000');
    // a file of an earlier version
    if (db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'states'").get() === undefined) return new Map();
    const rows = db.prepare('SELECT name, version, position, saved_at, length(state) AS size FROM states').all();
    return new Map(
      rows.map(({ name, version, position, saved_at: savedAt, size }) => [
        String(name),
        {
          version: Number(version),
          position: String(position) as Position,
          savedAt: String(savedAt),
          size: Number(size),
        },
      ]),
    );
  } finally {
    db.close();
  }
}
