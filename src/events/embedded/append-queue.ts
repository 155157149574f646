/** Appends that wait because the disk is behind: bounded in bytes and in time, served in order. */
import { LogUnavailable } from '../log.ts';
import type { WaitingAppend } from './waiting-append.ts';

export class AppendQueue {
  readonly #maxBytes: number;
  readonly #timeoutMs: number;
  readonly #stuckChanged: () => void;
  #waiting: WaitingAppend[] = [];
  /** Number of entries at the beginning of `#waiting` that have been removed. */
  #head = 0;
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #stuck = false;

  constructor(maxBytes: number, timeoutMs: number, stuckChanged: () => void) {
    this.#maxBytes = maxBytes;
    this.#timeoutMs = timeoutMs;
    this.#stuckChanged = stuckChanged;
  }

  get length(): number {
    return this.#waiting.length - this.#head;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** An append has timed out, and none has been taken since. */
  get stuck(): boolean {
    return this.#stuck;
  }

  get #first(): WaitingAppend | undefined {
    return this.#waiting[this.#head];
  }

  /** Lets the append wait for its turn. Rejects it with LogUnavailable, outcome `none`, when there is no room or time. */
  add(waiting: WaitingAppend): void {
    if (this.#bytes + waiting.append.bytes > this.#maxBytes) {
      waiting.reject(new LogUnavailable('the disk is too slow, and the queue for it is full', 'none'));
      return;
    }
    this.#bytes += waiting.append.bytes;
    this.#waiting.push(waiting);
    this.#timer ??= setTimeout(() => this.#expire(), this.#timeoutMs);
  }

  /**
   * Removes appends in their order for as long as there is room. Each leaves the queue before it is placed: that may
   * make the disk refuse, and `refuseAll` then rejects those that still wait.
   */
  drain(hasRoom: () => boolean, place: (waiting: WaitingAppend) => void): void {
    this.#setStuck(false);
    while (hasRoom()) {
      const next = this.#shift();
      if (next === undefined) break;
      place(next);
    }
    this.#rest();
  }

  /** Removes the first one. Removed entries are released in bulk, so that a long queue costs no more for each. */
  #shift(): WaitingAppend | undefined {
    const first = this.#first;
    if (first === undefined) return undefined;
    this.#head++;
    this.#bytes -= first.append.bytes;
    if (this.#head * 2 >= this.#waiting.length) {
      this.#waiting.splice(0, this.#head);
      this.#head = 0;
    }
    return first;
  }

  refuseAll(error: Error): void {
    const refused = this.#waiting.slice(this.#head);
    this.#waiting = [];
    this.#head = 0;
    this.#bytes = 0;
    this.#rest();
    for (const { reject } of refused) reject(error);
  }

  #expire(): void {
    this.#timer = undefined;
    const late = performance.now() - this.#timeoutMs;
    for (let first = this.#first; first !== undefined && first.since <= late; first = this.#first) {
      this.#shift();
      this.#setStuck(true);
      first.reject(new LogUnavailable(`the disk was too slow for ${this.#timeoutMs} ms`, 'none'));
    }
    const next = this.#first;
    if (next !== undefined) this.#timer = setTimeout(() => this.#expire(), Math.max(1, next.since - late));
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
