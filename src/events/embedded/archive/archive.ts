/**
 * What happens to a segment when it is full: it is entered in the stream index and compressed, in the background, one
 * segment at a time. Until a segment is in the index its streams are kept in memory.
 */
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import type { StreamName } from '../../event.ts';
import type { Disk } from '../disk.ts';
import { IndexIsWrong } from '../log-errors.ts';
import type { LogSegments } from '../log-segments.ts';
import { readManifest } from '../manifest.ts';
import type { Segment } from '../segment.ts';
import type { StreamCategories } from '../segment-streams.ts';
import { type StreamPart, visiblePart } from '../stream-reader.ts';
import { findStreams } from '../walk-segment.ts';
import type { ArchiveTask } from './archive-segment.ts';
import type { Archivist, Effort } from './archivist.ts';
import { GreatestNames } from './greatest-names.ts';
import { IndexUnusable, removeIndexFile } from './index-file.ts';
import { IndexReader } from './index-reader.ts';

export interface ArchiveParts {
  readonly disk: Disk;
  readonly dir: string;
  readonly mark: number;
  readonly archivist: Archivist;
  readonly segments: LogSegments;
  /** Whether full segments are compressed. */
  readonly seal: boolean;
  /** Segments that are compressed already. */
  readonly sealed: ReadonlySet<Segment>;
  /** Something that will be tried again, or that someone should look at. */
  readonly warn: (message: string, error: unknown) => void;
  /** A full segment could not be indexed or compressed, and stays as it is for now. */
  readonly failed: (error: unknown) => void;
  /** A full segment has been indexed or compressed. */
  readonly worked: () => void;
}

const retryMs = 1_000;
/** A step that goes on failing is tried again ever less often, down to this. */
const longestRetryMs = 60_000;
/** With more full segments than these waiting, archiving no longer leaves all processor time to others. */
const idleSegments = 3;
/** So many streams of full segments may be in memory before the index is brought up to date first. */
const idleStreams = 100_000;

export class Archive {
  readonly #parts: ArchiveParts;
  readonly #sealed: Set<Segment>;
  /** Undefined until there is something in it: most small logs never fill a segment. */
  #index: IndexReader | undefined;
  /** Of the streams in the index. */
  #greatest: GreatestNames;
  /** The index is to be removed before the next step. */
  #indexIsWrong = false;
  /** Closed segments that are not in the index, in order. */
  #unindexed: Segment[];
  /** Of the streams in sealed segments that are not in the index, once that is known. */
  #greatestUnindexed: GreatestNames | undefined;
  #complete = false;
  #whenComplete: { resolve: () => void; reject: (reason: unknown) => void }[] = [];
  readonly #stop = new AbortController();
  #working: Promise<void> | undefined;
  #step: { readonly effort: Effort; readonly stop: AbortController } | undefined;
  /** A segment could not be compressed: the index must not wait for that. */
  #indexFirst = false;

  constructor(parts: ArchiveParts) {
    this.#parts = parts;
    this.#sealed = new Set(parts.sealed);
    this.#index = this.#openIndex();
    this.#unindexed = this.#missingFromIndex();
    this.#greatest = new GreatestNames(this.#index?.greatest());
    this.#complete = this.#allKnown();
  }

  /** Resolves when all streams of closed segments are known. Rejects with what stands in the way. */
  async whenComplete(): Promise<void> {
    if (this.#complete) return;
    await new Promise<void>((resolve, reject) => this.#whenComplete.push({ resolve, reject }));
  }

  /** Goes on with what there is to do: what an earlier run left, or segments that are wholly on disk by now. */
  start(): void {
    if (this.#stop.signal.aborted) return;
    this.#working ??= this.#workOff().finally(() => {
      this.#working = undefined;
    });
    // too much for a step that gets only what time is left: it is begun again with more
    if (this.#step?.effort === 'idle' && this.#effort() !== 'idle') this.#step.stop.abort(new TakenOver());
  }

  /** Takes over a full segment; not all of it need be on disk. */
  rotated(full: Segment): void {
    this.#unindexed.push(full);
  }

  /** The segments from `fresh` on are no more, and `cut`, if there is one, has become a closed one. */
  rewritten(cut: Segment | undefined, fresh: Segment): void {
    const kept = this.#unindexed.filter((segment) => segment.first < fresh.first);
    // one that was complete before the failure may be in the index already, and then needs its streams no more
    const added = cut?.streams !== undefined && !kept.includes(cut);
    this.#unindexed = added ? [...kept, cut] : kept;
  }

  /** Revision of the stream's last event in closed segments, -1 for none; undefined when that is not known yet. */
  lastRevision(stream: StreamName): number | undefined {
    for (let at = this.#unindexed.length - 1; at >= 0; at--) {
      const streams = this.#unindexed[at]?.streams;
      if (streams === undefined && !(this.#greatestUnindexed?.lack(stream) ?? false)) return undefined;
      const last = streams?.lastRevision(stream);
      if (last !== undefined) return last;
    }
    if (this.#index === undefined || this.#greatest.lack(stream)) return -1;
    try {
      return this.#index.lastRevision(stream);
    } catch (error) {
      this.rebuild(error);
      return undefined;
    }
  }

  /** `lastRevision` of each of the streams, once all of them are known. Rejects with what stands in the way. */
  async lookUp(streams: readonly StreamName[]): Promise<ReadonlyMap<StreamName, number>> {
    for (;;) {
      await this.whenComplete();
      const found = new Map<StreamName, number>();
      for (const stream of streams) {
        const last = this.lastRevision(stream);
        if (last !== undefined) found.set(stream, last);
      }
      if (found.size === streams.length) return found;
    }
  }

  /** Where the stream's events in closed segments lie, ascending. Only when `complete`. @throws IndexIsWrong */
  parts(stream: StreamName): StreamPart[] {
    const parts: StreamPart[] = [];
    const indexed = this.#greatest.lack(stream) ? [] : (this.#index?.parts(stream) ?? []);
    for (const { segment: first, last, frames } of indexed) {
      const segment = this.#parts.segments.holding(first);
      if (segment === undefined || segment.first !== first) throw new IndexIsWrong(first, 'there is no such segment');
      parts.push({ segment, last, frames, indexed: true });
    }
    const firsts = new Set(indexed.map(({ segment }) => segment));
    for (const segment of this.#unindexed) {
      const part = firsts.has(segment.first) ? undefined : visiblePart(segment, stream);
      if (part !== undefined) parts.push(part);
    }
    return parts;
  }

  /**
   * The index contradicted a segment. When the segment is sound, the index is at fault: a new one is made, and this
   * resolves when it is `complete`.
   * @throws LogCorrupted when it is the segment that is damaged
   */
  async repair(error: IndexIsWrong): Promise<void> {
    const segment = this.#parts.segments.holding(error.segment);
    if (segment !== undefined && segment !== this.#parts.segments.all.at(-1)) {
      const { archivist } = this.#parts;
      await archivist.archive(this.#taskOf(segment, { index: false, seal: false }), 'hurried', this.#stop.signal);
    }
    this.rebuild(error);
    await this.whenComplete();
  }

  /** Makes a new index. Until that is done the archive may not be `complete`. */
  rebuild(reason: unknown): void {
    this.#parts.warn('the stream index cannot be used and is made again', reason);
    this.#dropIndex();
    this.#greatest = new GreatestNames();
    this.#unindexed = this.#closedSegments();
    this.#greatestUnindexed = undefined;
    this.#complete = this.#allKnown();
    this.start();
  }

  #allKnown(): boolean {
    return this.#unindexed.every((segment) => segment.streams !== undefined);
  }

  #closedSegments(): Segment[] {
    return this.#parts.segments.all.slice(0, -1);
  }

  /** Compares the index with the segments there are; one that knows others is of no use. */
  #missingFromIndex(): Segment[] {
    const closed = this.#closedSegments();
    const indexed = this.#index?.segments() ?? new Map<number, number>();
    const missing = closed.filter((segment) => {
      const last = indexed.get(segment.first);
      indexed.delete(segment.first);
      return last !== this.#parts.segments.endOf(segment) - 1;
    });
    if (indexed.size === 0) return missing;
    this.#dropIndex();
    return closed;
  }

  #openIndex(): IndexReader | undefined {
    try {
      return IndexReader.open(this.#parts.dir, this.#parts.mark);
    } catch (error) {
      if (!(error instanceof IndexUnusable)) throw error;
      this.#indexIsWrong = true;
      return undefined;
    }
  }

  #dropIndex(): void {
    this.#index?.close();
    this.#index = undefined;
    this.#indexIsWrong = true;
  }

  async #workOff(): Promise<void> {
    const { signal } = this.#stop;
    let retryAfterMs = retryMs;
    while (!signal.aborted) {
      try {
        if (this.#indexIsWrong) {
          await removeIndexFile(this.#parts.dir);
          this.#indexIsWrong = false;
        }
        if (!this.#complete) await this.#learnGreatest();
        const isDone = !(await this.#archiveNext());
        // one step that works says nothing about another one that failed
        if (isDone || !this.#indexFirst) {
          retryAfterMs = retryMs;
          this.#parts.worked();
        }
        if (isDone) return;
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof TakenOver) continue;
        if (error instanceof IndexUnusable) {
          this.rebuild(error);
          continue;
        }
        for (const { reject } of this.#whenComplete.splice(0)) reject(error);
        this.#parts.failed(error);
        this.#indexFirst = true;
        await delay(retryAfterMs, undefined, { signal, ref: false }).catch(() => {});
        retryAfterMs = Math.min(retryAfterMs * 2, longestRetryMs);
      }
    }
  }

  /** Lets new streams be appended while a large index is being made again: their names tell that they are new. */
  async #learnGreatest(): Promise<void> {
    if (this.#greatestUnindexed !== undefined) return;
    const greatest = new GreatestNames();
    for (const segment of [...this.#unindexed]) {
      if (segment.streams !== undefined) continue;
      if (!this.#sealed.has(segment)) {
        // here and not on a thread, which takes longer to start than this takes for the few that a crash leaves
        segment.streams = await findStreams(this.#parts, segment, this.#parts.segments.endOf(segment) - 1);
        continue;
      }
      const { categories } = readManifest(this.#parts.disk, this.#parts.dir, segment.name);
      await nextTurn();
      for (const [category, known] of Object.entries(categories)) greatest.note(category, known.greatest);
    }
    this.#greatestUnindexed = greatest;
    if (this.#allKnown()) this.#becameComplete();
  }

  /** Takes the next step; false when there is nothing to do now. */
  async #archiveNext(): Promise<boolean> {
    const indexOnly = this.#indexFirst || !this.#complete || this.#streamsInMemory() > idleStreams;
    const next = indexOnly ? (this.#unindexed[0] ?? this.#nextToDo()) : this.#nextToDo();
    if (next === undefined || next.durableBytes < next.bytes) return false;
    const index = this.#unindexed.includes(next);
    const seal = this.#parts.seal && !this.#sealed.has(next) && !(index && indexOnly);
    await this.#archive(next, { index, seal });
    return true;
  }

  /** The oldest closed segment that is not archived. */
  #nextToDo(): Segment | undefined {
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
      if (work.index) this.#wasIndexed(segment, categories);
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
    // what was entered is of no use when the index has been given up in the meantime
    if (this.#indexIsWrong) return;
    this.#index ??= IndexReader.open(this.#parts.dir, this.#parts.mark);
    if (this.#index === undefined) throw new IndexUnusable('its file has been removed');
    for (const [category, { greatest }] of Object.entries(categories)) this.#greatest.note(category, greatest);
    this.#unindexed = this.#unindexed.filter((member) => member !== segment);
    segment.streams = undefined;
    if (!this.#complete && this.#allKnown()) this.#becameComplete();
  }

  #becameComplete(): void {
    this.#complete = true;
    this.#greatestUnindexed = undefined;
    for (const { resolve } of this.#whenComplete.splice(0)) resolve();
  }

  #effort(): Effort {
    if (!this.#complete || this.#streamsInMemory() > idleStreams) return 'hurried';
    const { seal } = this.#parts;
    const waiting = seal ? this.#closedSegments().length - this.#sealed.size : this.#unindexed.length;
    return waiting > idleSegments ? 'steady' : 'idle';
  }

  #streamsInMemory(): number {
    return this.#unindexed.reduce((sum, { streams }) => sum + (streams?.places.size ?? 0), 0);
  }

  /** Resolves when there is nothing left to do. */
  async settled(): Promise<void> {
    while (this.#working !== undefined) await this.#working;
  }

  /** Stops what is going on; it is taken up again at the next opening. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.settled();
    await this.#parts.archivist.close();
    for (const { reject } of this.#whenComplete.splice(0)) reject(new Error('the log has been closed'));
    this.#index?.close();
  }
}

/** A step was stopped so that it can be begun again with more effort. */
class TakenOver extends Error {}
