/** One step of archiving: reads a closed segment once, and checks, indexes and compresses it in the same pass. */
import { createHash } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import { type Disk, datasync, replaceFile, writeFully } from '../disk.ts';
import { encodeFramePlaces, type FrameRun, frameHeaderBytes, readFrameHeader } from '../frame.ts';
import { LogCorrupted } from '../log-errors.ts';
import { type Manifest, manifestText } from '../manifest.ts';
import { categoriesOf, type LogFiles, SegmentStreams, type StreamCategories, segmentFile } from '../segment.ts';
import { RawBlocks, SealedBlocks, type SegmentBlocks, walkBlocks } from '../segment-blocks.ts';
import { packNow, unpackNow } from '../zstd.ts';
import {
  compareStreams,
  type IndexedPlace,
  IndexUnusable,
  indexedPlaceOf,
  insertPlace,
  noteTables,
  openIndexFile,
  rowOf,
  unusable,
  verifyIndexedPlace,
  verifyTables,
} from './index-file.ts';

export interface ArchiveTask {
  readonly name: string;
  /** Positions of the segment's first and last event. */
  readonly first: number;
  readonly last: number;
  /** Given when the segment is compressed already. */
  readonly manifest?: Manifest;
  /** Whether to enter it in the stream index, and whether to compress it. With neither it is only checked. */
  readonly index: boolean;
  readonly seal: boolean;
}

/**
 * Runs on the calling thread, and uses the thread pool only where `log.disk` does.
 * @throws LogCorrupted when the segment is damaged, which is then not changed; IndexUnusable; the errors of the disk,
 *   of SQLite and of `pace`. Incomplete work is undone, or is done again by the next step.
 */
export async function archiveSegment(log: LogFiles, task: ArchiveTask, pace: Pace): Promise<StreamCategories> {
  const { disk, dir, mark } = log;
  const streams = new SegmentStreams();
  const blocks = blocksOf(log, task);
  let sealed: SealedFile | undefined;
  try {
    if (task.seal) sealed = await SealedFile.create(disk, dir, task.name);
    for await (const run of walkBlocks(blocks, mark, task, task.last)) {
      streams.noteRun(run);
      sealed?.add(run);
      await pace();
    }
    if (sealed !== undefined) checkNoneBehind(log, task.name, sealed.rawBytes);
    const categories = categoriesOf(streams);
    if (task.index) await indexSegment(log, task, streams, categories, pace);
    const finished = sealed?.finish(task, categories, pace);
    sealed = undefined;
    await finished;
    return categories;
  } finally {
    blocks.close();
    await sealed?.abandon();
  }
}

/** Compression removes the frames at the end: events of another writer must not be removed with them. */
function checkNoneBehind({ disk, dir, mark }: LogFiles, name: string, bytes: number): void {
  const fd = disk.open(segmentFile(dir, name, 'seg'), 'read');
  try {
    // a killed writer leaves zeros there, which it had laid out for further frames
    const buffer = Buffer.alloc(frameHeaderBytes);
    const read = disk.read(fd, buffer, 0, frameHeaderBytes, bytes);
    if (typeof readFrameHeader(buffer, 0, read, mark) === 'string') return;
    throw new LogCorrupted(name, bytes, 'events lie behind the end of the segment');
  } finally {
    disk.close(fd);
  }
}

function blocksOf({ disk, dir, mark }: LogFiles, { name, manifest }: ArchiveTask): SegmentBlocks {
  if (manifest === undefined) return new RawBlocks(disk, disk.open(segmentFile(dir, name, 'seg'), 'read'), mark, []);
  const fd = disk.open(segmentFile(dir, name, 'zst'), 'read');
  return new SealedBlocks(disk, fd, name, manifest, async (packed, rawLength) => unpackNow(packed, rawLength));
}

/** Number of rows written between two readings of the clock. */
const rowsPerLook = 32;

/**
 * Enters a closed segment in the index, all of it or nothing: in one transaction, and in the order of the index, so
 * that each of its pages is written once. Checksums that a change made wrong are not made right. Entering a segment again does no harm.
 * @throws IndexUnusable; SQLite's error when the disk is at fault; what `pace` throws
 */
async function indexSegment(
  log: { readonly dir: string; readonly mark: number },
  segment: { readonly first: number; readonly last: number },
  streams: SegmentStreams,
  categories: StreamCategories,
  pace: Pace,
): Promise<void> {
  const database = openIndexFile(log.dir, log.mark);
  try {
    database.exec('begin immediate');
    await insert(database, segment, streams, categories, pace);
    database.exec('commit');
  } catch (error) {
    throw unusable(error);
  } finally {
    // rolls back what has not been committed
    database.close();
  }
}

async function insert(
  database: DatabaseSync,
  { first, last }: { readonly first: number; readonly last: number },
  streams: SegmentStreams,
  categories: StreamCategories,
  pace: Pace,
): Promise<void> {
  verifyTables(database);
  const insertion = database.prepare(insertPlace);
  const columns = 'stream, segment, last_revision, frames, crc32';
  const before = database.prepare(
    `select ${columns} from places where (stream, segment) < (?, ?) order by stream desc, segment desc limit 1`,
  );
  const after = database.prepare(
    `select ${columns} from places where (stream, segment) > (?, ?) order by stream, segment limit 1`,
  );
  const following = ({ stream, segment }: IndexedPlace) => {
    const row = after.get(stream, segment);
    return row === undefined ? undefined : indexedPlaceOf(row);
  };
  /** The place that is to be written when it is known which one follows it, and the next one in the index. */
  let held: IndexedPlace | undefined;
  let next: IndexedPlace | undefined;
  let rows = 0;
  for (const [stream, { last: lastRevision, frames }] of [...streams.places].sort(byName)) {
    const place = { stream, segment: first, last: lastRevision, frames: encodeFramePlaces(frames) };
    if (held !== undefined && compare(held, place) < 0 && (next === undefined || compare(place, next) < 0)) {
      insertion.run(...rowOf(held, place));
    } else {
      if (held !== undefined) insertion.run(...rowOf(held, next));
      const row = before.get(stream, first);
      if (row === undefined) throw new IndexUnusable('places are missing');
      held = indexedPlaceOf(row);
      next = following(held);
      verifyIndexedPlace(held, next);
      if (next !== undefined && compare(next, place) === 0) next = following(next);
      insertion.run(...rowOf(held, place));
    }
    held = place;
    if (++rows % rowsPerLook === 0) await pace();
  }
  if (held !== undefined) insertion.run(...rowOf(held, next));
  const known = database.prepare('select greatest from categories where category = ?');
  const category = database.prepare('insert or replace into categories (category, greatest) values (?, ?)');
  for (const [name, { greatest }] of Object.entries(categories)) {
    // compared here and not in SQL, which orders some names otherwise
    if (greatest > String(known.get(name)?.['greatest'] ?? '')) category.run(name, greatest);
  }
  database.prepare('insert or replace into segments (first, last) values (?, ?)').run(first, last);
  noteTables(database);
}

function byName([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1;
}

function compare(a: IndexedPlace, b: IndexedPlace): number {
  return compareStreams(a.stream, b.stream) || a.segment - b.segment;
}

/**
 * Writes the compressed form of a closed segment, and removes the frames only after the compressed form has been read
 * back and compared. After any failure or interruption the segment is readable in one of the two forms.
 */
class SealedFile {
  readonly #disk: Disk;
  readonly #dir: string;
  readonly #name: string;
  readonly #fd: number;
  readonly #hash = createHash('sha256');
  readonly #blocks: Manifest['blocks'] = [];
  #rawBytes = 0;
  #compressedBytes = 0;
  #firstAt = 0;
  #lastAt = 0;

  private constructor(disk: Disk, dir: string, name: string, fd: number) {
    this.#disk = disk;
    this.#dir = dir;
    this.#name = name;
    this.#fd = fd;
  }

  static async create(disk: Disk, dir: string, name: string): Promise<SealedFile> {
    const temporary = temporaryFile(dir, name);
    await disk.removeLater(temporary);
    return new SealedFile(disk, dir, name, disk.open(temporary, 'create'));
  }

  /** Of the frames that were added. */
  get rawBytes(): number {
    return this.#rawBytes;
  }

  /** Adds the next frames of the segment as one block. */
  add(run: FrameRun): void {
    const raw = run.buffer.subarray(run.start, run.end);
    this.#hash.update(raw);
    const compressed = packNow(raw);
    writeFully(this.#disk, this.#fd, compressed, 0, compressed.length, this.#compressedBytes);
    if (this.#blocks.length === 0) this.#firstAt = run.frames[0]?.at ?? 0;
    this.#lastAt = run.frames.at(-1)?.at ?? 0;
    this.#blocks.push({ position: run.frames[0]?.first ?? 0, offset: run.offset, at: this.#compressedBytes });
    this.#rawBytes += raw.length;
    this.#compressedBytes += compressed.length;
  }

  /**
   * Replaces the frames by the compressed form. No method may be called after that.
   * @throws Error when the content that is read back differs; the frames are then not changed
   */
  async finish(
    segment: { readonly first: number; readonly last: number },
    categories: StreamCategories,
    pace: Pace,
  ): Promise<void> {
    const file = (kind: 'seg' | 'zst' | 'json') => segmentFile(this.#dir, this.#name, kind);
    const temporary = temporaryFile(this.#dir, this.#name);
    try {
      await datasync(this.#disk, this.#fd);
    } finally {
      this.#disk.close(this.#fd);
    }
    const manifest: Manifest = {
      format: 'chancery-segment',
      version: 1,
      first: segment.first,
      last: segment.last,
      firstAt: this.#firstAt,
      lastAt: this.#lastAt,
      rawBytes: this.#rawBytes,
      compressedBytes: this.#compressedBytes,
      sha256: this.#hash.digest('hex'),
      categories,
      blocks: this.#blocks,
    };
    const table = Buffer.from(manifestText(manifest));
    try {
      await verifySealed(this.#disk, { packed: temporary, raw: file('seg') }, manifest, pace);
    } catch (error) {
      await this.#disk.removeLater(temporary);
      throw error;
    }
    this.#disk.rename(temporary, file('zst'));
    await replaceFile(this.#disk, file('json'), table);
    if (!this.#disk.readFile(file('json')).equals(table)) throw new Error(`${file('json')} is not what was written`);
    // both files are on disk under their names with the content of the frames: only now may the frames be removed
    await this.#disk.removeLater(file('seg'));
  }

  /** Removes the incomplete files instead of `finish`. */
  async abandon(): Promise<void> {
    this.#disk.close(this.#fd);
    await this.#disk.removeLater(temporaryFile(this.#dir, this.#name));
  }
}

function temporaryFile(dir: string, name: string): string {
  return `${segmentFile(dir, name, 'zst')}.tmp`;
}

/**
 * Reads a compressed segment back, block by block, and compares it with the frames that were compressed.
 * @throws Error when any byte differs
 */
async function verifySealed(
  disk: Disk,
  files: { readonly packed: string; readonly raw: string },
  { blocks, rawBytes, compressedBytes }: Manifest,
  pace: Pace,
): Promise<void> {
  const wrong = (what: string, cause?: unknown) =>
    new Error(`${files.packed} was not written as it should: ${what}`, { cause });
  // new buffers for each block would cost more than reading it
  const buffers = { raw: Buffer.alloc(0), packed: Buffer.alloc(0) };
  const packedFd = disk.open(files.packed, 'read');
  const rawFd = disk.open(files.raw, 'read');
  try {
    const size = disk.size(packedFd);
    if (size !== compressedBytes) throw wrong(`${size} bytes instead of ${compressedBytes}`);
    for (const [index, { at, offset }] of blocks.entries()) {
      const rawLength = (blocks[index + 1]?.offset ?? rawBytes) - offset;
      const raw = await readInto('raw', rawFd, rawLength, offset);
      const unpacked = await unpack((blocks[index + 1]?.at ?? compressedBytes) - at, rawLength, at);
      if (!unpacked.equals(raw)) throw wrong(`the block at byte ${at} has other frames`);
      await pace();
    }
  } finally {
    disk.close(packedFd);
    disk.close(rawFd);
  }

  async function readInto(kind: 'raw' | 'packed', fd: number, length: number, at: number): Promise<Buffer> {
    if (buffers[kind].length < length) buffers[kind] = Buffer.allocUnsafeSlow(length);
    return buffers[kind].subarray(0, await disk.readLater(fd, buffers[kind], 0, length, at));
  }

  async function unpack(length: number, rawLength: number, at: number): Promise<Buffer> {
    try {
      return unpackNow(await readInto('packed', packedFd, length, at), rawLength);
    } catch (error) {
      throw wrong(`the block at byte ${at} cannot be unpacked`, error);
    }
  }
}

/** Executes the steps of archiving. */
export interface Archivist {
  /**
   * Executes one step; resolves when its result is on disk or in the index.
   * @param effort `idle`: at the lowest priority, while the gateway's thread is almost idle; `steady`: also while it
   *   is busy, with a quarter of a processor; `hurried`: with a half
   * @param signal stops the step between two pieces of work; this then rejects with the signal's reason
   * @throws what `archiveSegment` throws; Error when the step could not be done for another reason
   */
  archive(task: ArchiveTask, effort: Effort, signal: AbortSignal): Promise<StreamCategories>;
  /** No step may be running. */
  close(): Promise<void>;
}

export type Effort = 'idle' | 'steady' | 'hurried';

/** Archives on the caller's thread, through the caller's disk: for tests in which the disk fails. */
export class InlineArchivist implements Archivist {
  readonly #log: LogFiles;

  constructor(log: LogFiles) {
    this.#log = log;
  }

  archive(task: ArchiveTask, _effort: Effort, signal: AbortSignal): Promise<StreamCategories> {
    return archiveSegment(this.#log, task, restingPace(0, signal));
  }

  async close(): Promise<void> {}
}

// How background work shares the processor.

/** To be awaited between small pieces of work. @throws the signal's reason when the work is to stop */
type Pace = () => Promise<void>;

/** Longest wait of other work until this work pauses, when its pieces are small. */
const sliceMs = 1;

/** Milliseconds of rest for each millisecond of work. */
const restFactors = { steady: 3, hurried: 1 } as const;
const idleLookMs = 100;

/** How a thread that archives shares the processor. @param isIdle whether the gateway's thread is almost idle */
export function paceOf(effort: Effort, isIdle: () => boolean, signal: AbortSignal): Pace {
  if (effort !== 'idle') return restingPace(restFactors[effort], signal);
  const yielding = restingPace(0, signal);
  return async () => {
    while (!isIdle()) await delay(idleLookMs, undefined, { signal });
    await yielding();
  };
}

/** Rests `restFactor` milliseconds for each millisecond of work; with 0 the work only yields to messages. */
export function restingPace(restFactor: number, signal: AbortSignal): Pace {
  let began = performance.now();
  return async () => {
    signal.throwIfAborted();
    const worked = performance.now() - began;
    if (worked < sliceMs) return;
    if (restFactor === 0) await nextTurn();
    else await delay(worked * restFactor);
    signal.throwIfAborted();
    began = performance.now();
  };
}
