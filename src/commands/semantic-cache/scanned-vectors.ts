/** Vectors in the memory of this process. A search reads the vectors of one partition and finds the nearest exactly. */
import type { MaybeLater, Neighbour, StoredVector, VectorQuery, VectorStore } from './vector-store.ts';

const MAX_ENTRIES = 100_000;
/** Of all vectors: 100,000 of 1,536 dimensions. */
const MAX_BYTES = 640 * 1024 * 1024;
/** Longest time for which a search keeps the event loop, in milliseconds. */
const SLICE_MS = 2;
/** Vectors between two looks at the clock: at most 0.2 ms with 1,536 dimensions. */
const STEP = 128;

interface ScannedVectorsOptions {
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

// The similarity of two vectors of length 1, given up as soon as it cannot reach a floor. After each block, the rest
// of the product is at most the product of the lengths of the two rests (Cauchy–Schwarz inequality): most vectors
// about something else are left after a fraction of their dimensions, and none is left that reaches the floor.

/** Dimensions between two looks at the bound. */
const BLOCK = 32;
/** More than the rounding of the numbers: a similarity this close to the floor is computed to its end. */
const ROUNDING = 1e-5;

/** @returns the length of what follows each block of the vector */
export function restsOf(vector: Float32Array): Float32Array {
  const rests = new Float32Array(Math.ceil(vector.length / BLOCK));
  let squares = 0;
  for (let block = rests.length - 1; block >= 0; block--) {
    rests[block] = Math.sqrt(squares);
    for (let at = block * BLOCK; at < Math.min((block + 1) * BLOCK, vector.length); at++) {
      squares += (vector[at] ?? 0) ** 2;
    }
  }
  return rests;
}

/** @returns undefined when the similarity is below `floor`. Both vectors have the same number of dimensions. */
export function similarityAtLeast(
  floor: number,
  one: Float32Array,
  oneRests: Float32Array,
  other: Float32Array,
  otherRests: Float32Array,
): number | undefined {
  const { length } = one;
  let sum = 0;
  for (let block = 0, at = 0; at < length; block++) {
    const end = Math.min(at + BLOCK, length);
    let a = 0;
    let b = 0;
    let c = 0;
    let d = 0;
    // Four sums, so that the processor does not wait for one addition before the next.
    for (; at + 3 < end; at += 4) {
      a += (one[at] ?? 0) * (other[at] ?? 0);
      b += (one[at + 1] ?? 0) * (other[at + 1] ?? 0);
      c += (one[at + 2] ?? 0) * (other[at + 2] ?? 0);
      d += (one[at + 3] ?? 0) * (other[at + 3] ?? 0);
    }
    for (; at < end; at++) a += (one[at] ?? 0) * (other[at] ?? 0);
    sum += a + b + c + d;
    if (sum + (oneRests[block] ?? 0) * (otherRests[block] ?? 0) < floor - ROUNDING) return undefined;
  }
  return sum >= floor ? Math.min(sum, 1) : undefined;
}
