/** For how long a reader of the log has been late, told from where the log's end was at earlier moments. */

interface Moment {
  readonly at: number;
  /** Position of the last event at that moment. */
  readonly head: number;
}

/** More are thinned out: the oldest half then tells times twice as coarsely. */
const MOST_MOMENTS = 512;

export class Lateness {
  /** Moments whose end is not stored yet, in order. */
  #open: Moment[] = [];
  /** The last moment whose end is stored. */
  #currentAt: number;

  /** @param startedAt what is in the log at the first call counts as late since then */
  constructor(startedAt: number) {
    this.#currentAt = startedAt;
  }

  /**
   * Milliseconds since the last moment of which everything is stored; 0 when everything is stored now. As exact as the
   * calls are frequent: what came between two calls counts from the earlier one.
   */
  of(stored: number, head: number, now: number): number {
    const next = this.#open.findIndex((moment) => moment.head > stored);
    const done = next === -1 ? this.#open.length : next;
    this.#currentAt = this.#open[done - 1]?.at ?? this.#currentAt;
    this.#open.splice(0, done);
    if (head <= stored) {
      this.#currentAt = now;
      return 0;
    }
    if (this.#open.length >= MOST_MOMENTS) this.#open = this.#open.filter((_, index) => index % 2 === 1);
    if (head > (this.#open.at(-1)?.head ?? 0)) this.#open.push({ at: now, head });
    return now - this.#currentAt;
  }
}
