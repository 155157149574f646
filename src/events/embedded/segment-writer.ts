/** The end of the log on disk: writes frames, syncs them, begins new segments, and repairs after a failed sync. */
import { type Disk, datasync, isMissing, syncDirectory, writeFully } from './disk.ts';
import { readFrame } from './frame.ts';
import { rewrittenFile, Segment, SegmentStreams, segmentFile } from './segment.ts';

export interface WrittenFrame {
  readonly buffer: Buffer;
  readonly length: number;
  readonly first: number;
  readonly count: number;
}

interface OpenSegment {
  readonly segment: Segment;
  readonly fd: number;
  /** Up to here the file has room: behind the last frame it holds zeros. */
  laidOutBytes: number;
}

export interface SegmentSizes {
  /** From this size on, a segment is full. */
  readonly segmentBytes: number;
  /**
   * Zeros that are written behind the frames whenever those have reached the end of the file, up to `segmentBytes`.
   * Frames that overwrite them change neither the size nor the blocks of the file, so a sync has only them to write.
   */
  readonly layOutBytes: number;
}

export class SegmentWriter {
  readonly #disk: Disk;
  readonly #dir: string;
  readonly #mark: number;
  readonly #segmentBytes: number;
  readonly #zeros: Buffer;
  #active: OpenSegment;
  /** Segments before the active one that are not wholly on disk. */
  #unsynced: OpenSegment[] = [];
  #directoryChanged: boolean;
  /** Bytes of a failed write may lie behind the last whole frame. */
  #tailIsDirty = false;
  /** The segment that was rewritten and the segments that it replaces, until these are removed. */
  #unfinished: { readonly fresh: string; readonly kept: Segment | undefined; readonly replaced: string[] } | undefined;

  /** @param active the last segment, ending in a whole frame, with its `streams` */
  constructor(disk: Disk, dir: string, mark: number, { segmentBytes, layOutBytes }: SegmentSizes, active: Segment) {
    this.#disk = disk;
    this.#dir = dir;
    this.#mark = mark;
    this.#segmentBytes = segmentBytes;
    this.#zeros = Buffer.alloc(layOutBytes);
    const fd = disk.open(segmentFile(dir, active.name, 'seg'), 'write');
    this.#active = { segment: active, fd, laidOutBytes: active.bytes };
    // These bytes are from a process that was killed: they may be more than zeros.
    this.#tailIsDirty = disk.size(fd) > active.bytes;
    this.#directoryChanged = active.bytes === 0;
  }

  get active(): Segment {
    return this.#active.segment;
  }

  /** Appends the frame. When it throws, nothing of it will be read. */
  write(frame: WrittenFrame): void {
    const { segment, fd } = this.#active;
    if (this.#tailIsDirty) this.#cutTail();
    this.#layOut(segment.bytes + frame.length);
    try {
      writeFully(this.#disk, fd, frame.buffer, 0, frame.length, segment.bytes);
    } catch (error) {
      this.#tailIsDirty = true;
      try {
        this.#cutTail();
      } catch {
        // tried again before the next write; until then a reader finds no whole frame there
      }
      throw inFolder(this.#dir, error);
    }
    segment.notePlace(frame.first, segment.bytes);
    segment.bytes += frame.length;
  }

  /** Makes room behind a frame that is about to be written and ends at `end`. Without room on the disk, there is none. */
  #layOut(end: number): void {
    const active = this.#active;
    const bytes = Math.min(this.#zeros.length, this.#segmentBytes - end);
    if (end <= active.laidOutBytes || bytes <= 0) return;
    // Also set when the write fails: the following frames are then written without this room.
    active.laidOutBytes = end + bytes;
    try {
      this.#disk.write(active.fd, this.#zeros, 0, bytes, end);
    } catch {
      // the frame itself finds out whether the disk takes it
    }
  }

  /** Whether the disk accepts this many bytes now; the test bytes are removed. */
  probe(bytes: number): void {
    const { segment, fd } = this.#active;
    this.#tailIsDirty = true;
    try {
      writeFully(this.#disk, fd, Buffer.alloc(bytes), 0, bytes, segment.bytes);
    } catch (error) {
      throw inFolder(this.#dir, error);
    }
    this.#cutTail();
  }

  #cutTail(): void {
    this.#disk.truncate(this.#active.fd, this.#active.segment.bytes);
    this.#active.laidOutBytes = this.#active.segment.bytes;
    this.#tailIsDirty = false;
  }

  /**
   * Makes a new segment active when the active one is full, and returns the new one. When the disk refuses a new file,
   * events are still accepted: the active segment keeps growing, and the disk's error is returned.
   */
  rotateWhenFull(nextPosition: number): Segment | Error | undefined {
    if (this.#active.segment.bytes < this.#segmentBytes) return undefined;
    try {
      const next = this.#create(nextPosition);
      this.#unsynced.push(this.#active);
      this.#active = next;
      return next.segment;
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error));
    }
  }

  #create(first: number): OpenSegment {
    const segment = new Segment(first);
    const fd = this.#disk.open(segmentFile(this.#dir, segment.name, 'seg'), 'create');
    segment.streams = new SegmentStreams();
    this.#directoryChanged = true;
    return { segment, fd, laidOutBytes: 0 };
  }

  /** Brings everything written before the call to disk. `closed`: with that, full segments are wholly there. */
  sync(done: (error: Error | null, closed: boolean) => void): void {
    const active = this.#active;
    if (this.#unsynced.length > 0 || this.#directoryChanged) {
      this.#syncAll().then(
        (closed) => done(null, closed),
        (error: unknown) => done(inFolder(this.#dir, error), false),
      );
      return;
    }
    const { bytes } = active.segment;
    this.#disk.datasync(active.fd, (error) => {
      if (error === null) active.segment.durableBytes = bytes;
      done(error === null ? null : inFolder(this.#dir, error), false);
    });
  }

  async #syncAll(): Promise<boolean> {
    const active = this.#active;
    const { bytes } = active.segment;
    const full = [...this.#unsynced];
    if (this.#directoryChanged) {
      // it may change again while this one is under way
      this.#directoryChanged = false;
      await syncDirectory(this.#disk, this.#dir).catch((error: unknown) => {
        this.#directoryChanged = true;
        throw error;
      });
    }
    for (const { fd } of full) await datasync(this.#disk, fd);
    await datasync(this.#disk, active.fd);
    // only after all syncs: when one of them fails, `rewrite` needs all of these segments
    for (const { segment, fd } of full) {
      segment.durableBytes = segment.bytes;
      this.#disk.close(fd);
    }
    this.#unsynced.splice(0, full.length);
    active.segment.durableBytes = bytes;
    return full.length > 0;
  }

  /**
   * For use after a failed sync: the kernel's copy of the unsynced frames cannot be trusted, even if a later sync
   * succeeds. Writes the frames from memory into a new segment beside those that hold them; it is on disk when this
   * resolves, and the next opening finds it if the process ends before `finishRewrite`. Nothing is removed until then.
   * When it rejects it may be called again.
   * @param frames all that is not on disk, in order; at least one
   * @returns a function that makes the new segment the active one and returns the segment that was cut, if it still has
   *   events: to be called at once, together with the updates of everything else that refers to these segments
   */
  async rewrite(frames: readonly WrittenFrame[]): Promise<() => Segment | undefined> {
    const suspects = [...this.#unsynced, this.#active];
    const [oldest, ...later] = suspects;
    const first = frames[0]?.first;
    if (oldest === undefined || first === undefined) throw new Error('there is nothing to rewrite');
    const kept = oldest.segment.durableBytes > 0 ? oldest.segment : undefined;
    const fresh = await this.#writeAside(first, frames);
    const file = rewrittenFile(this.#dir, fresh.segment.name);
    try {
      this.#disk.rename(`${file}.tmp`, file);
      await syncDirectory(this.#disk, this.#dir);
    } catch (error) {
      this.#disk.close(fresh.fd);
      throw error;
    }
    return () => {
      // a file of the same name would be read instead of the new one
      this.#removeIfThere(segmentFile(this.#dir, fresh.segment.name, 'seg'));
      for (const { fd } of suspects) this.#disk.close(fd);
      this.#unsynced = [];
      this.#active = fresh;
      this.#tailIsDirty = false;
      this.#directoryChanged = false;
      kept?.shrinkTo(kept.durableBytes);
      const replaced = (kept === undefined ? suspects : later).map(({ segment }) => segment.name);
      this.#unfinished = { fresh: fresh.segment.name, kept, replaced };
      return kept;
    };
  }

  /** Whether a segment was rewritten and the replaced files may still exist. */
  get isRewriting(): boolean {
    return this.#unfinished !== undefined;
  }

  /** Removes what `rewrite` replaced. Nothing may be written until this has resolved; it may be called again. */
  async finishRewrite(): Promise<void> {
    if (this.#unfinished === undefined) return;
    const { fresh, kept, replaced } = this.#unfinished;
    for (const name of replaced.toReversed()) {
      if (name !== fresh) this.#removeIfThere(segmentFile(this.#dir, name, 'seg'));
    }
    if (kept !== undefined) await this.#truncate(kept);
    await syncDirectory(this.#disk, this.#dir);
    try {
      this.#disk.rename(rewrittenFile(this.#dir, fresh), segmentFile(this.#dir, fresh, 'seg'));
    } catch (error) {
      // renamed already, when an earlier call failed after that
      if (!isMissing(error)) throw error;
    }
    await syncDirectory(this.#disk, this.#dir);
    this.#unfinished = undefined;
  }

  async #truncate({ name, bytes }: Segment): Promise<void> {
    let fd: number;
    try {
      fd = this.#disk.open(segmentFile(this.#dir, name, 'seg'), 'write');
    } catch (error) {
      // compressed by now
      if (isMissing(error)) return;
      throw error;
    }
    try {
      this.#disk.truncate(fd, bytes);
      await datasync(this.#disk, fd);
    } finally {
      this.#disk.close(fd);
    }
  }

  async #writeAside(first: number, frames: readonly WrittenFrame[]): Promise<OpenSegment> {
    const segment = new Segment(first);
    const streams = new SegmentStreams();
    const temporary = `${rewrittenFile(this.#dir, segment.name)}.tmp`;
    this.#removeIfThere(temporary);
    const fd = this.#disk.open(temporary, 'create');
    try {
      for (const { buffer, length, first: position } of frames) {
        writeFully(this.#disk, fd, buffer, 0, length, segment.bytes);
        const frame = readFrame(buffer, 0, length, this.#mark);
        if (typeof frame !== 'string') streams.noteFrame(buffer, frame, segment.bytes);
        segment.notePlace(position, segment.bytes);
        segment.bytes += length;
      }
      await datasync(this.#disk, fd);
    } catch (error) {
      this.#disk.close(fd);
      throw error;
    }
    segment.durableBytes = segment.bytes;
    segment.streams = streams;
    return { segment, fd, laidOutBytes: segment.bytes };
  }

  #removeIfThere(file: string): void {
    try {
      this.#disk.remove(file);
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }

  /** Removes unused zeros at the end, so that a closed log contains frames only. */
  close(): void {
    try {
      this.#cutTail();
    } catch {
      // zeros at the end of the file are no frames
    }
    for (const { fd } of [...this.#unsynced, this.#active]) this.#disk.close(fd);
  }
}

/** Errors of open files do not name them. */
function inFolder(dir: string, error: unknown): Error {
  const { message, code, path }: NodeJS.ErrnoException = error instanceof Error ? error : new Error(String(error));
  const named = new Error(path === undefined ? `${message} (in ${dir})` : message, { cause: error });
  return Object.assign(named, { path: path ?? dir }, code === undefined ? {} : { code });
}

/** Whether full segments are replaced by new ones, indexed and compressed. Events are accepted in any case. */
type RotationStep = 'begin' | 'archive';

const messages: Readonly<Record<RotationStep, string>> = {
  begin: 'a new segment of the event log cannot be created; the full one keeps growing',
  archive: 'a full segment of the event log cannot be indexed or compressed; it stays as it is for now',
};

export class RotationHealth {
  readonly #warn: (message: string, error: unknown) => void;
  readonly #failing = new Map<RotationStep, string>();
  #failures = 0;

  constructor(warn: (message: string, error: unknown) => void) {
    this.#warn = warn;
  }

  /** Failed attempts so far. */
  get failures(): number {
    return this.#failures;
  }

  /** The present failure; undefined when there is none. */
  get lastError(): string | undefined {
    return this.#failing.size === 0 ? undefined : [...this.#failing.values()].join('; ');
  }

  /** Warns once for each reason: attempts may be many. */
  failed(step: RotationStep, error: unknown): void {
    this.#failures++;
    const lastError = `${messages[step]}: ${error instanceof Error ? error.message : String(error)}`;
    if (this.#failing.get(step) === lastError) return;
    this.#failing.set(step, lastError);
    this.#warn(messages[step], error);
  }

  succeeded(step: RotationStep): void {
    this.#failing.delete(step);
  }
}
