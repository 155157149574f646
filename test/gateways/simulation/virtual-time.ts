/** Time that a simulation moves: what is due next runs next, and nothing waits for a clock of the machine. */

interface Due {
  readonly at: number;
  readonly order: number;
  readonly run: () => void;
}

export class VirtualTime {
  /** Milliseconds. */
  now = 0;
  /** A binary heap: the least first. */
  readonly #due: Due[] = [];
  #orders = 0;

  after(ms: number, run: () => void): void {
    const due = this.#due;
    const added = { at: this.now + ms, order: this.#orders++, run };
    let index = due.length;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const above = due[parent] as Due;
      if (isBefore(above, added)) break;
      due[index] = above;
      index = parent;
    }
    due[index] = added;
  }

  /** When something is due next. */
  get next(): number {
    return this.#due[0]?.at ?? Number.POSITIVE_INFINITY;
  }

  /** Runs what is due next. @returns false when nothing is */
  step(): boolean {
    const due = this.#due;
    const next = due[0];
    const last = due.pop();
    if (next === undefined || last === undefined) return false;
    if (due.length > 0) this.#sink(last);
    this.now = next.at;
    next.run();
    return true;
  }

  #sink(last: Due): void {
    const due = this.#due;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= due.length) break;
      if (child + 1 < due.length && isBefore(due[child + 1] as Due, due[child] as Due)) child++;
      const below = due[child] as Due;
      if (isBefore(last, below)) break;
      due[index] = below;
      index = child;
    }
    due[index] = last;
  }
}

function isBefore(a: Due, b: Due): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}

export interface ProcessOptions {
  readonly time: VirtualTime;
  /** Milliseconds of its clock in a millisecond. */
  readonly rate: number;
}

/** A process with a clock of its own. It can be paused and killed. */
export class SimulatedProcess {
  readonly #options: ProcessOptions;
  /** How far its clock is behind because it stood still, in virtual milliseconds. */
  #stood = 0;
  #paused: (() => void)[] | undefined;
  #isKilled = false;

  constructor(options: ProcessOptions) {
    this.#options = options;
  }

  get isRunning(): boolean {
    return !this.#isKilled && this.#paused === undefined;
  }

  get isKilled(): boolean {
    return this.#isKilled;
  }

  /** Its clock, which does not go back. It runs faster or slower than those of others, and may stand during a pause. */
  readonly clock = (): number => (this.#options.time.now - this.#stood) * this.#options.rate;

  /** Its time of day, which goes on during every pause. */
  readonly wallClock = (): number => this.#options.time.now * this.#options.rate;

  /** Runs it now, or when the process goes on; never, when it is killed before. */
  run(work: () => void): void {
    if (this.#isKilled) return;
    if (this.#paused === undefined) work();
    else this.#paused.push(work);
  }

  /** @param ms of virtual time. @returns a function that cancels it */
  readonly after = (ms: number, work: () => void): (() => void) => {
    let isCancelled = false;
    this.#options.time.after(ms, () => {
      this.run(() => {
        if (!isCancelled) work();
      });
    });
    return () => {
      isCancelled = true;
    };
  };

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.after(ms, resolve));
  }

  /** As `setInterval`, by its clock. @returns a function that ends it */
  readonly every = (ms: number, work: () => void): (() => void) => {
    let isOver = false;
    const next = () => {
      if (isOver) return;
      this.after(ms / this.#options.rate, () => {
        if (isOver) return;
        work();
        next();
      });
    };
    next();
    return () => {
      isOver = true;
    };
  };

  /** @param stands whether its clock stands meanwhile, as that of a machine that is suspended */
  pause(ms: number, stands: boolean): void {
    if (!this.isRunning) return;
    this.#paused = [];
    this.#options.time.after(ms, () => {
      const missed = this.#paused ?? [];
      this.#paused = undefined;
      if (stands) this.#stood += ms;
      for (const work of missed) this.#options.time.after(0, () => this.run(work));
    });
  }

  kill(): void {
    this.#isKilled = true;
    this.#paused = undefined;
  }
}
