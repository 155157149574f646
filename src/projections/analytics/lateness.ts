/** For how long a reader of the log has been late, computed from earlier positions of the log's end. */

interface Moment {
  readonly at: number;
  /** Position of the last event at that moment. */
  readonly head: number;
}

/** Most moments kept. When they are reached, every second one is removed, which halves the resolution. */
const MOST_MOMENTS = 512;

export class Lateness {
  /** Moments whose end is not stored yet, in order. */
  #open: Moment[] = [];
  /** The last moment whose end is stored. */
  #currentAt: number;

  /** @param startedAt events in the log at the first call count as late since then */
  constructor(startedAt: number) {
    this.#currentAt = startedAt;
  }

  /**
   * Milliseconds since the last moment up to which every event is stored; 0 when every event is stored now. The
   * precision is the time between calls: an event appended between two calls counts from the earlier one.
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
