/** A limited number of places: work that needs much memory waits until one is free, in order. */
export class Places {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(places: number) {
    this.#free = places;
  }

  /** Work that waits for a place. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * @returns frees the place; further calls have no effect. Undefined when the signal was aborted before a place was
   * free.
   */
  async take(signal?: AbortSignal): Promise<(() => void) | undefined> {
    if (signal?.aborted) return undefined;
    if (this.#free > 0) this.#free -= 1;
    else if (!(await this.#turn(signal))) return undefined;
    let isTaken = true;
    return () => {
      if (!isTaken) return;
      isTaken = false;
      this.#release();
    };
  }

  /** Resolves to whether a place was passed on. */
  #turn(signal: AbortSignal | undefined): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (isPassedOn: boolean) => {
        this.#waiting.delete(passOn);
        signal?.removeEventListener('abort', leave);
        resolve(isPassedOn);
      };
      const passOn = () => settle(true);
      const leave = () => settle(false);
      this.#waiting.add(passOn);
      signal?.addEventListener('abort', leave);
    });
  }

  #release(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#free += 1;
    else next();
  }
}
