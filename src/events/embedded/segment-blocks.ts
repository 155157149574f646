/** A segment as blocks of whole frames, whichever form it is in. */

import { ClosableFile, type Disk, isMissing } from './disk.ts';
import type { RecordReader } from './event-record.ts';
import {
  type BatchFrame,
  type FrameRun,
  frameHeaderBytes,
  framePayloadBytes,
  readFrame,
  readFrameHeader,
} from './frame.ts';
import { LogCorrupted } from './log-errors.ts';
import { type Manifest, readManifest } from './manifest.ts';
import {
  type LogFiles,
  lastIndexWhere,
  placeEveryBytes,
  rewrittenFile,
  type SegmentPlace,
  seekPlace,
  segmentFile,
} from './segment.ts';
import { type Unpack, unpackLater } from './zstd.ts';

/** A segment as a reader needs it. */
export interface ReadableSegment {
  readonly first: number;
  readonly name: string;
  readonly places: readonly SegmentPlace[];
}

/** The segments of an open log as its readers need them. */
export interface ReadableSegments extends LogFiles {
  readonly records: RecordReader;
  /** Position of the last event that may be read. */
  visible(): number;
  /** The segment that holds the position. */
  segmentOf(position: number): ReadableSegment | undefined;
  /** The position after the segment's last event; infinite for the last segment. */
  endOf(segment: ReadableSegment): number;
  /** The last of the accepted lost positions from that one on; undefined when that one is not lost. */
  lostUntil(position: number): number | undefined;
  /** Called with each error of a read, which may be a `LogCorrupted`. */
  readonly readFailed?: (error: unknown) => void;
}

export interface Block {
  readonly buffer: Buffer;
  /** The requested offset of the segment is at `buffer[start]`. */
  readonly start: number;
  readonly end: number;
}

export interface SegmentBlocks {
  /**
   * Bytes from `offset`, where a frame begins: the first frame whole (if the file has it whole), probably more.
   * Undefined at the end of the segment. The bytes stay valid until the next `read`.
   * @param requestedBytes how much to read when the form of the segment leaves the choice
   * @param readAhead begins to read the following bytes, for a caller that will read them next
   */
  read(offset: number, requestedBytes: number, readAhead: boolean): Promise<Block | undefined>;
  /** Offset of a frame at or before the position. */
  seek(position: number): number;
  close(): void;
}

// Reading a segment that is not compressed.

/** A read that was begun ahead. */
interface ReadAhead {
  readonly offset: number;
  readonly buffer: Buffer;
  readonly bytes: Promise<number>;
}

export class RawBlocks implements SegmentBlocks {
  readonly #file: ClosableFile;
  readonly #mark: number;
  readonly #places: readonly SegmentPlace[];
  #buffer: Buffer = Buffer.alloc(0);
  #spare: Buffer = Buffer.alloc(0);
  #ahead: ReadAhead | undefined;

  constructor(disk: Disk, fd: number, mark: number, places: readonly SegmentPlace[]) {
    this.#file = new ClosableFile(disk, fd);
    this.#mark = mark;
    this.#places = places;
  }

  async read(offset: number, requestedBytes: number, readAhead: boolean): Promise<Block | undefined> {
    let end = (await this.#useReadAhead(offset)) ?? (await this.#fill(offset, requestedBytes));
    if (end === 0) return undefined;
    const header = readFrameHeader(this.#buffer, 0, end, this.#mark);
    const needed = typeof header === 'string' ? frameHeaderBytes : header.end;
    if (needed > end) end = await this.#fill(offset, needed);
    // a read that was not short has probably not reached the end of the file
    if (readAhead && end >= requestedBytes)
      this.#readAheadFrom(offset + endOfFrames(this.#buffer, end), requestedBytes);
    return { buffer: this.#buffer, start: 0, end };
  }

  async #fill(offset: number, bytes: number): Promise<number> {
    if (this.#buffer.length < bytes) this.#buffer = Buffer.allocUnsafeSlow(bytes);
    return this.#file.read(this.#buffer, bytes, offset);
  }

  #readAheadFrom(offset: number, length: number): void {
    if (this.#file.closed) return;
    const buffer = this.#spare.length >= length ? this.#spare : Buffer.allocUnsafeSlow(length);
    this.#spare = Buffer.alloc(0);
    const bytes = this.#file.read(buffer, length, offset);
    bytes.catch(() => {});
    this.#ahead = { offset, buffer, bytes };
  }

  async #useReadAhead(offset: number): Promise<number | undefined> {
    const ahead = this.#ahead;
    this.#ahead = undefined;
    if (ahead === undefined) return undefined;
    const end = await ahead.bytes.catch(() => 0);
    this.#spare = ahead.buffer;
    // an empty one was begun too early, before the bytes were written
    if (ahead.offset !== offset || end === 0) return undefined;
    this.#spare = this.#buffer;
    this.#buffer = ahead.buffer;
    return end;
  }

  seek(position: number): number {
    return seekPlace(this.#places, position)?.offset ?? 0;
  }

  close(): void {
    this.#file.close();
  }
}

/** End of the last complete frame, by the lengths alone: sufficient for a guess of the next read. */
function endOfFrames(buffer: Buffer, end: number): number {
  let at = 0;
  while (at + frameHeaderBytes <= end) {
    const next = at + frameHeaderBytes + framePayloadBytes(buffer, at);
    if (next > end) break;
    at = next;
  }
  return at;
}

// Reading a compressed segment.

/** Enough to keep both the thread pool and the reader busy. */
const blocksAhead = 2;

export class SealedBlocks implements SegmentBlocks {
  readonly #file: ClosableFile;
  readonly #name: string;
  readonly #manifest: Manifest;
  readonly #unpack: Unpack;
  /** The block that was read last, and those that will probably be read next. */
  readonly #loaded = new Map<number, Promise<Buffer>>();

  constructor(disk: Disk, fd: number, name: string, manifest: Manifest, unpack: Unpack) {
    this.#file = new ClosableFile(disk, fd);
    this.#name = name;
    this.#manifest = manifest;
    this.#unpack = unpack;
  }

  async read(offset: number, _requestedBytes: number, readAhead: boolean): Promise<Block | undefined> {
    const { blocks, rawBytes } = this.#manifest;
    if (offset >= rawBytes) return undefined;
    const index = lastIndexWhere(blocks, (candidate) => candidate.offset <= offset);
    const block = blocks[index];
    if (block === undefined) throw new LogCorrupted(this.#name, offset, 'its manifest has no block for this place');
    const wanted = Math.min(blocks.length, index + 1 + (readAhead ? blocksAhead : 0));
    for (const loaded of this.#loaded.keys()) if (loaded < index || loaded >= wanted) this.#loaded.delete(loaded);
    for (let next = index; next < wanted; next++) if (!this.#loaded.has(next)) this.#begin(next);
    const buffer = await (this.#loaded.get(index) ?? this.#load(index));
    return { buffer, start: offset - block.offset, end: buffer.length };
  }

  #begin(index: number): void {
    const buffer = this.#load(index);
    // the error reaches the callers that wait for the block
    buffer.catch(() => {});
    this.#loaded.set(index, buffer);
  }

  async #load(index: number): Promise<Buffer> {
    const { blocks, rawBytes, compressedBytes } = this.#manifest;
    const { at = 0, offset = 0 } = blocks[index] ?? {};
    const length = (blocks[index + 1]?.at ?? compressedBytes) - at;
    const rawLength = (blocks[index + 1]?.offset ?? rawBytes) - offset;
    try {
      const compressed = Buffer.allocUnsafeSlow(length);
      const read = await this.#file.read(compressed, length, at);
      const raw = await this.#unpack(compressed.subarray(0, read), rawLength);
      if (raw.length !== rawLength) throw new Error(`${raw.length} bytes instead of ${rawLength}`);
      return raw;
    } catch (error) {
      throw new LogCorrupted(this.#name, offset, 'a compressed block cannot be unpacked', error);
    }
  }

  seek(position: number): number {
    return seekPlace(this.#manifest.blocks, position)?.offset ?? 0;
  }

  close(): void {
    this.#file.close();
  }
}

/**
 * Opens the segment by name, in whichever form it is: it may be compressed and its first form removed at any moment.
 * @param places where frames begin, as far as known
 */
export async function openBlocks(
  disk: Disk,
  dir: string,
  name: string,
  mark: number,
  places: readonly SegmentPlace[],
): Promise<SegmentBlocks> {
  try {
    return new RawBlocks(disk, disk.open(segmentFile(dir, name, 'seg'), 'read'), mark, places);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  try {
    const manifest = readManifest(disk, dir, name);
    return new SealedBlocks(disk, disk.open(segmentFile(dir, name, 'zst'), 'read'), name, manifest, unpackLater);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  try {
    return new RawBlocks(disk, disk.open(rewrittenFile(dir, name), 'read'), mark, places);
  } catch (error) {
    throw isMissing(error) ? new LogCorrupted(name, 0, 'its files are missing', error) : error;
  }
}

// Walks the frames of a segment, checking each.

/**
 * Yields the segment's frames up to the one with the position `last`. What a run holds stays valid until the next.
 * @param from where a frame begins; default the beginning of the segment
 * @throws LogCorrupted when a frame is damaged or missing
 */
export async function* walkBlocks(
  blocks: SegmentBlocks,
  mark: number,
  segment: { readonly first: number; readonly name: string },
  last: number,
  from: { readonly offset: number; readonly position: number } = { offset: 0, position: segment.first },
): AsyncGenerator<FrameRun> {
  let { offset, position: next } = from;
  while (next <= last) {
    const block = await blocks.read(offset, placeEveryBytes, true);
    if (block === undefined) throw new LogCorrupted(segment.name, offset, 'the segment ends too early');
    const frames: BatchFrame[] = [];
    let at = block.start;
    while (next <= last) {
      const frame = readFrame(block.buffer, at, block.end, mark);
      if (typeof frame === 'string') {
        if (frames.length > 0) break;
        throw new LogCorrupted(segment.name, offset, frame);
      }
      if (frame.first !== next) {
        throw new LogCorrupted(segment.name, offset + at - block.start, `position ${next} is missing here`);
      }
      frames.push(frame);
      at = frame.end;
      next = frame.last + 1;
    }
    yield { buffer: block.buffer, start: block.start, end: at, offset, frames };
    offset += at - block.start;
  }
}

// Walks all frames of a closed segment, in whichever form it is, in small steps.

/** As `walkBlocks`. */
export async function* walkSegment(log: LogFiles, segment: ReadableSegment, last: number): AsyncGenerator<FrameRun> {
  const blocks = await openBlocks(log.disk, log.dir, segment.name, log.mark, segment.places);
  try {
    yield* walkBlocks(blocks, log.mark, segment, last);
  } finally {
    blocks.close();
  }
}
