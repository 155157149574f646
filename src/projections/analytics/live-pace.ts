/** When the next batch is stored, once everything in the log is: the less of a processor there is, the larger the batches. */

/** Of the time from one batch to the next, at most a quarter is spent on storing. */
const REST_PER_WORK = 3;

export interface LivePaceOptions {
  /** At least so long from the start of one batch to the start of the next. */
  readonly shortestMs: number;
  /** A batch that took long is followed by a pause of at most so long. */
  readonly longestMs: number;
}

export class LivePace {
  readonly #options: LivePaceOptions;
  #next = 0;

  constructor(options: LivePaceOptions) {
    this.#options = options;
  }

  /** Takes note of a batch that was stored. Times are of one clock, in milliseconds. */
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
