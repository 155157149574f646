/**
 * Copies a log into another place, in files or on an engine: the same events with the same ids, times, revisions and
 * positions. Repeated, it copies what is new. At the end the copy is read back and compared by a digest.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { durableEnd, readBackupNote } from '../embedded/backup/backup-note.ts';
import { nodeDisk as disk, isMissing, makeDirectory, nodeDisk, replaceFile, syncDirectory } from '../embedded/disk.ts';
import { EmbeddedLog } from '../embedded/embedded-log.ts';
import { identityInFile } from '../embedded/identity.ts';
import type { InOrderWriter } from '../embedded/in-order-writer.ts';
import { readLosses } from '../embedded/losses.ts';
import { ReadOnlyLog } from '../embedded/read-only-log.ts';
import { copyFile, hasWriter, lockForWriting, replicaFile, type WriterLock } from '../embedded/writer-lock.ts';
import { parsePosition } from '../event.ts';
import { EventIdReused, LogUnavailable, WrongExpectedRevision } from '../log.ts';
import { EngineDamaged, LogDiverged } from '../replicated/engine.ts';
import { ReplicatedLog } from '../replicated/replicated-log.ts';
import {
  type CopyOptions,
  type CopyPlace,
  firstDifference,
  type LogCopyProgress,
  type LogOnEngine,
  RecordDigest,
  type RecordGroup,
  type RecordRun,
  type RecordSource,
  recordGroups,
  storedRecords,
} from './stored-records.ts';

export interface LogCopy {
  /** Position of the last event; the same on both sides. */
  readonly last: number;
  /** How many of the events were in the destination before. */
  readonly before: number;
  /** SHA-256 over all records of either side. */
  readonly sha256: string;
}

/** @throws CopyRefused, LogIncomplete, LogCorrupted, LogLocked, errors of the disk and the engines, the signal's reason */
export async function copyLog(from: CopyPlace, to: CopyPlace, options: CopyOptions): Promise<LogCopy> {
  checkFolders(from, to);
  const source = await openCopySource(from, options);
  try {
    const target =
      'folder' in to ? await openFolderTarget(to.folder, options.signal) : await openEngineTarget(to, options);
    try {
      return await new Copying(source, target, options).run();
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

function checkFolders(from: CopyPlace, to: CopyPlace): void {
  const [one, other] = [from, to].map((place) => ('folder' in place ? place.folder : place.replica));
  if (one === undefined || other === undefined) return;
  const inside = (inner: string, outer: string) => inner === outer || inner.startsWith(outer + path.sep);
  if (inside(one, other) || inside(other, one)) throw new CopyRefused(`${other} is not apart from ${one}`);
}

class Copying {
  readonly #source: CopySource;
  readonly #target: CopyTarget;
  readonly #options: CopyOptions;
  readonly #here = new RecordDigest();
  readonly #there = new RecordDigest();

  constructor(source: CopySource, target: CopyTarget, options: CopyOptions) {
    this.#source = source;
    this.#target = target;
    this.#options = options;
  }

  async run(): Promise<LogCopy> {
    const { last } = this.#source;
    const before = this.#target.last;
    await this.#compareBeginning(Math.min(before, last));
    if (before > last) throw differs(last + 1, `the source ends at ${last}`);
    for await (const group of recordGroups(this.#sourceRecords(before))) await this.#target.append(group);
    const end = await this.#target.finish();
    if (end !== last)
      throw new CopyRefused(`something else appends to the destination: it ends at ${end}, not ${last}`);
    for await (const run of this.#read(this.#target, before, last, 'verifying')) this.#there.add(run);
    if (this.#here.hex !== this.#there.hex) throw await this.#difference(last);
    await this.#target.complete();
    return { last, before, sha256: this.#there.hex };
  }

  async #compareBeginning(until: number): Promise<void> {
    for await (const run of this.#read(this.#target, 0, until, 'comparing')) this.#there.add(run);
    for await (const run of this.#read(this.#source, 0, until, 'comparing')) this.#here.add(run);
    if (this.#here.hex !== this.#there.hex) throw await this.#difference(until);
  }

  async #difference(until: number): Promise<CopyRefused> {
    const position = await firstDifference(this.#source.records, this.#target.records, until, this.#options.signal);
    return differs(position ?? until, 'it has another log, or was continued by itself');
  }

  async *#sourceRecords(after: number): AsyncGenerator<RecordRun> {
    for await (const run of this.#read(this.#source, after, this.#source.last, 'copying')) {
      this.#here.add(run);
      yield run;
    }
  }

  async *#read(
    { records }: CopySource | CopyTarget,
    after: number,
    until: number,
    step: LogCopyProgress['step'],
  ): AsyncGenerator<RecordRun> {
    for await (const run of storedRecords(records, after, until, this.#options.signal)) {
      yield run;
      this.#options.onProgress?.({ step, position: run.last });
    }
  }
}

function differs(position: number, reason: string): CopyRefused {
  return new CopyRefused(`the destination differs from the source at position ${position}: ${reason}`);
}

/** The log that is copied: a log in files, or the replica of a log on an engine after it has read everything. */
interface CopySource {
  readonly records: RecordSource;
  /** Position of the last event that is copied: those that are appended later are not. */
  readonly last: number;
  close(): Promise<void>;
}

/** @throws CopyRefused, LogIncomplete, LogCorrupted, and as `ReplicatedLog.open` */
async function openCopySource(place: CopyPlace, options: CopyOptions): Promise<CopySource> {
  if ('folder' in place) return openFolder(place.folder, async () => {});
  const { log, folder, remove } = await openEngineReplica(place, 'reading the source', options);
  await log.close();
  return openFolder(folder, remove);
}

async function openFolder(folder: string, remove: () => Promise<void>): Promise<CopySource> {
  let records: ReadOnlyLog | undefined;
  const close = async () => {
    await records?.close();
    await remove();
  };
  try {
    records = await ReadOnlyLog.open(folder);
    if (nodeDisk.list(folder).includes(copyFile)) {
      throw new CopyRefused(`${folder} is an unfinished copy; complete it first`);
    }
    if (readLosses(nodeDisk, folder).any) {
      throw new CopyRefused(`the log in ${folder} has lost positions, so a copy could not have the same positions`);
    }
    const last = await durableEnd(nodeDisk, folder, records.mark);
    if (last === 0) throw new CopyRefused('the source has no events');
    return { records, last, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A copy on an engine. One append is on its way at a time, so that none can overtake another one. */
const retryMs = 250;

/** @throws as `ReplicatedLog.open` */
async function openEngineTarget(place: LogOnEngine, options: CopyOptions): Promise<CopyTarget> {
  const replica = await openEngineReplica(place, 'reading the destination', options);
  const last = parsePosition(await replica.log.head());
  return new EngineTarget(replica, await ReadOnlyLog.open(replica.folder), last, options);
}

class EngineTarget implements CopyTarget {
  readonly last: number;
  readonly #replica: EngineReplica;
  readonly #options: CopyOptions;
  readonly #records: ReadOnlyLog;

  constructor(replica: EngineReplica, records: ReadOnlyLog, last: number, options: CopyOptions) {
    this.#replica = replica;
    this.#records = records;
    this.last = last;
    this.#options = options;
  }

  get records(): RecordSource {
    return this.#records;
  }

  async append(group: RecordGroup): Promise<void> {
    const position = await this.#appendUntilKnown(group);
    if (position !== group.last) {
      throw otherWriter(`position ${group.last} of the source is ${position} there`);
    }
  }

  /** Records that an append of unknown outcome has recorded are recognised by their ids. */
  async #appendUntilKnown(group: RecordGroup): Promise<number> {
    const { signal, onDelay } = this.#options;
    for (;;) {
      signal.throwIfAborted();
      try {
        return parsePosition((await this.#replica.log.appendRecords(group)).position);
      } catch (error) {
        if (error instanceof WrongExpectedRevision || error instanceof EventIdReused) {
          throw otherWriter(error.message, error);
        }
        if (!(error instanceof LogUnavailable)) throw error;
        const { cause } = error;
        if (cause instanceof LogDiverged || cause instanceof EngineDamaged) throw cause;
        onDelay?.(error.message);
      }
      await delay(retryMs, undefined, { signal });
    }
  }

  async finish(): Promise<number> {
    await this.#replica.log.close();
    return parsePosition(await this.#records.head());
  }

  /** Nothing marks an unfinished copy on an engine. */
  async complete(): Promise<void> {}

  async close(): Promise<void> {
    await this.#replica.log.close();
    await this.#records.close();
    await this.#replica.remove();
  }
}

function otherWriter(what: string, cause?: unknown): CopyRefused {
  const advice = 'if no gateway runs on it, run the command again, which compares what is there';
  return new CopyRefused(`something else appends to the destination: ${what}; ${advice}`, cause);
}

/**
 * A copy in files: a log of its own with the same events. While it is unfinished, its folder has a file because of which
 * no gateway opens it.
 */
const noRecords: RecordSource = { disk, dir: '', mark: 0, segmentOf: () => undefined, endOf: () => 0 };

/** @throws CopyRefused, LogCorrupted, LogIncomplete, LogLocked, what the file system throws */
async function openFolderTarget(folder: string, signal: AbortSignal): Promise<CopyTarget> {
  const isUnfinished = isCopyBegun(folder);
  if (isUnfinished) {
    // removes what an interrupted write has left
    const log = await EmbeddedLog.open(folder, { durability: 'relaxed', replica: true, copying: true });
    await log.close();
  }
  const records = identityOf(folder) === undefined ? undefined : await ReadOnlyLog.open(folder);
  return new FolderTarget(folder, records, isUnfinished, signal);
}

/** @returns whether an unfinished copy is there. @throws CopyRefused when there is something else than a log in files */
function isCopyBegun(folder: string): boolean {
  const files = filesIn(folder);
  if (files.includes(replicaFile)) throw new CopyRefused(`${folder} is a replica of a log on an engine`);
  if (readBackupNote(disk, folder) !== undefined) {
    throw new CopyRefused(`${folder} is a backup; "chancery log restore" makes a log of it`);
  }
  if (files.includes(copyFile)) return true;
  if (files.length > 0 && identityOf(folder) === undefined) {
    throw new CopyRefused(`${folder} is not empty and has no log; use an empty folder`);
  }
  if (files.length > 0 && hasWriter(folder))
    throw new CopyRefused(`a gateway writes the log in ${folder}; stop it first`);
  return false;
}

function filesIn(folder: string): string[] {
  try {
    return disk.list(folder);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

function identityOf(folder: string) {
  return filesIn(folder).length === 0 ? undefined : identityInFile(disk, folder);
}

interface Writing {
  readonly log: EmbeddedLog;
  readonly writer: InOrderWriter;
}

class FolderTarget implements CopyTarget {
  readonly last: number;
  readonly #folder: string;
  readonly #signal: AbortSignal;
  #records: ReadOnlyLog | undefined;
  #isUnfinished: boolean;
  #writing: Writing | undefined;
  #lock: WriterLock | undefined;

  constructor(folder: string, records: ReadOnlyLog | undefined, isUnfinished: boolean, signal: AbortSignal) {
    this.#folder = folder;
    this.#records = records;
    this.last = records?.visible() ?? 0;
    this.#isUnfinished = isUnfinished;
    this.#signal = signal;
  }

  get records(): RecordSource {
    return this.#records ?? noRecords;
  }

  async append(group: RecordGroup): Promise<void> {
    this.#writing ??= await this.#begin();
    const { log, writer } = this.#writing;
    await writer.prepare(group.writes, this.#signal);
    const position = writer.place(group)?.position;
    if (position === undefined || parsePosition(position) !== group.last) {
      throw new CopyRefused(`position ${group.last} of the source would be ${position} in ${this.#folder}`);
    }
    if (writer.write() < group.last) {
      throw new Error(`the disk refused a part of the copy: ${log.status().reason ?? 'for an unknown reason'}`);
    }
  }

  async #begin(): Promise<Writing> {
    await makeDirectory(disk, this.#folder);
    const note = { format: 'chancery-copy', version: 1, begun: new Date().toISOString() };
    await replaceFile(disk, path.join(this.#folder, copyFile), Buffer.from(`${JSON.stringify(note)}\n`));
    this.#isUnfinished = true;
    const log = await EmbeddedLog.open(this.#folder, { durability: 'relaxed', replica: true, copying: true });
    if (log.visible() === this.last) return { log, writer: log.inOrder() };
    await log.close();
    throw new CopyRefused(`something else has written into ${this.#folder}`);
  }

  async finish(): Promise<number> {
    if (this.#writing !== undefined) {
      const { log } = this.#writing;
      await log.settled();
      await log.close();
      this.#writing = undefined;
    }
    // no other copy may go on with it while it is read back
    this.#lock = lockForWriting(this.#folder);
    await this.#records?.close();
    this.#records = await ReadOnlyLog.open(this.#folder);
    return this.#records.visible();
  }

  async complete(): Promise<void> {
    if (!this.#isUnfinished) return;
    await disk.removeLater(path.join(this.#folder, copyFile));
    await syncDirectory(disk, this.#folder);
  }

  async close(): Promise<void> {
    await this.#writing?.log.close();
    this.#lock?.release();
    await this.#records?.close();
  }
}

/** A copy that cannot be made from this source or into this destination. The message says why. */
class CopyRefused extends Error {
  readonly code = 'copy_refused';
  constructor(reason: string, cause?: unknown) {
    super(reason, { cause });
  }
}

/** Where the copy is written. */
interface CopyTarget {
  /** What it has, to be read back. */
  readonly records: RecordSource;
  /** Position of its last event at the opening. */
  readonly last: number;
  /**
   * Appends the records after those that are there.
   * @throws CopyRefused when they got other positions or revisions; the errors of the disk or the engine
   */
  append(group: RecordGroup): Promise<void>;
  /** Ends the writing: everything is on disk, or acknowledged by the engine and read back. @returns the last position */
  finish(): Promise<number>;
  /** Marks the copy as complete. After `finish`, when it was found to be equal. */
  complete(): Promise<void>;
  /** In every case, at the end. */
  close(): Promise<void>;
}

/** The replica of a log on an engine that is copied, or a copy: as large as the log. */
interface EngineReplica {
  /** Has been read to its end. */
  readonly log: ReplicatedLog;
  readonly folder: string;
  /** Removes a temporary folder. The log has been closed before. */
  remove(): Promise<void>;
}

/** Reading to the end includes an append without events. @throws as `ReplicatedLog.open` */
async function openEngineReplica(
  place: LogOnEngine,
  step: LogCopyProgress['step'],
  { onDelay, onProgress, signal }: CopyOptions,
): Promise<EngineReplica> {
  const folder = place.replica ?? (await mkdtemp(path.join(tmpdir(), 'chancery-copy-')));
  const remove = async () => {
    if (place.replica === undefined) await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  };
  try {
    const log = await ReplicatedLog.open({
      engine: await place.engine(),
      dir: folder,
      signal,
      ...(onDelay && { onDelay }),
      onProgress: (position) => onProgress?.({ step, position: parsePosition(position) }),
    });
    return { log, folder, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}
