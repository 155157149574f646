/**
 * Writes the compressed form of a closed segment, and removes the frames only after the compressed form has been read
 * back and compared. After any failure or interruption the segment is readable in one of the two forms.
 */
import { createHash } from 'node:crypto';
import { type Disk, datasync, replaceFile, writeFully } from '../disk.ts';
import type { FrameRun } from '../frame-run.ts';
import type { Manifest } from '../manifest.ts';
import { manifestText } from '../manifest-text.ts';
import { segmentFile } from '../segment.ts';
import type { StreamCategories } from '../segment-streams.ts';
import { packNow } from '../zstd.ts';
import type { Pace } from './pace.ts';
import { verifySealed } from './verify-sealed.ts';

export class SealedFile {
  readonly #disk: Disk;
  readonly #dir: string;
  readonly #name: string;
  readonly #fd: number;
  readonly #hash = createHash('sha256');
  readonly #blocks: Manifest['blocks'] = [];
  #frames = 0;
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
    this.#frames += run.frames.length;
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
    mark: number,
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
      await verifySealed({ disk: this.#disk, mark }, temporary, manifest, this.#frames, pace);
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
