/**
 * Requests that wait for room in a budget: what others have reserved does not leave enough, and what those are likely to
 * cost does. Requests of the same budgets are admitted in the order in which they came.
 */

/** A request waits with its body in memory. */
const MAX_WAITING = 1_000;
const MAX_WAITING_BYTES = 64 * 1024 * 1024;

/** @returns undefined when the request still has to wait, which it must not at the last attempt. @throws Refusal */
type Attempt<T> = (isLast: boolean) => T | undefined;

interface Waiting {
  readonly bytes: number;
  /** @returns whether it goes on waiting */
  attempt(isLast: boolean): boolean;
}

export class WaitingRequests {
  readonly #maxMs: number;
  readonly #groups = new Map<string, Set<Waiting>>();
  #count = 0;
  #bytes = 0;
  #isDue = false;

  /** @param maxMs a request is refused after so long; 0: at once */
  constructor(maxMs: number) {
    this.#maxMs = maxMs;
  }

  /** Whether a request with the same budgets waits, which a later one does not overtake. */
  isQueued(group: string): boolean {
    return this.#groups.has(group);
  }

  hasPlace(bytes: number): boolean {
    return this.#maxMs > 0 && this.#count < MAX_WAITING && this.#bytes + bytes <= MAX_WAITING_BYTES;
  }

  /**
   * Repeats the attempt whenever something was released, until it succeeds or throws.
   * @param signal aborted when the client has left: then the attempt is the last one
   */
  wait<T>(group: string, bytes: number, attempt: Attempt<T>, signal: AbortSignal): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const last = () => waiting.attempt(true);
      const timer = setTimeout(last, this.#maxMs);
      const waiting: Waiting = {
        bytes,
        attempt: (isLast) => {
          try {
            const result = attempt(isLast);
            if (result === undefined) return true;
            resolve(result);
          } catch (error) {
            reject(error);
          }
          clearTimeout(timer);
          signal.removeEventListener('abort', last);
          this.#leave(group, waiting);
          return false;
        },
      };
      signal.addEventListener('abort', last, { once: true });
      this.#enter(group, waiting);
    });
  }

  /** Something was released: those who have room now are admitted in this turn of the event loop. */
  retry(): void {
    if (this.#isDue || this.#count === 0) return;
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = false;
      for (const group of this.#groups.values()) {
        for (const one of group) if (one.attempt(false)) break;
      }
    });
  }

  #enter(group: string, waiting: Waiting): void {
    const others = this.#groups.get(group);
    if (others === undefined) this.#groups.set(group, new Set([waiting]));
    else others.add(waiting);
    this.#count += 1;
    this.#bytes += waiting.bytes;
  }

  #leave(group: string, waiting: Waiting): void {
    const others = this.#groups.get(group);
    if (others?.delete(waiting) !== true) return;
    if (others.size === 0) this.#groups.delete(group);
    this.#count -= 1;
    this.#bytes -= waiting.bytes;
  }
}
