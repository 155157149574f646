/** Copies the segments of a log into another folder, in order, so that the folder always has a beginning of the log. */

import { createHash } from 'node:crypto';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Disk, datasync, fileSize, isMissing, syncDirectory, writeFully } from '../disk.ts';
import { LogCorrupted } from '../log-errors.ts';
import type { Losses } from '../losses.ts';
import { type Manifest, manifestText, readManifest } from '../manifest.ts';
import { type ScannedSegment, scanSegment } from '../scan-segment.ts';
import { type LogFiles, segmentFile, segmentName, segmentsIn } from '../segment.ts';
import { RawBlocks, SealedBlocks, type SegmentBlocks, walkBlocks } from '../segment-blocks.ts';
import { unpackLater } from '../zstd.ts';
import type { BackupFiles } from './backup-files.ts';
import { BackupRefused } from './backup-note.ts';

const copyBytes = 1024 * 1024;
/** How often a segment is looked for again that its writer has just replaced, and how long before each. */
const mostRetries = 5;
const retryMs = 20;

export interface CopySegments {
  readonly source: LogFiles;
  readonly target: LogFiles;
  /** Of the target. */
  readonly files: BackupFiles;
  readonly losses: Losses;
  /** Position of the last event to copy; more of a compressed segment is copied with it. */
  readonly until: number;
  readonly quick: boolean;
  readonly onProgress: ((progress: CopyProgress) => void) | undefined;
  readonly signal: AbortSignal | undefined;
}

export interface CopyProgress {
  readonly segment: string;
  /** Written so far. */
  readonly bytes: number;
}

export interface CopiedSegments {
  /** Position of the last event in the folder. */
  readonly last: number;
  readonly segments: number;
  readonly copiedSegments: number;
  readonly copiedBytes: number;
  /** Names of segments that were damaged in the folder and were copied again. */
  readonly repaired: readonly string[];
}

/** @throws BackupRefused, LogCorrupted, the disk's errors, the signal's reason; the folder then has what it had, or more */
export async function copySegments(job: CopySegments): Promise<CopiedSegments> {
  const copy = new SegmentsCopy(job);
  await copy.run();
  return { ...copy.counts, last: copy.last };
}

class SegmentsCopy {
  readonly #job: CopySegments;
  readonly #segments: SourceSegments;
  readonly counts = { segments: 0, copiedSegments: 0, copiedBytes: 0, repaired: [] as string[] };
  last = 0;

  constructor(job: CopySegments) {
    this.#job = job;
    this.#segments = new SourceSegments(job.source, job.losses, job.until);
  }

  async run(): Promise<void> {
    const { target, until, losses } = this.#job;
    for (const first of segmentsIn(target.disk.list(target.dir)).keys()) {
      if (this.#segments.has(first)) continue;
      throw new BackupRefused(
        `${target.dir} has a segment that begins with position ${first}, which the log does not have (it ends at ` +
          `${until}): it is a backup of a later or another state of the log; use an empty folder`,
      );
    }
    const end = losses.lastBefore(until + 1);
    while (this.last < end) {
      const segment = await this.#openNext();
      try {
        await this.#bring(segment);
      } finally {
        segment.close();
      }
      this.last = segment.last;
      this.counts.segments++;
    }
  }

  /** The next segment. It is looked for again when the writer replaces its file at this moment. */
  async #openNext(): Promise<SourceSegment> {
    for (let attempt = 1; ; attempt++) {
      this.#job.signal?.throwIfAborted();
      try {
        return this.#segments.openAfter(this.last);
      } catch (error) {
        if (!(isMissing(error) || error instanceof LogCorrupted) || attempt === mostRetries) throw error;
        await delay(retryMs);
        this.#segments.list();
      }
    }
  }

  async #bring(segment: SourceSegment): Promise<void> {
    const { target, files, quick } = this.#job;
    let state = await compareTarget(target, segment, quick);
    if (state === 'equal') {
      const table = `${segment.name}.json`;
      if (quick || !target.disk.list(target.dir).includes(table) || (await files.isAsKnown(table))) return;
      state = 'damaged';
    }
    if (segment.sealed === undefined) await this.#copyRaw(segment);
    else await this.#copySealed(segment, segment.sealed);
    this.counts.copiedSegments++;
    if (state === 'damaged') this.counts.repaired.push(segment.name);
  }

  async #copyRaw(segment: SourceSegment): Promise<void> {
    const { source, target } = this.#job;
    const { disk, dir, mark } = target;
    const file = segmentFile(dir, segment.name, 'seg');
    await this.#writeFile(`${file}.tmp`, async (fd) => {
      let bytes = 0;
      for await (const run of walkBlocks(segment.blocks, source.mark, segment, segment.last)) {
        writeFully(disk, fd, run.buffer, run.start, run.end - run.start, run.offset);
        bytes = run.offset + run.end - run.start;
        this.#wrote(segment, run.end - run.start);
      }
      return bytes;
    });
    await checkRaw(disk, `${file}.tmp`, mark, segment);
    await this.#job.files.announce(path.basename(file), `${file}.tmp`);
    disk.rename(`${file}.tmp`, file);
    await syncDirectory(disk, dir);
    await this.#remove([`${segment.name}.json`, `${segment.name}.zst`]);
  }

  async #copySealed(segment: SourceSegment, { manifest, fd: from }: { manifest: Manifest; fd: number }): Promise<void> {
    const { source, target, files } = this.#job;
    const { disk, dir } = target;
    const file = (kind: 'seg' | 'zst' | 'json') => segmentFile(dir, segment.name, kind);
    const temporary = `${file('zst')}.tmp`;
    await this.#writeFile(temporary, async (fd) => {
      const buffer = Buffer.allocUnsafeSlow(Math.min(copyBytes, Math.max(manifest.compressedBytes, 1)));
      for (let at = 0; at < manifest.compressedBytes; ) {
        const read = await source.disk.readLater(from, buffer, 0, buffer.length, at);
        if (read === 0) throw new LogCorrupted(segment.name, at, 'its compressed file ends too early');
        writeFully(disk, fd, buffer, 0, read, at);
        at += read;
        this.#wrote(segment, read);
      }
    });
    if (!(await isSealedSound(target, segment.name, manifest, temporary))) {
      throw await this.#damaged(segment, manifest);
    }
    const table = `${file('json')}.tmp`;
    await this.#writeFile(table, async (fd) => {
      const content = Buffer.from(manifestText(manifest));
      writeFully(disk, fd, content, 0, content.length, 0);
    });
    // an uncompressed form has precedence until both files are there; one of them alone would be a damaged segment
    if (!disk.list(dir).includes(`${segment.name}.seg`)) {
      await files.announce(`${segment.name}.seg`, Buffer.alloc(0));
      disk.close(disk.open(file('seg'), 'create'));
    }
    await syncDirectory(disk, dir);
    await files.announce(`${segment.name}.zst`, temporary);
    await files.announce(`${segment.name}.json`, table);
    disk.rename(temporary, file('zst'));
    disk.rename(table, file('json'));
    await syncDirectory(disk, dir);
    await this.#remove([`${segment.name}.seg`]);
  }

  /** Whether the log or the copy is at fault. */
  async #damaged(segment: SourceSegment, manifest: Manifest): Promise<Error> {
    const { source, target } = this.#job;
    if (await isSealedSound(source, segment.name, manifest)) {
      return new BackupRefused(`segment ${segment.name} was read back from ${target.dir} with other bytes`);
    }
    return new LogCorrupted(segment.name, 0, 'its content does not have the hash that its manifest says');
  }

  /** Creates the file, fills it, and brings it to disk. After an error it is removed. */
  async #writeFile(file: string, fill: (fd: number) => Promise<unknown>): Promise<void> {
    const { disk } = this.#job.target;
    await disk.removeLater(file);
    const fd = disk.open(file, 'create');
    try {
      await fill(fd);
      await datasync(disk, fd);
    } catch (error) {
      await disk.removeLater(file);
      throw error;
    } finally {
      disk.close(fd);
    }
  }

  async #remove(names: readonly string[]): Promise<void> {
    const { disk, dir } = this.#job.target;
    for (const name of names) await this.#job.files.remove(name);
    await syncDirectory(disk, dir);
  }

  #wrote(segment: SourceSegment, bytes: number): void {
    this.counts.copiedBytes += bytes;
    this.#job.onProgress?.({ segment: segment.name, bytes: this.counts.copiedBytes });
    this.#job.signal?.throwIfAborted();
  }
}

/** Reads the copied frames back. */
async function checkRaw(disk: Disk, file: string, mark: number, segment: SourceSegment): Promise<void> {
  const blocks = new RawBlocks(disk, disk.open(file, 'read'), mark, []);
  try {
    for await (const _ of walkBlocks(blocks, mark, segment, segment.last));
  } finally {
    blocks.close();
  }
}

// What a backup's folder has of a segment already, compared with the log.

/** `equal`: nothing to copy. `older`: the beginning of it. `damaged`: files that cannot be read. */
type TargetState = 'absent' | 'equal' | 'older' | 'damaged';

/**
 * @param quick compares compressed segments by their manifests and sizes, without reading them
 * @throws BackupRefused when the folder has other events, or more of them
 */
async function compareTarget(target: LogFiles, source: SourceSegment, quick: boolean): Promise<TargetState> {
  const files = target.disk.list(target.dir);
  const has = (kind: 'seg' | 'zst' | 'json') =>
    files.includes(path.basename(segmentFile(target.dir, source.name, kind)));
  if (has('seg')) return compareRaw(target, source);
  if (has('zst') && has('json')) return compareSealed(target, source, quick);
  return has('zst') || has('json') ? 'damaged' : 'absent';
}

async function compareSealed(target: LogFiles, source: SourceSegment, quick: boolean): Promise<TargetState> {
  const { disk, dir } = target;
  let manifest: Manifest;
  try {
    manifest = readManifest(disk, dir, source.name);
  } catch (error) {
    if (error instanceof LogCorrupted) return 'damaged';
    throw error;
  }
  const { sealed } = source;
  const sameManifest = sealed !== undefined && sealed.manifest.sha256 === manifest.sha256;
  if (sameManifest && quick) {
    return fileSize(disk, segmentFile(dir, source.name, 'zst')) === manifest.compressedBytes ? 'equal' : 'damaged';
  }
  if (!(await isSealedSound(target, source.name, manifest))) return 'damaged';
  if (sameManifest || (sealed === undefined && (await hashOf(source, target.mark)) === manifest.sha256)) return 'equal';
  throw otherEvents(dir, source.name);
}

/** Whether the compressed segment has the frames and the hash that its manifest says. @param file default: its usual one */
async function isSealedSound(
  { disk, dir, mark }: LogFiles,
  name: string,
  manifest: Manifest,
  file = segmentFile(dir, name, 'zst'),
): Promise<boolean> {
  const segment = openSealedFile(disk, file, name, manifest);
  try {
    const isWhole = segment.sealed !== undefined && disk.size(segment.sealed.fd) === manifest.compressedBytes;
    return isWhole && (await hashOf(segment, mark)) === manifest.sha256;
  } catch (error) {
    if (error instanceof LogCorrupted) return false;
    throw error;
  } finally {
    segment.close();
  }
}

async function hashOf(segment: SourceSegment, mark: number): Promise<string> {
  const hash = createHash('sha256');
  for await (const run of walkBlocks(segment.blocks, mark, segment, segment.last)) {
    hash.update(run.buffer.subarray(run.start, run.end));
  }
  return hash.digest('hex');
}

async function compareRaw(target: LogFiles, source: SourceSegment): Promise<TargetState> {
  const { disk, dir, mark } = target;
  let found: ScannedSegment;
  try {
    found = scanSegment(disk, dir, mark, source.first);
  } catch (error) {
    if (error instanceof LogCorrupted) return 'damaged';
    throw error;
  }
  if (found.last > source.last) {
    throw new BackupRefused(
      `${dir} has events up to position ${found.last} in segment ${source.name}, the log up to ${source.last}: ` +
        'it is a backup of a later or another state of the log; use an empty folder',
    );
  }
  const fd = disk.open(segmentFile(dir, source.name, 'seg'), 'read');
  try {
    for await (const run of walkBlocks(source.blocks, mark, source, found.last)) {
      const length = run.end - run.start;
      const there = Buffer.allocUnsafeSlow(length);
      const read = await disk.readLater(fd, there, 0, length, run.offset);
      if (!there.subarray(0, read).equals(run.buffer.subarray(run.start, run.end))) {
        throw otherEvents(dir, source.name);
      }
    }
  } finally {
    disk.close(fd);
  }
  if (found.defect !== undefined) return 'damaged';
  return found.last === source.last && source.sealed === undefined ? 'equal' : 'older';
}

function otherEvents(dir: string, name: string): BackupRefused {
  return new BackupRefused(
    `${dir} has other events in segment ${name} than the log: the log or the backup was continued by itself; ` +
      'use an empty folder',
  );
}

// The segments of a log that is copied, in whichever form each is at the moment. Its writer may be running.

/** One segment whose files are open: they stay readable when the writer replaces them. */
interface SourceSegment {
  readonly name: string;
  readonly first: number;
  /** Position of the last event to copy. */
  readonly last: number;
  /** Present when it is compressed. */
  readonly sealed?: { readonly manifest: Manifest; readonly fd: number };
  readonly blocks: SegmentBlocks;
  close(): void;
}

class SourceSegments {
  readonly #log: LogFiles;
  readonly #losses: Losses;
  /** Position of the last event to copy. */
  readonly #until: number;
  #firsts: number[] = [];

  constructor(log: LogFiles, losses: Losses, until: number) {
    this.#log = log;
    this.#losses = losses;
    this.#until = until;
    this.list();
  }

  /** Reads the directory again. */
  list(): void {
    const { disk, dir } = this.#log;
    this.#firsts = [...segmentsIn(disk.list(dir)).keys()].filter((first) => first <= this.#until);
  }

  has(first: number): boolean {
    return this.#firsts.includes(first);
  }

  /**
   * Opens the segment after that position.
   * @throws LogCorrupted, ENOENT: also when the writer has replaced a file since the directory was read
   */
  openAfter(position: number): SourceSegment {
    const at = this.#firsts.findIndex((one) => one > position);
    const first = this.#firsts[at] ?? this.#until + 1;
    const before = this.#losses.lastBefore(first);
    if (before !== position) {
      throw new LogCorrupted(segmentName(position + 1), 0, `positions ${position + 1} to ${before} are missing`);
    }
    const following = this.#firsts[at + 1];
    const end = following === undefined ? this.#until : this.#losses.lastBefore(following);
    return openRaw(this.#log, first, Math.min(end, this.#until)) ?? openSealed(this.#log, first, following, end);
  }
}

function openRaw({ disk, dir, mark }: LogFiles, first: number, last: number): SourceSegment | undefined {
  const name = segmentName(first);
  try {
    const blocks = new RawBlocks(disk, disk.open(segmentFile(dir, name, 'seg'), 'read'), mark, []);
    return { name, first, last, blocks, close: () => blocks.close() };
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** All of the segment: it was on disk as a whole before it was compressed. */
function openSealed({ disk, dir }: LogFiles, first: number, following: number | undefined, end: number): SourceSegment {
  const name = segmentName(first);
  const manifest = readManifest(disk, dir, name);
  if (manifest.first === first && manifest.last < end) {
    throw new LogCorrupted(name, manifest.rawBytes, `positions ${manifest.last + 1} to ${end} are missing after it`);
  }
  if (manifest.first !== first || (following !== undefined && manifest.last !== end)) {
    throw new LogCorrupted(name, 0, `its manifest says positions ${manifest.first} to ${manifest.last}`);
  }
  return openSealedFile(disk, segmentFile(dir, name, 'zst'), name, manifest);
}

/** @param file the compressed blocks that the manifest describes */
function openSealedFile(disk: Disk, file: string, name: string, manifest: Manifest): SourceSegment {
  const fd = disk.open(file, 'read');
  const blocks = new SealedBlocks(disk, fd, name, manifest, unpackLater);
  const { first, last } = manifest;
  return { name, first, last, sealed: { manifest, fd }, blocks, close: () => blocks.close() };
}
