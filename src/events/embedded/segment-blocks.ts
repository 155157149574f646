/** Reading one segment, compressed or not, as blocks of whole frames. */
import { promisify } from 'node:util';
import { zstdDecompress } from 'node:zlib';
import type { Disk } from './disk.ts';
import { frameHeaderBytes, framePayloadBytes, readFrameHeader } from './frame.ts';
import { LogCorrupted } from './log-errors.ts';
import { type Manifest, readManifest } from './manifest.ts';
import { lastIndexWhere, type SegmentPlace, seekPlace, segmentFile } from './segment.ts';

export interface Block {
  readonly buffer: Buffer;
  /** The asked-for offset of the segment is at `buffer[start]`. */
  readonly start: number;
  readonly end: number;
}

export interface SegmentBlocks {
  /**
   * Bytes from `offset`, where a frame begins: the first frame whole (if the file has it whole), probably more.
   * Undefined at the end of the segment. The bytes stay valid until the next `read`.
   * @param wishedBytes how much to read when the form of the segment leaves the choice
   * @param readAhead begins to read what follows, for who will ask for that next
   */
  read(offset: number, wishedBytes: number, readAhead: boolean): Promise<Block | undefined>;
  /** Offset of a frame at or before the position. */
  seek(position: number): number;
  close(): void;
}

/** Enough to keep both the thread pool and the reader busy. */
const blocksAhead = 2;
/** The least that zlib takes. */
const smallestChunkBytes = 64;

const decompress = promisify(zstdDecompress);

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
    return new SealedBlocks(disk, disk.open(segmentFile(dir, name, 'zst'), 'read'), name, manifest);
  } catch (error) {
    throw isMissing(error) ? new LogCorrupted(name, 0, 'its files are missing', error) : error;
  }
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

/** A read that was begun before anyone asked for it. */
interface ReadAhead {
  readonly offset: number;
  readonly buffer: Buffer;
  readonly bytes: Promise<number>;
}

/** A file that is closed as soon as it is not wanted any more and no read of it is under way. */
class ClosableFile {
  readonly #disk: Disk;
  readonly #fd: number;
  #reads = 0;
  #closed = false;

  constructor(disk: Disk, fd: number) {
    this.#disk = disk;
    this.#fd = fd;
  }

  async read(buffer: Buffer, length: number, position: number): Promise<number> {
    this.#reads++;
    try {
      return await this.#disk.readLater(this.#fd, buffer, 0, length, position);
    } finally {
      this.#reads--;
      // never under a read: the descriptor could by then be another file's
      if (this.#closed && this.#reads === 0) this.#disk.close(this.#fd);
    }
  }

  get closed(): boolean {
    return this.#closed;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#reads === 0) this.#disk.close(this.#fd);
  }
}

class RawBlocks implements SegmentBlocks {
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

  async read(offset: number, wishedBytes: number, readAhead: boolean): Promise<Block | undefined> {
    let end = (await this.#takeAhead(offset)) ?? (await this.#fill(offset, wishedBytes));
    if (end === 0) return undefined;
    const header = readFrameHeader(this.#buffer, 0, end, this.#mark);
    const needed = typeof header === 'string' ? frameHeaderBytes : header.end;
    if (needed > end) end = await this.#fill(offset, needed);
    // a read that got all it asked for has probably not come to the end of the file
    if (readAhead && end >= wishedBytes) this.#beginAhead(offset + endOfFrames(this.#buffer, end), wishedBytes);
    return { buffer: this.#buffer, start: 0, end };
  }

  async #fill(offset: number, bytes: number): Promise<number> {
    if (this.#buffer.length < bytes) this.#buffer = Buffer.allocUnsafeSlow(bytes);
    return this.#file.read(this.#buffer, bytes, offset);
  }

  #beginAhead(offset: number, length: number): void {
    if (this.#file.closed) return;
    const buffer = this.#spare.length >= length ? this.#spare : Buffer.allocUnsafeSlow(length);
    this.#spare = Buffer.alloc(0);
    const bytes = this.#file.read(buffer, length, offset);
    bytes.catch(() => {});
    this.#ahead = { offset, buffer, bytes };
  }

  async #takeAhead(offset: number): Promise<number | undefined> {
    const ahead = this.#ahead;
    this.#ahead = undefined;
    if (ahead === undefined) return undefined;
    const end = await ahead.bytes.catch(() => 0);
    this.#spare = ahead.buffer;
    // an empty one was begun too early, before there was anything
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

class SealedBlocks implements SegmentBlocks {
  readonly #file: ClosableFile;
  readonly #name: string;
  readonly #manifest: Manifest;
  /** The block that was asked for last, and those that will probably be asked for next. */
  readonly #loaded = new Map<number, Promise<Buffer>>();

  constructor(disk: Disk, fd: number, name: string, manifest: Manifest) {
    this.#file = new ClosableFile(disk, fd);
    this.#name = name;
    this.#manifest = manifest;
  }

  async read(offset: number, _wishedBytes: number, readAhead: boolean): Promise<Block | undefined> {
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
    // whoever asks for the block hears of it
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
      const raw = await decompress(compressed.subarray(0, read), {
        maxOutputLength: rawLength,
        // all of it in one call
        chunkSize: Math.max(rawLength, smallestChunkBytes),
      });
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

/** Where the last frame ends that is wholly there, by the lengths alone: good enough to guess what is read next. */
function endOfFrames(buffer: Buffer, end: number): number {
  let at = 0;
  while (at + frameHeaderBytes <= end) {
    const next = at + frameHeaderBytes + framePayloadBytes(buffer, at);
    if (next > end) break;
    at = next;
  }
  return at;
}
