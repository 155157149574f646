/** Reading a segment that is not compressed. */
import { ClosableFile } from './closable-file.ts';
import type { Disk } from './disk.ts';
import { frameHeaderBytes, framePayloadBytes, readFrameHeader } from './frame.ts';
import { type SegmentPlace, seekPlace } from './segment.ts';
import type { Block, SegmentBlocks } from './segment-blocks.ts';

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
