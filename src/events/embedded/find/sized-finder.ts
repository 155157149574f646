/**
 * Finds streams of a small log on the caller's thread: a query of a small index takes less time than a message to a
 * thread, and a thread takes memory and time to start. A thread is used once the index or the segments to read are
 * larger.
 */
import { statSync } from 'node:fs';
import type { StreamName } from '../../event.ts';
import { indexFileOf } from '../archive/index-file.ts';
import { segmentFile } from '../segment.ts';
import type { FoundParts, SearchedPlaces, StreamFinder } from './stream-finder.ts';

export interface SizedFinderLimits {
  /** Largest index that is queried on the caller's thread: the page cache holds all of it. */
  readonly indexBytes: number;
  /** Most bytes of segments, compressed or not, that are read on the caller's thread for one search. */
  readonly segmentBytes: number;
}

const usualLimits: SizedFinderLimits = { indexBytes: 8 * 1024 * 1024, segmentBytes: 1024 * 1024 };

export class SizedFinder implements StreamFinder {
  readonly #dir: string;
  readonly #small: StreamFinder;
  readonly #large: StreamFinder;
  readonly #limits: SizedFinderLimits;
  #indexIsLarge: boolean;

  constructor(
    dir: string,
    finders: { readonly small: StreamFinder; readonly large: StreamFinder },
    limits: SizedFinderLimits = usualLimits,
  ) {
    this.#dir = dir;
    this.#small = finders.small;
    this.#large = finders.large;
    this.#limits = limits;
    this.#indexIsLarge = this.#measureIndex();
  }

  async lastRevisions(
    streams: readonly StreamName[],
    places: SearchedPlaces,
  ): Promise<ReadonlyMap<StreamName, number>> {
    return this.#finderFor(places).lastRevisions(streams, places);
  }

  async parts(stream: StreamName, places: SearchedPlaces): Promise<FoundParts> {
    return this.#finderFor(places).parts(stream, places);
  }

  async indexChanged(): Promise<void> {
    const isLarge = this.#measureIndex();
    if (isLarge && !this.#indexIsLarge) await this.#small.releaseIndex();
    this.#indexIsLarge = isLarge;
  }

  async releaseIndex(): Promise<void> {
    await this.#small.releaseIndex();
    await this.#large.releaseIndex();
  }

  async close(): Promise<void> {
    await this.#small.close();
    await this.#large.close();
  }

  #finderFor({ index, unindexed }: SearchedPlaces): StreamFinder {
    if (index && this.#indexIsLarge) return this.#large;
    let bytes = 0;
    for (const { name } of unindexed) {
      bytes += sizeOf(segmentFile(this.#dir, name, 'seg')) ?? sizeOf(segmentFile(this.#dir, name, 'zst')) ?? 0;
      if (bytes > this.#limits.segmentBytes) return this.#large;
    }
    return this.#small;
  }

  #measureIndex(): boolean {
    return (sizeOf(indexFileOf(this.#dir)) ?? 0) > this.#limits.indexBytes;
  }
}

function sizeOf(file: string): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.size;
}
