/**
 * An amount counted over a sliding window. The window is divided into 60 parts, and a part counts until all of it is
 * out of the window: no stretch of the window's length admits more than is allowed, and an amount is dropped at most
 * a 60th of the window too late. Times are milliseconds since the epoch.
 */

const PARTS = 60;
/** The current part is incomplete, so one more part is needed to cover the whole length. */
const RING = PARTS + 1;

/** The parts that are not empty: their number since the epoch, and the amount in each. */
export type SavedWindow = readonly (readonly [part: number, amount: number])[];

export class SlidingWindow {
  readonly #partMs: number;
  readonly #amounts = new Float64Array(RING);
  #newest = 0;
  #total = 0;

  constructor(periodSeconds: number) {
    this.#partMs = (periodSeconds * 1000) / PARTS;
  }

  /** An amount older than the window is not counted. */
  add(at: number, amount: number): void {
    this.#addTo(this.#partAt(at), amount);
  }

  used(at: number): number {
    this.#lookFrom(at);
    return this.#total;
  }

  /** Milliseconds until at most `allowed` is counted, if nothing is added; 0 when it is so now. */
  msUntil(at: number, allowed: number): number {
    let left = this.used(at);
    if (left <= allowed) return 0;
    for (let part = this.#newest - PARTS; part < this.#newest; part++) {
      left -= this.#inPart(part);
      if (left <= allowed) return this.#msUntilGone(part, at);
    }
    return this.#msUntilGone(this.#newest, at);
  }

  /** Milliseconds until the oldest amount is dropped; 0 when the window is empty. */
  msUntilLess(at: number): number {
    if (this.used(at) === 0) return 0;
    let part = this.#newest - PARTS;
    while (part < this.#newest && this.#inPart(part) === 0) part++;
    return this.#msUntilGone(part, at);
  }

  clear(): void {
    this.#amounts.fill(0);
    this.#total = 0;
  }

  save(): SavedWindow {
    const saved: [number, number][] = [];
    for (let part = this.#newest - PARTS; part <= this.#newest; part++) {
      const amount = this.#inPart(part);
      if (amount > 0) saved.push([part, amount]);
    }
    return saved;
  }

  /** Adds the saved amounts of a window of the same length. */
  restore(saved: SavedWindow): void {
    for (const [part, amount] of saved) this.#addTo(part, amount);
  }

  #partAt(at: number): number {
    return Math.floor(at / this.#partMs);
  }

  #inPart(part: number): number {
    return part < 0 ? 0 : (this.#amounts[part % RING] ?? 0);
  }

  #msUntilGone(part: number, at: number): number {
    return Math.max(1, (part + RING) * this.#partMs - at);
  }

  #addTo(part: number, amount: number): void {
    this.#moveTo(part);
    if (part < 0 || part <= this.#newest - RING) return;
    this.#amounts[part % RING] = this.#inPart(part) + amount;
    this.#total += amount;
  }

  #lookFrom(at: number): void {
    const part = this.#partAt(at);
    // The clock was set back by more than the window, so the amounts have no place in it.
    if (part < this.#newest - RING) {
      this.clear();
      this.#newest = part;
    } else this.#moveTo(part);
  }

  #moveTo(part: number): void {
    if (part <= this.#newest) return;
    if (part - this.#newest >= RING) this.clear();
    else {
      for (let next = this.#newest + 1; next <= part; next++) {
        this.#total -= this.#inPart(next);
        this.#amounts[next % RING] = 0;
      }
    }
    this.#newest = part;
  }
}
