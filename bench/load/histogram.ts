/**
 * Counts durations in buckets of growing width: exact to 1 part in 128, from a nanosecond to hours, at a constant cost
 * per value.
 */
const SUBDIVISIONS = 128;
const BUCKETS = 64 * SUBDIVISIONS;

export class Histogram {
  readonly #counts = new Uint32Array(BUCKETS);
  #total = 0;
  #max = 0;

  get count(): number {
    return this.#total;
  }

  /** The largest value recorded, not rounded. */
  get max(): number {
    return this.#max;
  }

  record(milliseconds: number): void {
    this.#total++;
    if (milliseconds > this.#max) this.#max = milliseconds;
    const index = bucketOf(milliseconds);
    this.#counts[index] = (this.#counts[index] ?? 0) + 1;
  }

  /**
   * The value that `fraction` of all values do not exceed, in milliseconds (the middle of its bucket); 0 when nothing
   * was recorded.
   */
  quantile(fraction: number): number {
    if (this.#total === 0) return 0;
    let wanted = Math.max(1, Math.ceil(fraction * this.#total));
    for (let index = 0; index < BUCKETS; index++) {
      wanted -= this.#counts[index] ?? 0;
      if (wanted <= 0) return Math.min(middleOf(index), this.#max);
    }
    return this.#max;
  }
}

function bucketOf(milliseconds: number): number {
  const nanoseconds = Math.max(1, milliseconds * 1e6);
  const exponent = Math.floor(Math.log2(nanoseconds));
  const fraction = nanoseconds / 2 ** exponent - 1;
  return Math.min(BUCKETS - 1, exponent * SUBDIVISIONS + Math.floor(fraction * SUBDIVISIONS));
}

function middleOf(index: number): number {
  const exponent = Math.floor(index / SUBDIVISIONS);
  return (2 ** exponent * (1 + ((index % SUBDIVISIONS) + 0.5) / SUBDIVISIONS)) / 1e6;
}
