/** Finds streams in closed segments: through the index, and by reading segments that are not in it. */
import type { StreamName } from '../../event.ts';
import { restingPace } from '../archive/archive-segment.ts';
import { type IndexedPart, IndexReader, unusable } from '../archive/index-file.ts';
import { isMissing } from '../disk.ts';
import type { FrameRun } from '../frame.ts';
import { LogCorrupted } from '../log-errors.ts';
import { type Manifest, parseManifestText } from '../manifest.ts';
import { type LogFiles, segmentFile } from '../segment.ts';
import { RawBlocks, SealedBlocks, type SegmentBlocks, walkBlocks } from '../segment-blocks.ts';
import { LastRevisions, PartCollector } from '../stream-reader.ts';
import { unpackNow } from '../zstd.ts';

/** A closed segment that is not in the index. */
export interface UnindexedSegment {
  readonly name: string;
  /** Positions of its first and last event. */
  readonly first: number;
  readonly last: number;
}

export interface SearchedPlaces {
  /** Whether to query the index. */
  readonly index: boolean;
  /** Segments to be read, in order. */
  readonly unindexed: readonly UnindexedSegment[];
}

export interface StreamFinder {
  /**
   * Revision of each stream's last event there, -1 for none.
   * @throws IndexUnusable, LogCorrupted; what SQLite and the disk throw
   */
  lastRevisions(streams: readonly StreamName[], places: SearchedPlaces): Promise<ReadonlyMap<StreamName, number>>;
  /** Where the stream's events lie there, ascending. @throws the same */
  parts(stream: StreamName, places: SearchedPlaces): Promise<FoundParts>;
  /** To be called when a segment has been entered in the index. */
  indexChanged(): Promise<void>;
  /** Closes the index, whose file is to be removed; it is opened again when there is one. */
  releaseIndex(): Promise<void>;
  close(): Promise<void>;
}

export interface FoundParts {
  readonly indexed: readonly IndexedPart[];
  /** From the segments themselves. */
  readonly read: readonly IndexedPart[];
}

/** Works on the caller's thread, in small pieces. */
export class LocalStreamFinder implements StreamFinder {
  readonly #log: LogFiles;
  readonly #stop = new AbortController();
  #index: IndexReader | undefined;

  constructor(log: LogFiles) {
    this.#log = log;
  }

  async lastRevisions(
    streams: readonly StreamName[],
    places: SearchedPlaces,
  ): Promise<ReadonlyMap<StreamName, number>> {
    const found = new Map<StreamName, number>();
    const inSegment = new Map<StreamName, number>();
    for (const stream of streams) {
      const place = places.index ? this.#ask((index) => index.last(stream)) : undefined;
      found.set(stream, place?.last ?? -1);
      inSegment.set(stream, place?.segment ?? 0);
    }
    const open = new Set(streams);
    for (const segment of places.unindexed.toReversed()) {
      for (const stream of open) if ((inSegment.get(stream) ?? 0) > segment.first) open.delete(stream);
      if (open.size === 0) break;
      const here = new LastRevisions(open);
      await this.#walk(segment, (run) => here.add(run));
      for (const [stream, last] of here.found) {
        found.set(stream, last);
        open.delete(stream);
      }
    }
    return found;
  }

  async parts(stream: StreamName, places: SearchedPlaces): Promise<FoundParts> {
    const indexed = (places.index ? this.#ask((index) => index.parts(stream)) : undefined) ?? [];
    const known = new Set(indexed.map(({ segment }) => segment));
    const read: IndexedPart[] = [];
    for (const segment of places.unindexed) {
      // it has been entered in the meantime
      if (known.has(segment.first)) continue;
      const part = new PartCollector(stream);
      await this.#walk(segment, (run) => part.add(run));
      if (part.last !== -1) read.push({ segment: segment.first, last: part.last, frames: part.frames });
    }
    return { indexed, read };
  }

  async indexChanged(): Promise<void> {}

  async releaseIndex(): Promise<void> {
    this.#index?.close();
    this.#index = undefined;
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error('the log has been closed'));
    await this.releaseIndex();
  }

  #ask<Answer>(question: (index: IndexReader) => Answer): Answer | undefined {
    try {
      this.#index ??= IndexReader.open(this.#log.dir, this.#log.mark);
      return this.#index === undefined ? undefined : question(this.#index);
    } catch (error) {
      throw unusable(error);
    }
  }

  async #walk(segment: UnindexedSegment, add: (run: FrameRun) => void): Promise<void> {
    const pace = restingPace(0, this.#stop.signal);
    const blocks = openBlocksNow(this.#log, segment.name);
    try {
      for await (const run of walkBlocks(blocks, this.#log.mark, segment, segment.last)) {
        add(run);
        await pace();
      }
    } finally {
      blocks.close();
    }
  }
}

/**
 * As `openBlocks`, for a thread of its own: uses neither the thread pool nor zod. Of the manifest only the
 * checksum is checked; the frames that it points to are checked.
 */
function openBlocksNow({ disk, dir, mark }: LogFiles, name: string): SegmentBlocks {
  try {
    return new RawBlocks(disk, disk.open(segmentFile(dir, name, 'seg'), 'read'), mark, []);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  try {
    const manifest = parseManifestText(disk.readFile(segmentFile(dir, name, 'json')).toString(), name) as Manifest;
    const fd = disk.open(segmentFile(dir, name, 'zst'), 'read');
    return new SealedBlocks(disk, fd, name, manifest, async (packed, rawLength) => unpackNow(packed, rawLength));
  } catch (error) {
    throw new LogCorrupted(name, 0, 'its files are missing, or its manifest cannot be read', error);
  }
}
