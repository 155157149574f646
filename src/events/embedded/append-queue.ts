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
    return this.#waiting.length;
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

  /** Runs appends in their order for as long as there is room. */
  drain(hasRoom: () => boolean): void {
    this.#setStuck(false);
    let served = 0;
    while (served < this.#waiting.length && hasRoom()) {
      const next = this.#waiting[served++];
      if (next === undefined) continue;
      this.#bytes -= next.bytes;
      next.resolve(next.run());
    }
    if (served > 0) this.#waiting.splice(0, served);
    this.#rest();
  }

  refuseAll(error: Error): void {
    const refused = this.#waiting;
    this.#waiting = [];
    this.#bytes = 0;
    this.#rest();
    for (const { reject } of refused) reject(error);
  }

  #expire(): void {
    this.#timer = undefined;
    const now = performance.now();
    while (this.#waiting[0] !== undefined && this.#waiting[0].deadline <= now) {
      const late = this.#waiting.shift();
      if (late === undefined) break;
      this.#bytes -= late.bytes;
      this.#setStuck(true);
      late.reject(new LogUnavailable(`the disk has not kept up for ${this.#timeoutMs} ms`, 'none'));
    }
    const next = this.#waiting[0];
    if (next !== undefined) this.#timer = setTimeout(() => this.#expire(), Math.max(1, next.deadline - now));
  }

  #setStuck(stuck: boolean): void {
    if (stuck === this.#stuck) return;
    this.#stuck = stuck;
    this.#stuckChanged();
  }

  #rest(): void {
    if (this.#waiting.length > 0) return;
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
