/**
 * A note beside the segments of the last position known to be on disk, rewritten after every sync. Other processes
 * read up to it, and the next opening compares a damaged end with it to know whether lost events were acknowledged.
 * The note itself is not synced: after a power cut it may be old, never too new.
 */
import path from 'node:path';
import { crc32 } from 'node:zlib';
import { type Disk, datasync, type FileIdentity, isMissing, syncDirectory } from './disk.ts';
import { WriterNote } from './writer-note.ts';

/** Two places, in different sectors and written in turn, so that a note that is torn leaves the one before it. */
const slots = [0, 512] as const;
const slotBytes = 16;
export const watermarkFile = 'durable';

export class Watermark {
  readonly #disk: Disk;
  readonly #fd: number;
  readonly #buffer = Buffer.alloc(slotBytes);
  /** The writer of the log: stored in the same file, and open as long as this watermark. */
  readonly writer: WriterNote;
  #turn: 0 | 1 = 0;
  #identity: FileIdentity | undefined;

  private constructor(disk: Disk, fd: number, mark: number) {
    this.#disk = disk;
    this.#fd = fd;
    this.writer = new WriterNote(disk, fd, mark);
    this.#buffer.writeUInt32LE(mark, 0);
  }

  /** Creates an empty note, which replaces any other. On disk when this resolves. */
  static async create(disk: Disk, dir: string, mark: number): Promise<Watermark> {
    const file = path.join(dir, watermarkFile);
    await disk.removeLater(file);
    const created = new Watermark(disk, disk.open(file, 'create'), mark);
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
      return new Watermark(disk, disk.open(path.join(dir, watermarkFile), mode), mark);
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
    this.#buffer.writeDoubleLE(position, 4);
    this.#buffer.writeUInt32LE(crc32(this.#buffer.subarray(0, 12)), 12);
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

  /** Whether the note is still in the folder: otherwise the log was removed, moved or replaced. */
  isIn(dir: string): boolean {
    this.#identity ??= this.#disk.identity(this.#fd);
    return this.#disk.isNamed(this.#identity, path.join(dir, watermarkFile));
  }

  /** Makes the note survive a power cut. Not after each sync: an older note claims less, and that is always true. */
  async sync(): Promise<void> {
    await datasync(this.#disk, this.#fd);
  }

  close(): void {
    this.#disk.close(this.#fd);
  }
}
