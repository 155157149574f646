/** When the next batch is stored after the catch-up: with less processor time the batches become larger. */

/** Of the time from one batch to the next, at most a quarter is spent on storing. */
const REST_PER_WORK = 3;

export interface LivePaceOptions {
  /** Shortest time from the start of one batch to the start of the next. */
  readonly shortestMs: number;
  /** Longest pause after a batch that took long. */
  readonly longestMs: number;
}

export class LivePace {
  readonly #options: LivePaceOptions;
  #next = 0;

  constructor(options: LivePaceOptions) {
    this.#options = options;
  }

  /** Records that a batch was stored. Times are of one clock, in milliseconds. */
  stored(startedAt: number, endedAt: number): void {
    const { shortestMs, longestMs } = this.#options;
    const rest = Math.min(longestMs, REST_PER_WORK * (endedAt - startedAt));
    this.#next = Math.max(startedAt + shortestMs, endedAt + rest);
  }

  /** Milliseconds until the next batch may be started; 0 or less when that is now. */
  waitMs(now: number): number {
    return this.#next - now;
  }
}
