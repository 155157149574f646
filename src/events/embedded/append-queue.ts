/** Appends that wait because the disk is behind: bounded in bytes and in time, served in order. */
import type { Appended, StreamWrite } from '../log.ts';
import { LogUnavailable } from '../log.ts';

interface Waiting {
  readonly bytes: number;
  readonly deadline: number;
  readonly run: () => Promise<Appended>;
  readonly resolve: (appended: Appended | Promise<Appended>) => void;
  readonly reject: (error: Error) => void;
}

/** What an event takes beyond its data and body. */
const eventOverheadBytes = 256;

export class AppendQueue {
  readonly #maxBytes: number;
  readonly #timeoutMs: number;
  #waiting: Waiting[] = [];
  /** How many at the beginning of `#waiting` have been taken out. */
  #taken = 0;
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #stuck = false;

  readonly #stuckChanged: () => void;

  constructor(maxBytes: number, timeoutMs: number, stuckChanged: () => void) {
    this.#maxBytes = maxBytes;
    this.#timeoutMs = timeoutMs;
    this.#stuckChanged = stuckChanged;
  }

  get length(): number {
    return this.#waiting.length - this.#taken;
  }

  get #first(): Waiting | undefined {
    return this.#waiting[this.#taken];
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** An append has waited in vain, and nothing has moved since. */
  get stuck(): boolean {
    return this.#stuck;
  }

  /** Runs the append when its turn comes. Rejects with LogUnavailable, outcome `none`, when there is no room or time. */
  wait(writes: readonly StreamWrite[], run: () => Promise<Appended>): Promise<Appended> {
    const bytes = sizeOf(writes);
    if (this.#bytes + bytes > this.#maxBytes) {
      return Promise.reject(new LogUnavailable('the disk is too slow, and the queue for it is full', 'none'));
    }
    this.#bytes += bytes;
    return new Promise((resolve, reject) => {
      this.#waiting.push({ bytes, deadline: performance.now() + this.#timeoutMs, run, resolve, reject });
      this.#timer ??= setTimeout(() => this.#expire(), this.#timeoutMs);
    });
  }

  /**
   * Runs appends in their order for as long as there is room. Each leaves the queue before it runs: it may make the
   * disk refuse, and `refuseAll` then rejects only those that still wait. One that were rejected twice would leave the
   * rejection of its own run without a handler.
   */
  drain(hasRoom: () => boolean): void {
    this.#setStuck(false);
    while (hasRoom()) {
      const next = this.#shift();
      if (next === undefined) break;
      next.resolve(next.run());
    }
    this.#rest();
  }

  /** Takes the first one out. Those taken are let go of in bulk, so that a long queue costs no more for each. */
  #shift(): Waiting | undefined {
    const first = this.#waiting[this.#taken];
    if (first === undefined) return undefined;
    this.#taken++;
    this.#bytes -= first.bytes;
    if (this.#taken * 2 >= this.#waiting.length) {
      this.#waiting.splice(0, this.#taken);
      this.#taken = 0;
    }
    return first;
  }

  refuseAll(error: Error): void {
    const refused = this.#waiting.slice(this.#taken);
    this.#waiting = [];
    this.#taken = 0;
    this.#bytes = 0;
    this.#rest();
    for (const { reject } of refused) reject(error);
  }

  #expire(): void {
    this.#timer = undefined;
    const now = performance.now();
    for (let first = this.#first; first !== undefined && first.deadline <= now; first = this.#first) {
      this.#shift();
      this.#setStuck(true);
      first.reject(new LogUnavailable(`the disk has not kept up for ${this.#timeoutMs} ms`, 'none'));
    }
    const next = this.#first;
    if (next !== undefined) this.#timer = setTimeout(() => this.#expire(), Math.max(1, next.deadline - now));
  }

  #setStuck(stuck: boolean): void {
    if (stuck === this.#stuck) return;
    this.#stuck = stuck;
    this.#stuckChanged();
  }

  #rest(): void {
    if (this.length > 0) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

function sizeOf(writes: readonly StreamWrite[]): number {
  let bytes = 0;
  for (const { events } of writes) {
    for (const event of events) {
      bytes += JSON.stringify(event.data).length + (event.body?.length ?? 0) + eventOverheadBytes;
    }
  }
  return bytes;
}
