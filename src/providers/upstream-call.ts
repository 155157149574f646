/** One active HTTP call: undici's handler on one side, the reply that the exchange reads on the other. */
import { type Transform, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createBrotliDecompress, createUnzip, createZstdDecompress } from 'node:zlib';
import type { Dispatcher } from 'undici';
import { ProviderFailure, type ProviderReply, type ReplyBody, type TimeLimit } from './provider.ts';
import {
  cancelled,
  isClosedConnection,
  isProxyRefusal,
  lateAnswer,
  mayNotBegin,
  proxyRefused,
  streamCut,
  tooLarge,
  unreachable,
} from './transport-failure.ts';

/** Bytes buffered before the body is read; then the socket is paused. */
const READ_AHEAD_BYTES = 64 * 1024;

interface CallOptions {
  readonly provider: string;
  readonly signal: AbortSignal;
  /** From now to the answer's headers, including the wait for a connection. */
  readonly headers: TimeLimit;
  /** Between two pieces of the answer. */
  readonly idle: TimeLimit;
  /** The answer has no body, whatever its headers say (`HEAD`). */
  readonly bodiless: boolean;
  readonly isProxied: boolean;
  readonly mayBegin?: (() => boolean) | undefined;
  /**
   * Dispatches the call once more. Called at most once, when a kept connection turns out to be closed before anything of
   * the request was written to it.
   */
  readonly again?: ((call: UpstreamCall) => void) | undefined;
}

type Headers = Record<string, string | string[] | undefined>;

const READ_ONCE = 'an answer can be read once only';

interface WholeAnswer {
  readonly maxBytes: number;
  resolve(bytes: Buffer): void;
  reject(failure: ProviderFailure): void;
}

/**
 * Of the abort signal. It drops its call when that has ended: Node 24 keeps a listener, also a removed one, with everything
 * that it refers to until the next full garbage collection, which was a third of the bytes that such a call allocates.
 */
class AbortListener {
  call: UpstreamCall | undefined;

  constructor(call: UpstreamCall) {
    this.call = call;
  }

  handleEvent(): void {
    this.call?.cancel();
  }
}

/**
 * Buffers the first bytes of the body, so that a small answer is complete before it is read, and pauses the socket
 * while the body is not read. The caller either reads the body or cancels it: an unread one holds its connection.
 */
export class UpstreamCall implements Dispatcher.DispatchHandler, ReplyBody, SteeredCall {
  readonly #options: CallOptions;
  readonly #resolve: (reply: ProviderReply) => void;
  readonly #reject: (failure: ProviderFailure) => void;
  readonly #timer: NodeJS.Timeout;
  #controller: Dispatcher.DispatchController | undefined;
  #answered = false;
  #announcedBytes = 0;
  #arrived = 0;
  #buffered: Buffer[] = [];
  #bufferedBytes = 0;
  #paused = false;
  /** Of an answer that is read in pieces. */
  #reader: Reader | undefined;
  /** Of an answer that is read whole. */
  #whole: WholeAnswer | undefined;
  #ended = false;
  #failure: ProviderFailure | undefined;
  #isRepeated = false;
  readonly #listener = new AbortListener(this);

  constructor(
    options: CallOptions,
    resolve: (reply: ProviderReply) => void,
    reject: (failure: ProviderFailure) => void,
  ) {
    this.#options = options;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#timer = setTimeout(expire, options.headers.ms, this);
    options.signal.addEventListener('abort', this.#listener);
    if (options.signal.aborted) this.cancel();
  }

  get arrived(): number {
    return this.#arrived;
  }

  // Callbacks of undici.

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // A wait for a connection has no limit that a lease could know: this process may have stood still in it.
    if (this.#options.mayBegin?.() === false) {
      controller.abort(mayNotBegin());
      return;
    }
    this.#controller = controller;
    if (this.#failure !== undefined) controller.abort(this.#failure);
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Headers): void {
    if (status < 200) return;
    clearTimeout(this.#timer);
    this.#answered = true;
    const joined: Record<string, string> = {};
    for (const name in headers) {
      const value = headers[name];
      if (value !== undefined) joined[name] = typeof value === 'string' ? value : value.join(', ');
    }
    if (this.#options.bodiless || status === 204 || status === 304) {
      this.#resolve({ status, headers: joined, body: this });
      return;
    }
    const length = joined['content-length'];
    if (length !== undefined) this.#announcedBytes = Number(length);
    const encoding = joined['content-encoding'];
    const decoded = encoding === undefined ? undefined : decodedBody(this, encoding, this.#options.provider);
    if (decoded === undefined) {
      this.#resolve({ status, headers: joined, body: this });
      return;
    }
    const { 'content-encoding': _encoding, 'content-length': _length, ...kept } = joined;
    this.#resolve({ status, headers: kept, body: decoded });
  }

  onResponseData(_controller: Dispatcher.DispatchController, piece: Buffer): void {
    this.#arrived += piece.length;
    if (this.#reader !== undefined) {
      this.#reader.take(piece);
      return;
    }
    this.#buffered.push(piece);
    this.#bufferedBytes += piece.length;
    if (this.#whole === undefined) {
      if (this.#bufferedBytes >= READ_AHEAD_BYTES) this.pause();
    } else if (this.#bufferedBytes > this.#whole.maxBytes) {
      this.fail(tooLarge(this.#options.provider, this.#whole.maxBytes));
    }
  }

  onResponseEnd(): void {
    if (this.#failure !== undefined) return;
    this.#ended = true;
    this.#release();
    this.#reader?.end();
    this.#whole?.resolve(joined(this.#buffered));
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    const { provider, idle, isProxied } = this.#options;
    if (isProxied && isProxyRefusal(error)) {
      this.fail(proxyRefused(provider, error));
      return;
    }
    const isSent = this.#controller !== undefined;
    const { again } = this.#options;
    if (
      !isSent &&
      this.#failure === undefined &&
      !this.#isRepeated &&
      again !== undefined &&
      isClosedConnection(error)
    ) {
      this.#isRepeated = true;
      // By then the resets of other kept connections are read, too, so that the call gets none of them.
      setImmediate(() => this.#failure === undefined && again(this));
      return;
    }
    this.fail(isSent ? streamCut(provider, error, idle, this.#arrived) : unreachable(provider, error, isProxied));
  }

  // Methods for the exchange.

  bytes(maxBytes: number): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      if (this.#reader !== undefined || this.#whole !== undefined) throw new Error(READ_ONCE);
      this.#whole = { maxBytes, resolve, reject };
      if (Math.max(this.#announcedBytes, this.#bufferedBytes) > maxBytes) {
        this.fail(tooLarge(this.#options.provider, maxBytes));
      }
      if (this.#failure !== undefined) reject(this.#failure);
      else if (this.#ended) resolve(joined(this.#buffered));
      else this.resume();
    });
  }

  pieces(onPiece: (piece: Buffer) => void | Promise<unknown>): Promise<void> {
    return new Promise((resolve, reject) => this.#attach(pieceReader(this, onPiece, resolve, reject)));
  }

  cancel(): void {
    this.fail(cancelled(this.#options.provider));
  }

  // Methods for its reader and its timer.

  pause(): void {
    if (this.#paused) return;
    this.#paused = true;
    this.#controller?.pause();
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.#controller?.resume();
  }

  fail(failure: ProviderFailure): void {
    if (this.#ended) {
      // The provider has finished; a reader that still has pieces to pass on may stop.
      this.#reader?.fail(failure);
      this.#whole?.reject(failure);
      return;
    }
    if (this.#failure !== undefined) return;
    this.#failure = failure;
    this.#release();
    if (failure.kind === 'aborted') this.#buffered = [];
    if (!this.#answered) this.#reject(failure);
    this.#reader?.fail(failure);
    this.#whole?.reject(failure);
    this.#controller?.abort(failure);
  }

  expire(): void {
    this.fail(lateAnswer(this.#options.provider, this.#options.headers));
  }

  #attach(reader: Reader): void {
    if (this.#reader !== undefined || this.#whole !== undefined) throw new Error(READ_ONCE);
    this.#reader = reader;
    const buffered = this.#buffered;
    this.#buffered = [];
    for (const piece of buffered) reader.take(piece);
    if (this.#failure !== undefined) reader.fail(this.#failure);
    else if (this.#ended) reader.end();
    else if (!reader.waiting) this.resume();
  }

  #release(): void {
    clearTimeout(this.#timer);
    this.#options.signal.removeEventListener('abort', this.#listener);
    this.#listener.call = undefined;
  }
}

function expire(call: UpstreamCall): void {
  call.expire();
}

/** Decodes compressed answers: some providers compress although the requests accept only uncompressed ones. */
const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: createUnzip,
  'x-gzip': createUnzip,
  deflate: createUnzip,
  br: createBrotliDecompress,
  // At most 8 MiB of memory for a frame's window, whatever the frame demands (RFC 9659).
  zstd: () => createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: 23 } }),
};

/** The same answer decoded, or undefined when `encoding` names no supported encoding. */
function decodedBody(body: ReplyBody, encoding: string, provider: string): ReplyBody | undefined {
  const create = decoders[encoding.trim().toLowerCase()];
  if (create === undefined) return undefined;
  return {
    pieces: (onPiece) => decodePieces(body, create(), provider, onPiece),
    async bytes(maxBytes) {
      const pieces: Buffer[] = [];
      let bytes = 0;
      await decodePieces(body, create(), provider, (piece) => {
        bytes += piece.length;
        if (bytes > maxBytes) throw tooLarge(provider, maxBytes);
        pieces.push(piece);
      });
      return Buffer.concat(pieces, bytes);
    },
    get arrived() {
      return body.arrived;
    },
    cancel: () => body.cancel(),
  };
}

/** Holds one encoded and one decoded piece at a time, so a large decoded answer never accumulates in memory. */
async function decodePieces(
  body: ReplyBody,
  decoder: Transform,
  provider: string,
  onPiece: (piece: Buffer) => void | Promise<unknown>,
): Promise<void> {
  let thrown: unknown;
  const consumer = new Writable({
    highWaterMark: 1,
    write(piece: Buffer, _encoding, done) {
      const failed = (error: unknown): void => {
        thrown = error;
        done(new Error('the reader of the answer failed', { cause: error }));
      };
      try {
        const pending = onPiece(piece);
        if (pending === undefined) done();
        else pending.then(() => done(), failed);
      } catch (error) {
        failed(error);
      }
    },
  });
  const delivered = pipeline(decoder, consumer);
  // A failed decoder reads no further input: cancelling ends the wait below.
  delivered.catch(() => body.cancel());

  let received = false;
  try {
    await body.pieces((piece) => {
      received = true;
      return new Promise<void>((resolve) => decoder.write(piece, () => resolve()));
    });
    if (!received) {
      decoder.destroy();
      return;
    }
    decoder.end();
  } catch (error) {
    decoder.destroy(error instanceof Error ? error : new Error(String(error)));
  }
  try {
    await delivered;
  } catch (error) {
    if (thrown !== undefined) throw thrown;
    if (error instanceof ProviderFailure) throw error;
    throw new ProviderFailure(provider, 'broken', 'it sent an answer that cannot be decoded', error);
  }
}

// Reading an answer in pieces.

/** The part of a call that its reader controls. */
interface SteeredCall {
  pause(): void;
  resume(): void;
  fail(failure: ProviderFailure): void;
  cancel(): void;
}

interface Reader {
  /** Whether it waits for its consumer and accepts no more pieces for now. */
  readonly waiting: boolean;
  take(piece: Buffer): void;
  end(): void;
  fail(failure: ProviderFailure): void;
}

function joined(pieces: readonly Buffer[]): Buffer {
  const [first] = pieces;
  return first !== undefined && pieces.length === 1 ? first : Buffer.concat(pieces);
}

/**
 * Passes pieces on one at a time, also those received before a failure, and then reports the failure. The first piece
 * that arrives too early pauses the socket, so a consumer that keeps up causes no pause.
 */
function pieceReader(
  call: SteeredCall,
  onPiece: (piece: Buffer) => void | Promise<unknown>,
  resolve: () => void,
  reject: (error: unknown) => void,
): Reader {
  const early: Buffer[] = [];
  let waiting = false;
  let over: (() => void) | undefined;
  let stopped = false;

  const stop = (error: unknown): void => {
    stopped = true;
    waiting = false;
    early.length = 0;
    reject(error);
    call.cancel();
  };
  const deliver = (piece: Buffer): void => {
    let pending: void | Promise<unknown>;
    try {
      pending = onPiece(piece);
    } catch (error) {
      stop(error);
      return;
    }
    if (pending === undefined) return;
    waiting = true;
    pending.then(proceed, stop);
  };
  const proceed = (): void => {
    waiting = false;
    while (!waiting && !stopped) {
      const piece = early.shift();
      if (piece === undefined) break;
      deliver(piece);
    }
    if (waiting || stopped) return;
    if (over === undefined) call.resume();
    else over();
  };

  return {
    get waiting() {
      return waiting;
    },
    take(piece) {
      if (stopped) return;
      if (!waiting) {
        deliver(piece);
        return;
      }
      early.push(piece);
      call.pause();
    },
    end() {
      if (waiting) over = resolve;
      else resolve();
    },
    fail(failure) {
      if (failure.kind === 'aborted') {
        stopped = true;
        early.length = 0;
        reject(failure);
      } else if (waiting) over = () => reject(failure);
      else reject(failure);
    },
  };
}
