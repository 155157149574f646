/**
 * One client of the live tail, from its cursor until it disconnects.
 *
 * Slow clients: at most `byteCap` unsent bytes are held for a client. One that reaches the cap leaves the shared tail
 * and reads from the log at its own pace until it has caught up, so a slow client misses nothing and is not closed.
 * A client that reads nothing for `stallMs` is closed, and can resume from the last id it received.
 *
 * A frame can be larger than the cap. Only few clients hold such a frame at the same time; the others wait for a place
 * and then read it from the log. A client that does not read it in time is closed, too.
 */
import type { ServerResponse } from 'node:http';
import type { Position } from '../../../events/event.ts';
import {
  controlBytes,
  type FrameForm,
  frameBytes,
  type LiveFilter,
  type LiveFrame,
  matchesFilter,
  narrowed,
} from '../../../projections/live-frame.ts';
import type { CatchUpStep, LiveTail, TailSubscription } from '../../../projections/live-tail.ts';
import type { Places } from '../../bodies.ts';

/** Frames are combined up to this size, to reduce the number of writes. */
const WRITE_BYTES = 16 * 1024;
/** How long a client that is being closed may take to read the remaining bytes. */
const CLOSE_TIMEOUT_MS = 1_000;
/** How often a client without new events is checked for its right to them. */
const ALLOWED_EVERY_MS = 1_000;
const NOT_ALLOWED = 'the key may no longer read live logs';
/** How long a client may take to read one frame that is larger than the cap. */
const LARGE_FRAME_TIMEOUT_MS = 60_000;

/** Places of all clients together. */
interface LargeFrames {
  /** Clients that hold a frame larger than their cap. */
  readonly held: Places;
  /** Clients that read an event of the log, whose size is not known before. */
  readonly reads: Places;
}

interface LiveClientOptions {
  readonly tail: LiveTail;
  readonly filter: LiveFilter;
  readonly form: FrameForm;
  readonly byteCap: number;
  /** For frames larger than the cap. Undefined in a view without such frames. */
  readonly large: LargeFrames | undefined;
  readonly stallMs: number;
  readonly heartbeatMs: number;
  /** Called before each write: whether the client may still receive events. */
  isAllowed(): boolean;
  /** Called once, after the client has disconnected and its resources are released. */
  readonly onGone: () => void;
}

export class LiveClient {
  readonly #out: ServerResponse;
  readonly #options: LiveClientOptions;
  readonly #isWanted: (frame: LiveFrame) => boolean;
  readonly #gone = new AbortController();
  readonly #heartbeat: NodeJS.Timeout;
  readonly #stallCheck: NodeJS.Timeout;
  #subscription: TailSubscription | undefined;
  /** Ends the wait of a client with a seat: it must catch up again, or has disconnected. */
  #leaveTail: (() => void) | undefined;
  /** Everything up to here has been written or filtered out. */
  #cursor: Position;
  #lastId: Position;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #written = 0;
  #sentBytes = 0;
  #takenAt = performance.now();

  /** @param cursor the client has received everything up to here */
  constructor(out: ServerResponse, cursor: Position, options: LiveClientOptions) {
    this.#out = out;
    this.#cursor = cursor;
    this.#lastId = cursor;
    this.#options = options;
    this.#isWanted = matchesFilter(options.filter);
    this.#heartbeat = setInterval(() => this.#sendHeartbeat(), options.heartbeatMs);
    const checkMs = Math.min(ALLOWED_EVERY_MS, Math.max(10, options.stallMs / 4));
    this.#stallCheck = setInterval(() => {
      if (!options.isAllowed()) this.close(NOT_ALLOWED);
      this.#closeIfStalled();
    }, checkMs);
    out.on('close', () => this.#leave());
    // A reset of the connection is a disconnect; `close` follows.
    out.on('error', () => {});
  }

  /** Bytes written and not yet accepted by the operating system. */
  get unsentBytes(): number {
    return this.#waitingBytes + this.#out.writableLength;
  }

  /** Writes bytes that are not part of the tail: the snapshots for a new client. */
  write(bytes: Buffer): void {
    this.#put(bytes);
    this.#flush();
  }

  /** Resolves when the client has disconnected. */
  async run(): Promise<void> {
    this.#sendHeartbeat();
    try {
      while (!this.#gone.signal.aborted) {
        await this.#catchUp();
        if (!this.#gone.signal.aborted) await this.#listen();
      }
    } catch {
      this.close('the log cannot be read; reconnect to resume');
    }
  }

  /** Ends the stream with a reason. */
  close(reason: string): void {
    if (this.#gone.signal.aborted) return;
    this.#flush();
    this.#leave();
    this.#out.end(`: ${reason}\n\n`);
    // A client that does not read would keep the connection open, and with it a server that is closing.
    const closeTimer = setTimeout(() => this.#out.destroy(), CLOSE_TIMEOUT_MS).unref();
    this.#out.on('close', () => clearTimeout(closeTimer));
  }

  async #catchUp(): Promise<void> {
    await this.#drained();
    while (!(await this.#catchUpToLargeFrame())) {
      const free = await this.#options.large?.held.take(this.#gone.signal);
      if (free === undefined) return;
      try {
        await this.#writeLargeFrame();
      } finally {
        free();
      }
    }
    await this.#drained();
  }

  /** Returns false when the next frame is larger than the cap. It is then not held, and not written. */
  async #catchUpToLargeFrame(): Promise<boolean> {
    for await (const { frame, position } of this.#missed()) {
      const isWanted = frame !== undefined && this.#isWanted(frame);
      if (isWanted && this.#isLarge(frame)) return false;
      this.#cursor = position;
      if (isWanted) this.#put(frameBytes(frame, this.#options.form));
      if (this.#waitingBytes >= WRITE_BYTES) await this.#drained();
      if (this.#gone.signal.aborted) return true;
    }
    return true;
  }

  /** Writes the frames up to a large one, with it, and resolves when the client has read it. */
  async #writeLargeFrame(): Promise<void> {
    await this.#drained();
    const late = setTimeout(() => {
      this.#out.destroy();
      this.#leave();
    }, LARGE_FRAME_TIMEOUT_MS);
    try {
      for await (const { frame, position } of this.#missed()) {
        this.#cursor = position;
        if (frame === undefined || !this.#isWanted(frame)) continue;
        this.#put(frameBytes(frame, this.#options.form));
        if (this.#isLarge(frame)) break;
        if (this.#waitingBytes >= WRITE_BYTES) await this.#drained();
        if (this.#gone.signal.aborted) return;
      }
      await this.#drained();
    } finally {
      clearTimeout(late);
    }
  }

  async *#missed(): AsyncGenerator<CatchUpStep> {
    const { tail, filter, large } = this.#options;
    const steps = tail.catchUp(this.#cursor, narrowed(tail.view.filter, filter), this.#gone.signal);
    if (large === undefined) {
      yield* steps;
      return;
    }
    try {
      for (;;) {
        const free = await large.reads.take(this.#gone.signal);
        if (free === undefined) return;
        const { done, value } = await steps.next().finally(free);
        if (done) return;
        yield value;
      }
    } finally {
      await steps.return(undefined);
    }
  }

  #isLarge({ weight }: LiveFrame): boolean {
    return this.#options.large !== undefined && weight > this.#options.byteCap;
  }

  /** Runs until the client cannot keep up, or has disconnected. Returns at once when it must catch up first. */
  async #listen(): Promise<void> {
    const left = Promise.withResolvers<void>();
    let over = false;
    const leaveTail = () => {
      over = true;
      this.#subscription?.leave();
      this.#subscription = undefined;
      left.resolve();
    };
    const subscription = this.#options.tail.join(this.#cursor, {
      frames: (frames) => {
        if (!over && !this.#sendLive(frames)) leaveTail();
      },
      failed: (error) => {
        left.reject(error);
        leaveTail();
      },
    });
    if (subscription === undefined) return;
    if (over) {
      subscription.leave();
      return;
    }
    this.#subscription = subscription;
    this.#leaveTail = leaveTail;
    if (this.#cursor > this.#lastId) this.#sendHeartbeat();
    await left.promise;
  }

  /** Returns false when the cap is reached: the frames after the cursor were not written. */
  #sendLive(frames: readonly LiveFrame[]): boolean {
    for (const frame of frames) {
      const isWanted = this.#isWanted(frame);
      if (isWanted && (this.unsentBytes >= this.#options.byteCap || this.#isLarge(frame))) {
        this.#flush();
        return false;
      }
      this.#cursor = frame.position;
      if (isWanted) this.#put(frameBytes(frame, this.#options.form));
    }
    this.#flush();
    return true;
  }

  #put(bytes: Buffer): void {
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    this.#lastId = this.#cursor;
  }

  #flush(): void {
    if (this.#waitingBytes === 0) return;
    if (!this.#options.isAllowed()) {
      this.#waiting = [];
      this.#waitingBytes = 0;
      this.close(NOT_ALLOWED);
      return;
    }
    const bytes = this.#waiting.length === 1 ? this.#waiting[0] : Buffer.concat(this.#waiting, this.#waitingBytes);
    this.#waiting = [];
    this.#written += this.#waitingBytes;
    this.#waitingBytes = 0;
    if (bytes !== undefined) this.#out.write(bytes);
  }

  /** Writes the waiting bytes, and resolves when the client has read them or has disconnected. */
  async #drained(): Promise<void> {
    this.#flush();
    if (!this.#out.writableNeedDrain || this.#gone.signal.aborted) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        this.#out.off('drain', done);
        this.#gone.signal.removeEventListener('abort', done);
        resolve();
      };
      this.#out.on('drain', done);
      this.#gone.signal.addEventListener('abort', done);
    });
  }

  /** Sends the current position to an idle or filtered client. A client with unread bytes gets no heartbeat. */
  #sendHeartbeat(): void {
    if (this.#gone.signal.aborted || this.#out.writableNeedDrain) return;
    const position = this.#subscription?.position ?? this.#cursor;
    if (position > this.#cursor) this.#cursor = position;
    this.#put(controlBytes('heartbeat', this.#cursor, Date.now()));
    this.#flush();
  }

  #closeIfStalled(): void {
    const sentBytes = this.#written - this.#out.writableLength;
    if (this.#out.writableLength === 0 || sentBytes > this.#sentBytes) {
      this.#sentBytes = sentBytes;
      this.#takenAt = performance.now();
    } else if (performance.now() - this.#takenAt >= this.#options.stallMs) {
      // A closing message would only be queued behind the unread bytes.
      this.#out.destroy();
      this.#leave();
    }
  }

  #leave(): void {
    if (this.#gone.signal.aborted) return;
    this.#gone.abort();
    clearInterval(this.#heartbeat);
    clearInterval(this.#stallCheck);
    this.#leaveTail?.();
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#options.onGone();
  }
}
