/** Reads the frames that have just become visible, each once, for the live subscriptions. */
import { PublishedBatch } from '../embedded/batch.ts';
import { type Disk, isMissing } from '../embedded/disk.ts';
import type { VisibleEnd } from '../embedded/embedded-log.ts';
import type { RecordReader } from '../embedded/event-record.ts';
import { readFrame } from '../embedded/frame.ts';
import { segmentFile, segmentName } from '../embedded/segment.ts';
import type { LiveBatch } from '../subscription.ts';

/** More is left to the subscriptions, which read it block by block. */
const maxBytes = 1024 * 1024;

export interface LiveFramesParts {
  readonly disk: Disk;
  readonly dir: string;
  readonly mark: number;
  readonly records: RecordReader;
  readonly publish: (batch: LiveBatch) => void;
}

export class LiveFrames {
  readonly #log: LiveFramesParts;
  #file: { readonly segment: number; readonly fd: number } | undefined;
  #buffer: Buffer = Buffer.allocUnsafeSlow(64 * 1024);

  constructor(log: LiveFramesParts) {
    this.#log = log;
  }

  /**
   * Publishes everything between the two ends, with synchronous reads: the operating system has these bytes in memory.
   * @returns false when something of it was not published
   */
  publish(from: VisibleEnd, to: VisibleEnd): boolean {
    const bytes = to.bytes - from.bytes;
    if (from.segment !== to.segment || bytes > maxBytes || bytes <= 0) return false;
    if (this.#buffer.length < bytes) this.#buffer = Buffer.allocUnsafeSlow(maxBytes);
    const fd = this.#open(to.segment);
    if (fd === undefined || this.#log.disk.read(fd, this.#buffer, 0, bytes, from.bytes) < bytes) return false;
    let position = from.position;
    for (let at = 0; at < bytes; ) {
      const frame = readFrame(this.#buffer, at, bytes, this.#log.mark);
      if (typeof frame === 'string' || frame.first !== position + 1) return false;
      const { start, end, first, count } = frame;
      this.#log.publish(new PublishedBatch({ buffer: this.#buffer, start, end, first, count }, this.#log.records));
      position = frame.last;
      at = frame.end;
    }
    return position === to.position;
  }

  #open(segment: number): number | undefined {
    if (this.#file?.segment === segment) return this.#file.fd;
    this.close();
    const { disk, dir } = this.#log;
    try {
      const fd = disk.open(segmentFile(dir, segmentName(segment), 'seg'), 'read');
      this.#file = { segment, fd };
      return fd;
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  close(): void {
    if (this.#file !== undefined) this.#log.disk.close(this.#file.fd);
    this.#file = undefined;
  }
}
