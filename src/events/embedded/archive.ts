/**
 * What happens to a segment when it is full: it is entered in the stream index, then compressed. Both happen in the
 * background, one segment at a time; until the first is done, its streams are kept in memory.
 */
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import { categoryOf, type StreamName } from '../event.ts';
import type { Disk } from './disk.ts';
import { IndexIsWrong } from './log-errors.ts';
import type { LogSegments } from './log-segments.ts';
import { readManifest } from './manifest.ts';
import { sealSegment } from './seal-segment.ts';
import type { Segment } from './segment.ts';
import { categoriesOf } from './segment-streams.ts';
import { StreamIndex } from './stream-index.ts';
import { type StreamPart, visiblePart } from './stream-reader.ts';
import { findStreams } from './walk-segment.ts';

export interface ArchiveParts {
  readonly disk: Disk;
  readonly dir: string;
  readonly mark: number;
  readonly segments: LogSegments;
  readonly seal: boolean;
  /** Names of segments that are compressed already. */
  readonly sealed: ReadonlySet<Segment>;
  /** `lastRevision` knows every stream again. */
  readonly complete: () => void;
  /** Something that will be tried again, or that someone should look at. */
  readonly warn: (message: string, error: unknown) => void;
}

const retryMs = 1_000;

export class Archive {
  readonly #parts: ArchiveParts;
  readonly #index: StreamIndex;
  readonly #sealed: Set<Segment>;
  /** Closed segments that are not in the index, in order. */
  #unindexed: Segment[];
  /** For each category the greatest stream name in sealed segments that are not in the index, once that is known. */
  #greatestUnindexed: Map<string, string> | undefined;
  #complete = false;
  #whenComplete: { resolve: () => void; reject: (reason: unknown) => void }[] = [];
  readonly #stop = new AbortController();
  #working: Promise<void> | undefined;

  constructor(parts: ArchiveParts) {
    this.#parts = parts;
    this.#sealed = new Set(parts.sealed);
    this.#index = new StreamIndex(parts.dir, parts.mark);
    this.#unindexed = this.#missingFromIndex();
    this.#complete = this.#allKnown();
  }

  /** Whether all streams of closed segments are known, from the index or from memory. */
  get complete(): boolean {
    return this.#complete;
  }

  /** Resolves when `complete`. Rejects with what stands in the way. */
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
      if (streams === undefined && !this.#unindexedLack(stream)) return undefined;
      const last = streams?.lastRevision(stream);
      if (last !== undefined) return last;
    }
    return this.#index.lastRevision(stream);
  }

  #unindexedLack(stream: StreamName): boolean {
    if (this.#greatestUnindexed === undefined) return false;
    const greatest = this.#greatestUnindexed.get(categoryOf(stream));
    return greatest === undefined || stream > greatest;
  }

  /** Where the stream's events in closed segments lie, ascending. Only when `complete`. @throws IndexIsWrong */
  parts(stream: StreamName): StreamPart[] {
    const parts: StreamPart[] = [];
    for (const { segment: first, last, frames } of this.#index.parts(stream)) {
      const segment = this.#parts.segments.holding(first);
      if (segment === undefined || segment.first !== first) throw new IndexIsWrong(first, 'there is no such segment');
      parts.push({ segment, last, frames, indexed: true });
    }
    const indexed = new Set(parts.map(({ segment }) => segment.first));
    for (const segment of this.#unindexed) {
      const part = indexed.has(segment.first) ? undefined : visiblePart(segment, stream);
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
      await findStreams(this.#parts, segment, this.#lastOf(segment));
    }
    this.rebuild(error);
    await this.whenComplete();
  }

  /** Makes a new index. Until that is done the archive may not be `complete`. */
  rebuild(reason: unknown): void {
    this.#parts.warn('the stream index cannot be used and is made again', reason);
    this.#index.reset();
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
    const indexed = this.#index.segments();
    const { all } = this.#parts.segments;
    const missing = closed.filter((segment, at) => {
      const last = indexed.get(segment.first);
      indexed.delete(segment.first);
      return last !== (all[at + 1]?.first ?? 0) - 1;
    });
    if (indexed.size === 0) return missing;
    this.#index.reset();
    return closed;
  }

  async #workOff(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        if (!this.#complete) await this.#learnGreatest();
        const next = this.#unindexed[0];
        if (next !== undefined && next.durableBytes < next.bytes) return;
        if (next !== undefined) await this.#indexNext(next);
        else if (!(await this.#sealNext())) return;
      } catch (error) {
        if (signal.aborted) return;
        for (const { reject } of this.#whenComplete.splice(0)) reject(error);
        this.#parts.warn('a full segment cannot be indexed or compressed; it stays as it is for now', error);
        await delay(retryMs, undefined, { signal, ref: false }).catch(() => {});
      }
    }
  }

  /** Lets new streams be appended while a large index is being made again: their names tell that they are new. */
  async #learnGreatest(): Promise<void> {
    if (this.#greatestUnindexed !== undefined) return;
    const greatest = new Map<string, string>();
    for (const segment of this.#unindexed) {
      if (segment.streams !== undefined) continue;
      if (!this.#sealed.has(segment)) {
        segment.streams = await findStreams(this.#parts, segment, this.#lastOf(segment));
        continue;
      }
      const { categories } = readManifest(this.#parts.disk, this.#parts.dir, segment.name);
      await nextTurn();
      for (const [category, known] of Object.entries(categories)) {
        if (known.greatest > (greatest.get(category) ?? '')) greatest.set(category, known.greatest);
      }
    }
    this.#greatestUnindexed = greatest;
  }

  async #indexNext(segment: Segment): Promise<void> {
    const last = this.#lastOf(segment);
    const streams = segment.streams ?? (await findStreams(this.#parts, segment, last));
    segment.streams = streams;
    segment.categories ??= categoriesOf(streams);
    await this.#index.add(segment.first, last, streams);
    if (this.#unindexed[0] !== segment) return;
    this.#unindexed.shift();
    segment.streams = undefined;
    if (this.#complete || !this.#allKnown()) return;
    this.#complete = true;
    this.#greatestUnindexed = undefined;
    this.#parts.complete();
    for (const { resolve } of this.#whenComplete.splice(0)) resolve();
  }

  async #sealNext(): Promise<boolean> {
    if (!this.#parts.seal) return false;
    const segment = this.#closedSegments().find((candidate) => !this.#sealed.has(candidate));
    if (segment === undefined) return false;
    const last = this.#lastOf(segment);
    segment.categories ??= categoriesOf(await findStreams(this.#parts, segment, last));
    await sealSegment(this.#parts, segment, last, segment.categories, this.#stop.signal);
    segment.places.length = 0;
    this.#sealed.add(segment);
    return true;
  }

  #lastOf(segment: Segment): number {
    return this.#parts.segments.endOf(segment) - 1;
  }

  /** Resolves when there is nothing left to do. */
  async settled(): Promise<void> {
    while (this.#working !== undefined) await this.#working;
  }

  /** Stops what is going on; it is taken up again at the next opening. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.settled();
    for (const { reject } of this.#whenComplete.splice(0)) reject(new Error('the log has been closed'));
    this.#index.close();
  }
}
