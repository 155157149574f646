/**
 * Decides whether a plugin is called after failures of its process. Failures are crashes, hangs and series of calls
 * without an answer in time. An error that a hook throws is none: it costs nothing but the call. Pure: times are
 * milliseconds of any clock.
 */

/** Calls in a row without an answer in time that count as one failure. */
const TIMEOUTS = 5;
/** A failure is forgotten after this time without another. */
const MEMORY_MS = 60_000;
const FIRST_PAUSE_MS = 500;
const MAX_PAUSE_MS = 30_000;

export type BreakerState = 'closed' | 'open' | 'half_open';

export class Breaker {
  #failures = 0;
  #failedAt = Number.NEGATIVE_INFINITY;
  #timeouts = 0;
  #openUntil = Number.NEGATIVE_INFINITY;
  #isTrial = false;

  state(now: number): BreakerState {
    if (now < this.#openUntil) return 'open';
    return this.#isTrial ? 'half_open' : 'closed';
  }

  /** Milliseconds until it is no longer open; 0 when it is not. */
  remaining(now: number): number {
    return Math.max(0, this.#openUntil - now);
  }

  /** The first failure causes no pause, each further one a longer pause, after which one call at a time is tried. */
  failed(now: number): void {
    if (now - this.#failedAt > MEMORY_MS) this.#failures = 0;
    this.#failures += 1;
    this.#failedAt = now;
    this.#timeouts = 0;
    if (this.#failures === 1) return;
    this.#isTrial = true;
    this.#openUntil = now + Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (this.#failures - 2));
  }

  timedOut(now: number): void {
    this.#timeouts += 1;
    if (this.#timeouts < TIMEOUTS && !this.#isTrial) return;
    // One series opens it.
    if (this.#failures === 0 || now - this.#failedAt > MEMORY_MS) this.#failures = 1;
    this.failed(now);
  }

  succeeded(): void {
    this.#timeouts = 0;
    this.#isTrial = false;
  }
}
