/**
 * A note beside the segments of the last position known to be on disk, rewritten after every sync. Other processes
 * read up to it, and the next opening compares a damaged end with it to know whether lost events were acknowledged.
 * The note itself is not synced: after a power cut it may be old, never too new.
 */

import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { type Disk, datasync, type FileIdentity, isMissing, syncDirectory } from './disk.ts';

// Names the writer of the log, in the file of the watermark. The lock excludes a second writer where the file system
// keeps locks; where a lock is lost (network file systems), the first writer learns from the note that it was replaced.
//
// A writer writes its note before it looks for the end of the log, and reads the note before each acknowledgement. So
// every acknowledged event was in the log when the next writer looked for its end.

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

class WriterNote {
  readonly #disk: Disk;
  readonly #fd: number;
  readonly #mark: number;
  /** This writer's own note, as it was written last. */
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
    if (this.#isNoted && this.#readNote() && this.#read.equals(this.#buffer)) return false;
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

  /** Whether there is one. */
  #readNote(): boolean {
    return this.#disk.read(this.#fd, this.#read, 0, noteBytes, noteOffset) === noteBytes;
  }

  #find(): FoundNote | undefined {
    const found = this.#read;
    if (!this.#readNote()) return undefined;
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

/** Two places, in different sectors and written in turn, so that a note that is torn leaves the one before it. */
const slots = [0, 512] as const;
const slotBytes = 16;
export const watermarkFile = 'durable';

export class Watermark {
  readonly #disk: Disk;
  readonly #file: string;
  readonly #fd: number;
  readonly #buffer = Buffer.alloc(slotBytes);
  readonly #checked = this.#buffer.subarray(0, 12);
  readonly #numbers = new DataView(this.#buffer.buffer, this.#buffer.byteOffset, slotBytes);
  /** The writer of the log: stored in the same file, and open as long as this watermark. */
  readonly writer: WriterNote;
  #turn: 0 | 1 = 0;
  #identity: FileIdentity | undefined;

  private constructor(disk: Disk, file: string, mode: 'create' | 'read' | 'write', mark: number) {
    this.#disk = disk;
    this.#file = file;
    this.#fd = disk.open(file, mode);
    this.writer = new WriterNote(disk, this.#fd, mark);
    this.#buffer.writeUInt32LE(mark, 0);
  }

  /** Creates an empty note, which replaces any other. On disk when this resolves. */
  static async create(disk: Disk, dir: string, mark: number): Promise<Watermark> {
    const file = path.join(dir, watermarkFile);
    await disk.removeLater(file);
    const created = new Watermark(disk, file, 'create', mark);
    try {
      created.reset(0);
      // once there is a note it must never be missing: without it a missing end of the log would not be noticed
      await datasync(disk, created.#fd);
      await syncDirectory(disk, dir);
      return created;
    } catch (error) {
      created.close();
      throw error;
    }
  }

  /** The content of a note of that position, without a writer. */
  static contentOf(mark: number, position: number): Buffer {
    const content = Buffer.alloc(slots[1] + slotBytes);
    for (const slot of slots) {
      content.writeUInt32LE(mark, slot);
      content.writeDoubleLE(position, slot + 4);
      content.writeUInt32LE(crc32(content.subarray(slot, slot + 12)), slot + 12);
    }
    return content;
  }

  /** The content of the note, of any log; undefined when there is none, or it is damaged. */
  static find(disk: Disk, dir: string): { readonly mark: number; readonly position: number } | undefined {
    const note = Watermark.openForReading(disk, dir, 0);
    if (note === undefined) return undefined;
    try {
      const found = slots.map((offset) => note.#readAnySlot(offset)).filter((slot) => slot !== undefined);
      return found.toSorted((a, b) => b.position - a.position)[0];
    } finally {
      note.close();
    }
  }

  static openForReading(disk: Disk, dir: string, mark: number, mode: 'read' | 'write' = 'read'): Watermark | undefined {
    try {
      return new Watermark(disk, path.join(dir, watermarkFile), mode, mark);
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  /** Makes this process the writer of the log. On disk when this resolves to whether the writer before closed the log. */
  async takeOver(): Promise<boolean> {
    const wasClosed = this.writer.takeOver(Math.floor(Date.now() / 1000));
    await this.sync();
    return wasClosed;
  }

  write(position: number): void {
    this.#turn = this.#turn === 0 ? 1 : 0;
    this.#writeSlot(slots[this.#turn], position);
  }

  /** Replaces an earlier note that was higher. */
  reset(position: number): void {
    for (const slot of slots) this.#writeSlot(slot, position);
  }

  #writeSlot(offset: number, position: number): void {
    this.#numbers.setFloat64(4, position, true);
    this.#numbers.setUint32(12, crc32(this.#checked), true);
    try {
      this.#disk.write(this.#fd, this.#buffer, 0, slotBytes, offset);
    } catch {
      // an older note claims less, and that is always true
    }
  }

  /** The latest of the notes; undefined when there is no good one. */
  read(): number | undefined {
    const positions = slots.map((offset) => this.#readSlot(offset)).filter((position) => position !== undefined);
    return positions.length === 0 ? undefined : Math.max(...positions);
  }

  #readSlot(offset: number): number | undefined {
    const found = this.#readAnySlot(offset);
    return found?.mark === this.#buffer.readUInt32LE(0) ? found.position : undefined;
  }

  #readAnySlot(offset: number): { readonly mark: number; readonly position: number } | undefined {
    const found = Buffer.alloc(slotBytes);
    if (this.#disk.read(this.#fd, found, 0, slotBytes, offset) < slotBytes) return undefined;
    if (found.readUInt32LE(12) !== crc32(found.subarray(0, 12))) return undefined;
    return { mark: found.readUInt32LE(0), position: found.readDoubleLE(4) };
  }

  /** Whether the note is still in its folder: otherwise the log was removed, moved or replaced. */
  isInPlace(): boolean {
    this.#identity ??= this.#disk.identity(this.#fd);
    return this.#disk.isNamed(this.#identity, this.#file);
  }

  /** Makes the note survive a power cut. Not after each sync: an older note claims less, and that is always true. */
  async sync(): Promise<void> {
    await datasync(this.#disk, this.#fd);
  }

  close(): void {
    this.#disk.close(this.#fd);
  }
}
