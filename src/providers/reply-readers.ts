/** The two ways to read an answer: whole, or in pieces. */
import type { ProviderFailure } from './provider.ts';
import { tooLarge } from './transport-failure.ts';

/** The part of a call that its reader controls. */
export interface SteeredCall {
  pause(): void;
  resume(): void;
  fail(failure: ProviderFailure): void;
  cancel(): void;
}

export interface Reader {
  /** Whether it waits for its consumer and accepts no more pieces for now. */
  readonly waiting: boolean;
  take(piece: Buffer): void;
  end(): void;
  fail(failure: ProviderFailure): void;
}

export function wholeReader(
  call: SteeredCall,
  provider: string,
  maxBytes: number,
  resolve: (whole: Buffer) => void,
  reject: (failure: ProviderFailure) => void,
): Reader {
  const pieces: Buffer[] = [];
  let bytes = 0;
  return {
    waiting: false,
    take(piece) {
      pieces.push(piece);
      bytes += piece.length;
      if (bytes > maxBytes) call.fail(tooLarge(provider, maxBytes));
    },
    end() {
      const [first] = pieces;
      resolve(first !== undefined && pieces.length === 1 ? first : Buffer.concat(pieces, bytes));
    },
    fail: reject,
  };
}

/**
 * Passes pieces on one at a time, also those received before a failure, and then reports the failure. The first piece
 * that arrives too early pauses the socket, so a consumer that keeps up causes no pause.
 */
export function pieceReader(
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
