/** Vectors in the memory of this process. A search reads the vectors of one partition and finds the nearest exactly. */
import { restsOf, similarityAtLeast } from './bounded-similarity.ts';
import type { MaybeLater, Neighbour, StoredVector, VectorQuery, VectorStore } from './vector-store.ts';

export const MAX_ENTRIES = 100_000;
/** Of all vectors: 100,000 of 1,536 dimensions. */
export const MAX_BYTES = 640 * 1024 * 1024;
/** Longest time for which a search keeps the event loop, in milliseconds. */
const SLICE_MS = 2;
/** Vectors between two looks at the clock: at most 0.2 ms with 1,536 dimensions. */
const STEP = 128;

export interface ScannedVectorsOptions {
  readonly maxEntries?: number;
  readonly maxBytes?: number;
  /** Resolves after other work of the process had its turn. */
  turn?(): Promise<void>;
}

interface Entry extends StoredVector {
  readonly rests: Float32Array;
}

/**
 * All vectors must have length 1: their product is then their similarity. When there are too many, the oldest are
 * removed.
 */
export class ScannedVectors implements VectorStore {
  readonly #maxEntries: number;
  readonly #maxBytes: number;
  readonly #turn: () => Promise<void>;
  /** By digest, in order of their arrival. */
  readonly #entries = new Map<string, Entry>();
  readonly #partitions = new Map<string, Map<string, Entry>>();
  #bytes = 0;

  constructor({ maxEntries = MAX_ENTRIES, maxBytes = MAX_BYTES, turn = nextTurn }: ScannedVectorsOptions = {}) {
    this.#maxEntries = maxEntries;
    this.#maxBytes = maxBytes;
    this.#turn = turn;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Of the vectors. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Of two vectors with the same digest, it keeps the one that expires later. */
  add({ digest, partition, vector, expiresAt }: StoredVector): void {
    if ((this.#entries.get(digest)?.expiresAt ?? 0) > expiresAt) return;
    this.remove([digest]);
    const entry = { digest, partition, vector, expiresAt, rests: restsOf(vector) };
    this.#entries.set(digest, entry);
    this.#bytes += bytesOf(entry);
    const rows = this.#partitions.get(partition);
    if (rows === undefined) this.#partitions.set(partition, new Map([[digest, entry]]));
    else rows.set(digest, entry);
    for (const oldest of this.#entries.values()) {
      if (this.#entries.size <= this.#maxEntries && this.#bytes <= this.#maxBytes) break;
      this.#remove(oldest);
    }
  }

  /** Synchronous when it takes less than a slice. A vector that is added meanwhile may be found. */
  nearest(query: VectorQuery): MaybeLater<Neighbour | undefined> {
    const rows = this.#partitions.get(query.partition);
    if (rows === undefined) return undefined;
    const search = new Search(rows.values(), query);
    return search.run(SLICE_MS) ? this.#result(search) : this.#continued(search);
  }

  async #continued(search: Search): Promise<Neighbour | undefined> {
    do await this.#turn();
    while (!search.run(SLICE_MS));
    return this.#result(search);
  }

  #result({ best, similarity, expired }: Search): Neighbour | undefined {
    for (const entry of expired) this.#remove(entry);
    // It may have been removed between two slices.
    if (best === undefined || this.#entries.get(best.digest) !== best) return undefined;
    return { digest: best.digest, similarity };
  }

  remove(digests: readonly string[]): void {
    for (const digest of digests) {
      const entry = this.#entries.get(digest);
      if (entry !== undefined) this.#remove(entry);
    }
  }

  purge(): void {
    this.#entries.clear();
    this.#partitions.clear();
    this.#bytes = 0;
  }

  close(): void {
    this.purge();
  }

  #remove(entry: Entry): void {
    if (this.#entries.get(entry.digest) !== entry) return;
    this.#entries.delete(entry.digest);
    this.#bytes -= bytesOf(entry);
    const rows = this.#partitions.get(entry.partition);
    rows?.delete(entry.digest);
    if (rows?.size === 0) this.#partitions.delete(entry.partition);
  }
}

/** A search that can pause: the iterator of a Map skips entries that are removed meanwhile. */
class Search {
  readonly #rows: Iterator<Entry>;
  readonly #vector: Float32Array;
  readonly #rests: Float32Array;
  readonly #now: number;
  readonly expired: Entry[] = [];
  best: Entry | undefined;
  /** Of the best; before there is one, the threshold. */
  similarity: number;

  constructor(rows: Iterator<Entry>, { vector, threshold, now }: VectorQuery) {
    this.#rows = rows;
    this.#vector = vector;
    this.#rests = restsOf(vector);
    this.#now = now;
    this.similarity = threshold;
  }

  /** @returns whether all rows are read; false when `ms` milliseconds are over before */
  run(ms: number): boolean {
    const end = performance.now() + ms;
    for (let read = 0; ; read += 1) {
      if (read === STEP) {
        if (performance.now() >= end) return false;
        read = 0;
      }
      const next = this.#rows.next();
      if (next.done === true) return true;
      this.#read(next.value);
    }
  }

  #read(entry: Entry): void {
    if (entry.expiresAt <= this.#now) {
      this.expired.push(entry);
      return;
    }
    if (entry.vector.length !== this.#vector.length) return;
    const similarity = similarityAtLeast(this.similarity, this.#vector, this.#rests, entry.vector, entry.rests);
    if (similarity === undefined) return;
    this.best = entry;
    this.similarity = similarity;
  }
}

function bytesOf({ vector, rests }: Entry): number {
  return vector.byteLength + rests.byteLength;
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
