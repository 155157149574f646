/** Reading a compressed segment. */
import { ClosableFile } from './closable-file.ts';
import type { Disk } from './disk.ts';
import { LogCorrupted } from './log-errors.ts';
import type { Manifest } from './manifest.ts';
import { lastIndexWhere, seekPlace } from './segment.ts';
import type { Block, SegmentBlocks } from './segment-blocks.ts';
import type { Unpack } from './zstd.ts';

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
