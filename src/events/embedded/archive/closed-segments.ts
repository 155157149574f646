/**
 * Archives full segments: enters each in the stream index and compresses it, in the background, one segment at a time.
 * Until a segment is in the index its streams are kept in memory, as far as there is room for them; streams of other
 * segments that are not in the index, for example after a crash, are found by reading the segment. The finder queries
 * the index and reads segments on a thread of its own.
 */
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import { categoryOf, type StreamName } from '../../event.ts';
import { mintEventId } from '../../event-id.ts';
import type { ExpectedRevision } from '../../log.ts';
import type { Disk } from '../disk.ts';
import type { SearchedPlaces, StreamFinder } from '../find/stream-finder.ts';
import { IndexIsWrong } from '../log-errors.ts';
import { readManifest } from '../manifest.ts';
import type { LogSegments, Segment, StreamCategories } from '../segment.ts';
import { type StreamPart, visiblePart } from '../stream-reader.ts';
import type { ArchiveTask, Archivist, Effort } from './archive-segment.ts';
import {
  type IndexedPart,
  IndexReader,
  IndexUnusable,
  LookedUpRevisions,
  removeIndexFile,
  unusable,
} from './index-file.ts';

export interface ClosedSegmentsParts {
  readonly disk: Disk;
  readonly dir: string;
  readonly mark: number;
  readonly archivist: Archivist;
  readonly finder: StreamFinder;
  readonly segments: LogSegments;
  /** Whether full segments are compressed. */
  readonly seal: boolean;
  /** Segments that are compressed already. */
  readonly sealed: ReadonlySet<Segment>;
  /** How many full segments may wait until the process is idle, for now. */
  readonly mayWait: () => number;
  /** How many streams of closed segments may be in memory. */
  readonly maxStreamsInMemory: number;
  /** A failure that will be tried again, or that an operator should know of. */
  readonly warn: (message: string, error: unknown) => void;
  /** A full segment could not be indexed or compressed, and stays as it is for now. */
  readonly failed: (error: unknown) => void;
  /** A full segment has been indexed or compressed. */
  readonly succeeded: () => void;
}

const retryMs = 1_000;
/** Longest pause before a step that keeps failing is tried again. */
const longestRetryMs = 60_000;
/**
 * With more full segments than this that the index lacks, they are indexed also while the process is busy: after a crash
 * they have to be read to find a stream.
 */
const unindexedSegments = 8;
/** With more streams of full segments in memory than this, segments are indexed before any is compressed. */
const idleStreams = 100_000;

export class ClosedSegments {
  readonly #parts: ClosedSegmentsParts;
  readonly #sealed: Set<Segment>;
  /** Of the streams in the index. */
  #greatest = new GreatestNames();
  readonly #lookedUp = new LookedUpRevisions();
  /** The index is to be removed before the next step. */
  #indexIsWrong = false;
  /** Closed segments that are not in the index, in order. Those whose streams are not in memory come first. */
  #unindexed: Segment[];
  /** Known greatest names of streams of compressed segments that are neither in the index nor in memory. */
  readonly #greatestOf = new Map<Segment, GreatestNames>();
  /** Made after the last event of each segment whose streams are neither in the index nor in memory. */
  #mintedSince = mintEventId();
  readonly #stop = new AbortController();
  #processing: Promise<void> | undefined;
  /** How many callers wait until nothing is left to do. */
  #awaited = 0;
  #step: { readonly effort: Effort; readonly stop: AbortController } | undefined;
  /** A segment could not be compressed: the index must not wait for that. */
  #indexFirst = false;

  constructor(parts: ClosedSegmentsParts) {
    this.#parts = parts;
    this.#sealed = new Set(parts.sealed);
    this.#unindexed = this.#readIndex();
  }

  /** How many closed segments must be read to find a stream in them. */
  get unknownSegments(): number {
    return this.#unindexed.reduce((count, { streams }) => (streams === undefined ? count + 1 : count), 0);
  }

  /** How many full segments are not compressed yet, or, where none is, not indexed. */
  get waiting(): number {
    return this.#parts.seal ? this.#closedSegments().length - this.#sealed.size : this.#unindexed.length;
  }

  /** Archives the waiting segments: those that an earlier process left, and those that are wholly on disk by now. */
  start(): void {
    if (this.#stop.signal.aborted) return;
    this.#processing ??= this.#processWaiting().finally(() => {
      this.#processing = undefined;
    });
    // too much for a step that waits for an idle process: it is begun again with more effort
    if (this.#step?.effort === 'idle' && this.#effort() !== 'idle') this.#step.stop.abort(new TakenOver());
  }

  /** Takes over a full segment; not all of it need be on disk. */
  rotated(full: Segment): void {
    this.#unindexed.push(full);
    this.#makeRoom();
  }

  /** Removes the streams of the oldest segments outside the index from memory, when there are too many of them. */
  #makeRoom(): void {
    let inMemory = this.#streamsInMemory();
    for (const segment of this.#unindexed) {
      if (segment.streams === undefined) continue;
      if (inMemory <= this.#parts.maxStreamsInMemory || segment.durableBytes < segment.bytes) return;
      inMemory -= segment.streams.places.size;
      segment.streams = undefined;
      this.#lookedUp.forget();
      this.#mintedSince = mintEventId();
    }
  }

  /** The segments from `fresh` on were removed, and `cut`, if there is one, has become a closed segment. */
  rewritten(cut: Segment | undefined, fresh: Segment): void {
    const kept = this.#unindexed.filter((segment) => segment.first < fresh.first);
    // a segment that was complete before the failure may be in the index already; its streams then leave the memory
    const added = cut?.streams !== undefined && !kept.includes(cut);
    this.#unindexed = added ? [...kept, cut] : kept;
    this.#lookedUp.forget();
  }

  /**
   * Revision of the stream's last event in closed segments, -1 for none; undefined when that must be looked up.
   * A stream named after an id that this process has made is in no segment that was closed before. Only an append that
   * expects a new stream is judged by that: an earlier process may have made ids when its clock was ahead.
   * @param expected what an append expects of the stream
   */
  lastRevision(stream: StreamName, expected: ExpectedRevision): number | undefined {
    let isNew: boolean | undefined;
    for (let at = this.#unindexed.length - 1; at >= 0; at--) {
      const segment = this.#unindexed[at];
      if (segment?.streams !== undefined) {
        const last = segment.streams.lastRevision(stream);
        if (last !== undefined) return last;
      } else if (segment !== undefined) {
        isNew ??= expected === 'noStream' && mintedAfter(stream, this.#mintedSince);
        if (!isNew && !this.#lacks(segment, stream)) return this.#lookedUp.get(stream);
      }
    }
    return this.#greatest.lack(stream) ? -1 : this.#lookedUp.get(stream);
  }

  /** Whether the stream certainly has no event in the segment. */
  #lacks(segment: Segment, stream: StreamName): boolean {
    return this.#greatestOf.get(segment)?.lack(stream) ?? false;
  }

  /**
   * `lastRevision` of streams for which it is undefined. Holds until the next turn of the event loop.
   * @throws LogCorrupted; what the disk and SQLite throw
   */
  async lookUp(streams: readonly StreamName[]): Promise<ReadonlyMap<StreamName, number>> {
    const keep = this.#lookedUp.begin();
    const found = await this.#find(() => this.#parts.finder.lastRevisions(streams, this.#placesOf(streams)));
    keep(found);
    return found;
  }

  /** Where the streams may be that are not in memory. */
  #placesOf(streams: readonly StreamName[]): SearchedPlaces {
    const unindexed = this.#unindexed
      .filter((segment) => segment.streams === undefined)
      .filter((segment) => streams.some((stream) => !this.#lacks(segment, stream)))
      .map((segment) => ({
        name: segment.name,
        first: segment.first,
        last: this.#parts.segments.endOf(segment) - 1,
      }));
    return { unindexed, index: !this.#indexIsWrong };
  }

  /** Searches again, once, when the index cannot be used: then the finder reads the segments. */
  async #find<Found>(ask: () => Promise<Found>): Promise<Found> {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof IndexUnusable)) throw error;
      this.rebuild(error);
      return await ask();
    }
  }

  /**
   * Where the stream's events in closed segments lie, ascending, as of the call.
   * @throws IndexIsWrong, LogCorrupted; what the disk and SQLite throw
   */
  async parts(stream: StreamName): Promise<StreamPart[]> {
    // before the first await: streams may move from memory to the index during it
    const inMemory = this.#unindexed.flatMap((segment) => visiblePart(segment, stream) ?? []);
    if (this.#placesOf([stream]).unindexed.length === 0 && this.#greatest.lack(stream)) return inMemory;
    const { indexed, read } = await this.#find(() => this.#parts.finder.parts(stream, this.#placesOf([stream])));
    const found = [
      ...indexed.map((part) => this.#partOf(part, true)),
      ...read.map((part) => this.#partOf(part, false)),
    ];
    const firsts = new Set(found.map(({ segment }) => segment.first));
    const parts = [...found, ...inMemory.filter(({ segment }) => !firsts.has(segment.first))];
    return parts.sort((a, b) => a.segment.first - b.segment.first);
  }

  /** @throws IndexIsWrong */
  #partOf({ segment: first, last, frames }: IndexedPart, indexed: boolean): StreamPart {
    const segment = this.#parts.segments.holding(first);
    if (segment === undefined || segment.first !== first) throw new IndexIsWrong(first, 'there is no such segment');
    return { segment, last, frames, indexed };
  }

  /**
   * The index contradicted a segment. When the segment is sound, the index is at fault, and a new one is made.
   * @throws LogCorrupted when it is the segment that is damaged
   */
  async repair(error: IndexIsWrong): Promise<void> {
    const segment = this.#parts.segments.holding(error.segment);
    if (segment !== undefined && segment !== this.#parts.segments.all.at(-1)) {
      const { archivist } = this.#parts;
      await archivist.archive(this.#taskOf(segment, { index: false, seal: false }), 'hurried', this.#stop.signal);
    }
    this.rebuild(error);
  }

  /** Makes a new index. Until it has them, segments are read. */
  rebuild(reason: unknown): void {
    if (!this.#indexIsWrong) this.#parts.warn('the stream index is unusable and is rebuilt', reason);
    this.#forgetIndex();
    this.#unindexed = this.#closedSegments();
    this.#mintedSince = mintEventId();
    this.start();
  }

  #closedSegments(): Segment[] {
    return this.#parts.segments.all.slice(0, -1);
  }

  /** Finds the segments that the index lacks. An index with segments that do not exist is unusable. */
  #readIndex(): Segment[] {
    const closed = this.#closedSegments();
    let index: IndexReader | undefined;
    try {
      index = IndexReader.open(this.#parts.dir, this.#parts.mark);
      if (index === undefined) return closed;
      this.#greatest = new GreatestNames(index.greatest());
      const indexed = index.segments();
      const missing = closed.filter((segment) => {
        const last = indexed.get(segment.first);
        indexed.delete(segment.first);
        return last !== this.#parts.segments.endOf(segment) - 1;
      });
      if (indexed.size === 0) return missing;
    } catch (error) {
      if (!(unusable(error) instanceof IndexUnusable)) throw error;
    } finally {
      index?.close();
    }
    this.#forgetIndex();
    return closed;
  }

  #forgetIndex(): void {
    this.#lookedUp.forget();
    this.#greatest = new GreatestNames();
    this.#indexIsWrong = true;
  }

  async #processWaiting(): Promise<void> {
    const { signal } = this.#stop;
    let retryAfterMs = retryMs;
    while (!signal.aborted) {
      try {
        if (this.#indexIsWrong) {
          await this.#parts.finder.releaseIndex();
          await removeIndexFile(this.#parts.dir);
          this.#indexIsWrong = false;
        }
        await this.#learnGreatest();
        const isDone = !(await this.#archiveNext());
        // the success of one step does not end the failure of another
        if (isDone || !this.#indexFirst) {
          retryAfterMs = retryMs;
          this.#parts.succeeded();
        }
        if (isDone) return;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof TakenOver) continue;
        if (error instanceof IndexUnusable) {
          this.rebuild(error);
          continue;
        }
        this.#parts.failed(error);
        this.#indexFirst = true;
        await delay(retryAfterMs, undefined, { signal, ref: false }).catch(() => {});
        retryAfterMs = Math.min(retryAfterMs * 2, longestRetryMs);
      }
    }
  }

  /** Learns from the manifests of compressed segments which streams they certainly lack, while the index is made. */
  async #learnGreatest(): Promise<void> {
    for (const segment of this.#unindexed.toReversed()) {
      if (segment.streams !== undefined || this.#greatestOf.has(segment) || !this.#sealed.has(segment)) continue;
      const { categories } = readManifest(this.#parts.disk, this.#parts.dir, segment.name);
      const names = Object.entries(categories).map(([category, { greatest }]) => [category, greatest] as const);
      this.#greatestOf.set(segment, new GreatestNames(names));
      await nextTurn();
      this.#stop.signal.throwIfAborted();
    }
  }

  /** Takes the next step; false when there is nothing to do now. */
  async #archiveNext(): Promise<boolean> {
    const indexOnly = this.#indexFirst || this.#indexIsLate();
    const next = indexOnly ? (this.#unindexed[0] ?? this.#nextToSeal()) : this.#nextToSeal();
    if (next === undefined || next.durableBytes < next.bytes) return false;
    const index = this.#unindexed.includes(next);
    const seal = this.#parts.seal && !this.#sealed.has(next) && !(index && indexOnly);
    await this.#archive(next, { index, seal });
    return true;
  }

  /** The oldest closed segment that is not archived. */
  #nextToSeal(): Segment | undefined {
    const oldest = this.#unindexed[0];
    if (!this.#parts.seal) return oldest;
    const unsealed = this.#closedSegments().find((segment) => !this.#sealed.has(segment));
    if (oldest === undefined || unsealed === undefined) return oldest ?? unsealed;
    return oldest.first < unsealed.first ? oldest : unsealed;
  }

  async #archive(segment: Segment, work: Pick<ArchiveTask, 'index' | 'seal'>): Promise<StreamCategories> {
    const stop = new AbortController();
    const signal = AbortSignal.any([stop.signal, this.#stop.signal]);
    const effort = this.#effort();
    this.#step = { effort, stop };
    try {
      const categories = await this.#parts.archivist.archive(this.#taskOf(segment, work), effort, signal);
      if (work.seal) this.#wasSealed(segment);
      if (work.index) {
        this.#wasIndexed(segment, categories);
        await this.#parts.finder.indexChanged();
      }
      return categories;
    } finally {
      this.#step = undefined;
    }
  }

  #taskOf(segment: Segment, work: Pick<ArchiveTask, 'index' | 'seal'>): ArchiveTask {
    const { disk, dir, segments } = this.#parts;
    const { name, first } = segment;
    const manifest = this.#sealed.has(segment) ? readManifest(disk, dir, name) : undefined;
    return { name, first, last: segments.endOf(segment) - 1, manifest, ...work };
  }

  #wasSealed(segment: Segment): void {
    segment.places.length = 0;
    this.#sealed.add(segment);
    this.#indexFirst = false;
  }

  #wasIndexed(segment: Segment, categories: StreamCategories): void {
    // the new entries are lost when the index was discarded in the meantime
    if (this.#indexIsWrong) return;
    for (const [category, { greatest }] of Object.entries(categories)) this.#greatest.note(category, greatest);
    this.#unindexed = this.#unindexed.filter((member) => member !== segment);
    segment.streams = undefined;
    this.#lookedUp.forget();
    this.#greatestOf.delete(segment);
  }

  #effort(): Effort {
    if (this.#isSearchSlow()) return 'hurried';
    const isDue = this.#awaited > 0 || this.#indexIsLate() || this.waiting > this.#parts.mayWait();
    return isDue ? 'steady' : 'idle';
  }

  #indexIsLate(): boolean {
    return this.#isSearchSlow() || this.#unindexed.length > unindexedSegments;
  }

  #isSearchSlow(): boolean {
    return this.unknownSegments > 0 || this.#streamsInMemory() > idleStreams;
  }

  #streamsInMemory(): number {
    return this.#unindexed.reduce((sum, { streams }) => sum + (streams?.places.size ?? 0), 0);
  }

  /** Resolves when there is nothing left to do, which does not wait until the process is idle. */
  async settled(): Promise<void> {
    this.#awaited += 1;
    this.start();
    try {
      while (this.#processing !== undefined) await this.#processing;
    } finally {
      this.#awaited -= 1;
    }
  }

  /** Stops the running step; the next opening begins it again. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.settled();
    await this.#parts.archivist.close();
    await this.#parts.finder.close();
  }
}

/** A step was stopped so that it can be begun again with more effort. */
class TakenOver extends Error {}

/** The greatest stream name of each category: most new streams are named after the time, and so are greater. */
class GreatestNames {
  readonly #names: Map<string, string>;

  constructor(names: Iterable<readonly [category: string, greatest: string]> = []) {
    this.#names = new Map(names);
  }

  note(category: string, name: string): void {
    const known = this.#names.get(category);
    if (known === undefined || name > known) this.#names.set(category, name);
  }

  /** Whether the stream is certainly none of those that the names were taken from. */
  lack(stream: StreamName): boolean {
    const greatest = this.#names.get(categoryOf(stream));
    return greatest === undefined || stream > greatest;
  }
}

/** A UUIDv7 at the end of a name, with or without its dashes. */
const mintedName =
  /[-_](?:([0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})|([0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}))$/;

/**
 * Whether the stream is named after an id that `mintEventId` made in this process after it had made `id`. Such a name
 * is in no segment that was closed before that.
 */
export function mintedAfter(stream: StreamName, id: string): boolean {
  const [, dashed, plain] = mintedName.exec(stream) ?? [];
  if (dashed !== undefined) return dashed > id;
  return plain !== undefined && plain > id.replaceAll('-', '');
}
