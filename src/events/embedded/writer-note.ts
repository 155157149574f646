/**
 * Names the writer of the log, in the file of the watermark. The lock excludes a second writer where the file system
 * keeps locks; where a lock is lost (network file systems), the first writer learns from the note that it was replaced.
 *
 * A writer writes its note before it looks for the end of the log, and reads the note before each acknowledgement. So
 * every acknowledged event was in the log when the next writer looked for its end.
 */
import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import type { Disk } from './disk.ts';

/** In a sector of its own. */
const noteOffset = 1024;
const noteBytes = 20;
const open = 1;
const closed = 2;

interface FoundNote {
  readonly mark: number;
  readonly writer: number;
  readonly secret: number;
  readonly state: number;
}

export class WriterNote {
  readonly #disk: Disk;
  readonly #fd: number;
  readonly #mark: number;
  readonly #buffer = Buffer.alloc(noteBytes);
  readonly #read = Buffer.alloc(noteBytes);
  #writer = 0;
  #secret = 0;
  /** The note before this writer's own. */
  #before: FoundNote | undefined;
  #isNoted = false;

  constructor(disk: Disk, fd: number, mark: number) {
    this.#disk = disk;
    this.#fd = fd;
    this.#mark = mark;
  }

  /** When this writer took over, in seconds since the epoch and later than any other; 0 before that. */
  get writer(): number {
    return this.#writer;
  }

  /**
   * Notes this process as the writer, now or, when the disk refuses, as soon as it accepts writes again. The caller has
   * to sync the file.
   * @returns whether the writer before it closed the log
   */
  takeOver(seconds: number): boolean {
    this.#before = this.#find();
    this.#writer = Math.max((this.#before?.writer ?? 0) + 1, seconds);
    this.#secret = randomBytes(4).readUInt32LE();
    this.#tryToNote();
    return this.#before?.state === closed;
  }

  /** Whether any process has been the writer of the log in this folder. */
  get isPresent(): boolean {
    return this.#find() !== undefined;
  }

  /** Whether another writer has taken over since. Costs one read of a page that is in memory. */
  isTakenOver(): boolean {
    if (this.#writer === 0) return false;
    const found = this.#find();
    if (this.#isNoted) return found !== undefined && !isSame(found, { writer: this.#writer, secret: this.#secret });
    if (found !== undefined && !isSame(found, this.#before)) return true;
    this.#tryToNote();
    return false;
  }

  #tryToNote(): void {
    try {
      this.#write(open);
      this.#isNoted = true;
    } catch {
      // the disk is full: it refuses events as well, but the log can be opened
    }
  }

  /** Notes that this writer has ended and will write nothing more. */
  close(): void {
    if (this.#writer !== 0 && !this.isTakenOver() && this.#isNoted) this.#write(closed);
  }

  #write(state: number): void {
    this.#buffer.writeUInt32LE(this.#mark, 0);
    this.#buffer.writeUInt32LE(this.#writer, 4);
    this.#buffer.writeUInt32LE(this.#secret, 8);
    this.#buffer.writeUInt32LE(state, 12);
    this.#buffer.writeUInt32LE(crc32(this.#buffer.subarray(0, 16)), 16);
    this.#disk.write(this.#fd, this.#buffer, 0, noteBytes, noteOffset);
  }

  #find(): FoundNote | undefined {
    const found = this.#read;
    if (this.#disk.read(this.#fd, found, 0, noteBytes, noteOffset) < noteBytes) return undefined;
    if (found.readUInt32LE(0) !== this.#mark || found.readUInt32LE(16) !== crc32(found.subarray(0, 16)))
      return undefined;
    return {
      mark: this.#mark,
      writer: found.readUInt32LE(4),
      secret: found.readUInt32LE(8),
      state: found.readUInt32LE(12),
    };
  }
}

type WriterName = Pick<FoundNote, 'writer' | 'secret'>;

function isSame(one: WriterName, other: WriterName | undefined): boolean {
  return one.writer === other?.writer && one.secret === other.secret;
}
