/** The end of the log on disk: writes frames, syncs them, begins new segments, and repairs after a failed sync. */
import { datasync, type Disk, syncDirectory, writeFully } from './disk.ts';
import { readFrame } from './frame.ts';
import { Segment, segmentFile } from './segment.ts';
import { SegmentStreams } from './segment-streams.ts';

export interface WrittenFrame {
  readonly buffer: Buffer;
  readonly length: number;
  readonly first: number;
  readonly count: number;
}

interface OpenSegment {
  readonly segment: Segment;
  readonly fd: number;
}

export class SegmentWriter {
  readonly #disk: Disk;
  readonly #dir: string;
  readonly #mark: number;
  readonly #segmentBytes: number;
  #active: OpenSegment;
  /** Segments before the active one that are not wholly on disk. */
  #unsynced: OpenSegment[] = [];
  #directoryChanged: boolean;
  /** Bytes of a failed write may lie behind the last whole frame. */
  #tailIsDirty = false;

  /** @param active the last segment, ending in a whole frame, with its `streams` */
  constructor(disk: Disk, dir: string, mark: number, segmentBytes: number, active: Segment) {
    this.#disk = disk;
    this.#dir = dir;
    this.#mark = mark;
    this.#segmentBytes = segmentBytes;
    this.#active = { segment: active, fd: disk.open(segmentFile(dir, active.name, 'seg'), 'write') };
    this.#directoryChanged = active.bytes === 0;
  }

  get active(): Segment {
    return this.#active.segment;
  }

  /** Appends the frame. When it throws, nothing of it will be read. */
  write(frame: WrittenFrame): void {
    const { segment, fd } = this.#active;
    if (this.#tailIsDirty) this.#cutTail();
    try {
      writeFully(this.#disk, fd, frame.buffer, 0, frame.length, segment.bytes);
    } catch (error) {
      this.#tailIsDirty = true;
      try {
        this.#cutTail();
      } catch {
        // tried again before the next write; until then a reader finds no whole frame there
      }
      throw error;
    }
    segment.notePlace(frame.first, segment.bytes);
    segment.bytes += frame.length;
  }

  /** Whether the disk would take this many bytes now; leaves no trace. */
  probe(bytes: number): void {
    const { segment, fd } = this.#active;
    this.#tailIsDirty = true;
    writeFully(this.#disk, fd, Buffer.alloc(bytes), 0, bytes, segment.bytes);
    this.#cutTail();
  }

  #cutTail(): void {
    this.#disk.truncate(this.#active.fd, this.#active.segment.bytes);
    this.#tailIsDirty = false;
  }

  /**
   * Goes on in a new segment when the active one is full, and returns the new one. A disk that refuses a new file
   * is no reason to refuse events: then the active one grows on.
   */
  rotateWhenFull(nextPosition: number): Segment | undefined {
    if (this.#active.segment.bytes < this.#segmentBytes) return undefined;
    try {
      const next = this.#create(nextPosition);
      this.#unsynced.push(this.#active);
      this.#active = next;
      return next.segment;
    } catch {
      return undefined;
    }
  }

  #create(first: number): OpenSegment {
    const segment = new Segment(first);
    const fd = this.#disk.open(segmentFile(this.#dir, segment.name, 'seg'), 'create');
    segment.streams = new SegmentStreams();
    this.#directoryChanged = true;
    return { segment, fd };
  }

  /** Brings everything written before the call to disk. `closed` gets each segment that is complete with that. */
  sync(done: (error: Error | null, closed: Segment[]) => void): void {
    const active = this.#active;
    if (this.#unsynced.length > 0 || this.#directoryChanged) {
      this.#syncAll().then(
        (closed) => done(null, closed),
        (error: Error) => done(error, []),
      );
      return;
    }
    const { bytes } = active.segment;
    this.#disk.datasync(active.fd, (error) => {
      if (error === null) active.segment.durableBytes = bytes;
      done(error, []);
    });
  }

  async #syncAll(): Promise<Segment[]> {
    const active = this.#active;
    const { bytes } = active.segment;
    const closed: Segment[] = [];
    if (this.#directoryChanged) {
      await syncDirectory(this.#disk, this.#dir);
      this.#directoryChanged = false;
    }
    for (const { segment, fd } of [...this.#unsynced]) {
      if (segment === active.segment) break;
      await datasync(this.#disk, fd);
      segment.durableBytes = segment.bytes;
      this.#disk.close(fd);
      this.#unsynced.shift();
      closed.push(segment);
    }
    await datasync(this.#disk, active.fd);
    active.segment.durableBytes = bytes;
    return closed;
  }

  /**
   * After a failed sync: what the kernel still holds of the unsynced frames cannot be trusted, although it may say that
   * all is well. Cuts them off and writes them, from memory, into a new segment; they are on disk when this resolves.
   * @returns the segments that were cut or dropped, and the new one
   */
  async rewrite(frames: readonly WrittenFrame[]): Promise<{ cut: Segment | undefined; dropped: Segment[] }> {
    const suspects = [...this.#unsynced, this.#active];
    const [oldest, ...later] = suspects;
    const first = frames[0]?.first;
    if (oldest === undefined || first === undefined) return { cut: undefined, dropped: [] };
    const keep = oldest.segment.durableBytes > 0;
    if (keep) {
      this.#disk.truncate(oldest.fd, oldest.segment.durableBytes);
      await datasync(this.#disk, oldest.fd);
    }
    const gone = keep ? later : suspects;
    // a file of an earlier attempt, or a suspect itself, may have the new one's name
    const fresh = await this.#writeFresh(first, frames, gone);
    for (const { segment, fd } of suspects) {
      this.#disk.close(fd);
      if (segment.first !== first && gone.some((member) => member.segment === segment)) {
        this.#disk.remove(segmentFile(this.#dir, segment.name, 'seg'));
      }
    }
    if (keep) {
      oldest.segment.bytes = oldest.segment.durableBytes;
      dropPlacesBeyond(oldest.segment);
    }
    this.#unsynced = [];
    this.#active = fresh;
    this.#tailIsDirty = false;
    await syncDirectory(this.#disk, this.#dir);
    this.#directoryChanged = false;
    return { cut: keep ? oldest.segment : undefined, dropped: gone.map(({ segment }) => segment) };
  }

  async #writeFresh(first: number, frames: readonly WrittenFrame[], gone: OpenSegment[]): Promise<OpenSegment> {
    void gone;
    const temporary = `${segmentFile(this.#dir, new Segment(first).name, 'seg')}.tmp`;
    try {
      this.#disk.remove(temporary);
    } catch {
      // there was none
    }
    const segment = new Segment(first);
    segment.streams = new SegmentStreams();
    const fd = this.#disk.open(temporary, 'create');
    try {
      for (const frame of frames) {
        writeFully(this.#disk, fd, frame.buffer, 0, frame.length, segment.bytes);
        const header = readFrame(frame.buffer, 0, frame.length, this.#mark);
        if (typeof header !== 'string') segment.streams.noteFrame(frame.buffer, header, segment.bytes);
        segment.notePlace(frame.first, segment.bytes);
        segment.bytes += frame.length;
      }
      await datasync(this.#disk, fd);
      this.#disk.rename(temporary, segmentFile(this.#dir, segment.name, 'seg'));
    } catch (error) {
      this.#disk.close(fd);
      throw error;
    }
    segment.durableBytes = segment.bytes;
    return { segment, fd };
  }

  close(): void {
    for (const { fd } of [...this.#unsynced, this.#active]) this.#disk.close(fd);
  }
}

function dropPlacesBeyond(segment: Segment): void {
  while ((segment.places.at(-1)?.offset ?? -1) >= segment.bytes) segment.places.pop();
}
