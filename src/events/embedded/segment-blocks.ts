/** Reading one segment, compressed or not, as blocks of whole frames. */
import { promisify } from 'node:util';
import { zstdDecompress } from 'node:zlib';
import type { Disk } from './disk.ts';
import { frameHeaderBytes, readFrameHeader } from './frame.ts';
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
   */
  read(offset: number, wishedBytes?: number): Promise<Block | undefined>;
  /** Offset of a frame at or before the position. */
  seek(position: number): number;
  close(): void;
}

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
    const manifest = await readManifest(dir, name);
    return new SealedBlocks(disk, disk.open(segmentFile(dir, name, 'zst'), 'read'), name, manifest);
  } catch (error) {
    throw isMissing(error) ? new LogCorrupted(name, 0, 'its files are missing', error) : error;
  }
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

class RawBlocks implements SegmentBlocks {
  readonly #disk: Disk;
  readonly #fd: number;
  readonly #mark: number;
  readonly #places: readonly SegmentPlace[];
  #buffer = Buffer.alloc(0);
  #reading = false;
  #closed = false;

  constructor(disk: Disk, fd: number, mark: number, places: readonly SegmentPlace[]) {
    this.#disk = disk;
    this.#fd = fd;
    this.#mark = mark;
    this.#places = places;
  }

  async read(offset: number, wishedBytes = 128 * 1024): Promise<Block | undefined> {
    this.#reading = true;
    try {
      let end = await this.#fill(offset, wishedBytes);
      if (end === 0) return undefined;
      const header = readFrameHeader(this.#buffer, 0, end, this.#mark);
      const needed = typeof header === 'string' ? frameHeaderBytes : header.end;
      if (needed > end) end = await this.#fill(offset, needed);
      return { buffer: this.#buffer, start: 0, end };
    } finally {
      this.#reading = false;
      if (this.#closed) this.#disk.close(this.#fd);
    }
  }

  async #fill(offset: number, bytes: number): Promise<number> {
    if (this.#buffer.length < bytes) this.#buffer = Buffer.allocUnsafeSlow(bytes);
    return this.#disk.readLater(this.#fd, this.#buffer, 0, bytes, offset);
  }

  seek(position: number): number {
    return seekPlace(this.#places, position)?.offset ?? 0;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    // never under a read in flight: the number could by then be another file's
    if (!this.#reading) this.#disk.close(this.#fd);
  }
}

class SealedBlocks implements SegmentBlocks {
  readonly #disk: Disk;
  readonly #fd: number;
  readonly #name: string;
  readonly #manifest: Manifest;
  #loaded: { index: number; buffer: Buffer } | undefined;
  #reading = false;
  #closed = false;

  constructor(disk: Disk, fd: number, name: string, manifest: Manifest) {
    this.#disk = disk;
    this.#fd = fd;
    this.#name = name;
    this.#manifest = manifest;
  }

  async read(offset: number): Promise<Block | undefined> {
    const { blocks, rawBytes } = this.#manifest;
    if (offset >= rawBytes) return undefined;
    const index = lastIndexWhere(blocks, (block) => block.offset <= offset);
    const block = blocks[index];
    if (block === undefined) throw new LogCorrupted(this.#name, offset, 'its manifest has no block for this place');
    if (this.#loaded?.index !== index) this.#loaded = { index, buffer: await this.#load(index) };
    const { buffer } = this.#loaded;
    return { buffer, start: offset - block.offset, end: buffer.length };
  }

  async #load(index: number): Promise<Buffer> {
    const { blocks, rawBytes, compressedBytes } = this.#manifest;
    const { at = 0, offset = 0 } = blocks[index] ?? {};
    const length = (blocks[index + 1]?.at ?? compressedBytes) - at;
    const rawLength = (blocks[index + 1]?.offset ?? rawBytes) - offset;
    this.#reading = true;
    try {
      const compressed = Buffer.allocUnsafeSlow(length);
      const read = await this.#disk.readLater(this.#fd, compressed, 0, length, at);
      const raw = await decompress(compressed.subarray(0, read), { maxOutputLength: Math.max(rawLength, 1) });
      if (raw.length !== rawLength) throw new Error(`${raw.length} bytes instead of ${rawLength}`);
      return raw;
    } catch (error) {
      throw new LogCorrupted(this.#name, offset, 'a compressed block cannot be unpacked', error);
    } finally {
      this.#reading = false;
      if (this.#closed) this.#disk.close(this.#fd);
    }
  }

  seek(position: number): number {
    return seekPlace(this.#manifest.blocks, position)?.offset ?? 0;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (!this.#reading) this.#disk.close(this.#fd);
  }
}
