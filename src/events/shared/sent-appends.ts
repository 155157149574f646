/**
 * The appends of a worker that have no outcome yet: encoded at the call, sent in the order of the calls with one write at
 * a time, and kept until they are answered, so that they can be sent again after a lost connection.
 */
import type { RecordTarget } from '../embedded/append-batch.ts';
import { withRoom } from '../embedded/event-record.ts';
import { type Appended, type AppendStage, LogUnavailable, type StreamWrite } from '../log.ts';
import { writeAppend } from './append-message.ts';

export interface UnansweredAppend {
  readonly number: number;
  /** Position of the last visible event at the call: if it was recorded, then behind it. */
  readonly seen: number;
  readonly since: number;
  /** The message; undefined until it is about to be sent. */
  message: Buffer | undefined;
  readonly start: number;
  readonly end: number;
  readonly resolve: (appended: Appended) => void;
  readonly reject: (error: Error) => void;
}

interface Group {
  readonly bytes: Buffer;
  /** Number of its last append. */
  readonly last: number;
}

export interface SentAppendsParts {
  readonly maxEventBytes: number;
  /** Bytes of appends without an outcome. */
  readonly maxBytes: number;
  readonly visible: () => number;
}

/** Sends the bytes. `done` is called when the operating system has them. */
export type Write = (bytes: Buffer, done: () => void) => void;

/** Appends that are sent again are grouped up to this size. */
const groupBytes = 1024 * 1024;
/** A larger buffer is not kept. */
const keptBytes = 1024 * 1024;

export class SentAppends {
  readonly #parts: SentAppendsParts;
  readonly #unanswered = new Map<number, UnansweredAppend>();
  #target = new Target();
  /** Those in the target. */
  #encoded: UnansweredAppend[] = [];
  #groups: Group[] = [];
  #bytes = 0;
  #nextNumber = 1;
  #sentUpTo = 0;
  #write: Write | undefined;
  #writing = false;
  #willFlush = false;
  #idle: (() => void)[] = [];

  constructor(parts: SentAppendsParts) {
    this.#parts = parts;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Whether appends may have been recorded whose answer was lost. */
  get hasSent(): boolean {
    return this.sent().next().done !== true;
  }

  /** Those that may have been recorded, in order. */
  *sent(): Generator<UnansweredAppend> {
    for (const append of this.#unanswered.values()) {
      if (append.number > this.#sentUpTo) return;
      yield append;
    }
  }

  /** @throws EventTooLarge, RangeError, the error of `JSON.stringify`; rejects with LogUnavailable */
  append(writes: readonly StreamWrite[], until: AppendStage, withIds: boolean): Promise<Appended> {
    const { maxEventBytes, maxBytes, visible } = this.#parts;
    const start = this.#target.length;
    const number = this.#nextNumber;
    writeAppend(this.#target, { writes, number, until, withIds, maxEventBytes });
    const end = this.#target.length;
    if (this.#bytes + end - start > maxBytes) {
      this.#target.length = start;
      throw new LogUnavailable('the primary process is too slow, and the queue for it is full', 'none');
    }
    this.#nextNumber++;
    this.#bytes += end - start;
    const promise = new Promise<Appended>((resolve, reject) => {
      const since = performance.now();
      const append = { number, seen: visible(), since, message: undefined, start, end, resolve, reject };
      this.#unanswered.set(number, append);
      this.#encoded.push(append);
    });
    this.#flushSoon();
    return promise;
  }

  /** Sends everything without an outcome, first what was sent before. */
  attach(write: Write): void {
    this.#takeEncoded();
    this.#groups = [];
    let messages: Buffer[] = [];
    let bytes = 0;
    let last = 0;
    const end = () => {
      if (messages.length > 0) this.#groups.push({ bytes: Buffer.concat(messages, bytes), last });
      messages = [];
      bytes = 0;
    };
    for (const { number, message, start, end: to } of this.#unanswered.values()) {
      if (message === undefined) continue;
      // a group with one that was sent has no other
      if (number > this.#sentUpTo && last <= this.#sentUpTo) end();
      messages.push(message.subarray(start, to));
      bytes += to - start;
      last = number;
      if (bytes >= groupBytes) end();
    }
    end();
    this.#write = write;
    this.#writing = false;
    this.#flush();
  }

  detach(): void {
    this.#write = undefined;
  }

  resolve(number: number, appended: Appended): void {
    this.#remove(number)?.resolve(appended);
  }

  reject(number: number, error: Error): void {
    this.#remove(number)?.reject(error);
  }

  /** Rejects those that were not sent, and those sent at or before that time, as `performance.now()` counts. */
  refuse(reason: string, sentBefore: number): void {
    for (const { number, since } of [...this.#unanswered.values()]) {
      if (number > this.#sentUpTo) this.reject(number, new LogUnavailable(reason, 'none'));
      else if (since <= sentBefore) this.reject(number, new LogUnavailable(reason, 'unknown'));
    }
    this.#target.length = 0;
    this.#encoded = [];
    this.#groups = this.#groups.filter(({ last }) => last <= this.#sentUpTo);
  }

  /** Resolves when all have their outcome. */
  async settled(): Promise<void> {
    if (this.#unanswered.size > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #remove(number: number): UnansweredAppend | undefined {
    const append = this.#unanswered.get(number);
    if (append === undefined) return undefined;
    this.#unanswered.delete(number);
    this.#bytes -= append.end - append.start;
    if (this.#unanswered.size === 0) for (const resolve of this.#idle.splice(0)) resolve();
    return append;
  }

  /** The appends of one turn of the event loop are sent together. */
  #flushSoon(): void {
    if (this.#willFlush || this.#writing || this.#write === undefined) return;
    this.#willFlush = true;
    setImmediate(() => {
      this.#willFlush = false;
      this.#flush();
    });
  }

  #flush(): void {
    const write = this.#write;
    if (this.#writing || write === undefined) return;
    this.#takeEncoded();
    const group = this.#groups.shift();
    if (group === undefined) return;
    this.#writing = true;
    this.#sentUpTo = Math.max(this.#sentUpTo, group.last);
    write(group.bytes, () => {
      if (this.#write !== write) return;
      this.#writing = false;
      this.#flush();
    });
  }

  #takeEncoded(): void {
    const last = this.#encoded.at(-1);
    if (last === undefined) return;
    const bytes = this.#target.take();
    for (const append of this.#encoded) append.message = bytes;
    this.#groups.push({ bytes, last: last.number });
    this.#encoded = [];
  }
}

class Target implements RecordTarget {
  buffer: Buffer = Buffer.allocUnsafeSlow(64 * 1024);
  length = 0;

  reserve(bytes: number): void {
    this.buffer = withRoom(this.buffer, this.length, bytes);
  }

  /** What is in it, as a copy unless it is large. */
  take(): Buffer {
    const { buffer, length } = this;
    this.length = 0;
    if (buffer.length > keptBytes) {
      this.buffer = Buffer.allocUnsafeSlow(64 * 1024);
      return buffer.subarray(0, length);
    }
    const copy = Buffer.allocUnsafe(length);
    buffer.copy(copy, 0, 0, length);
    return copy;
  }
}
