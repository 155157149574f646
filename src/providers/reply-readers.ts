/** The two ways to read an answer: whole, or piece by piece. */
import type { ProviderFailure } from './provider.ts';
import { tooLarge } from './transport-failure.ts';

/** The side of a call that its reader steers. */
export interface SteeredCall {
  pause(): void;
  resume(): void;
  fail(failure: ProviderFailure): void;
  cancel(): void;
}

export interface Reader {
  /** Whether it waits for its consumer and wants no more for now. */
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
 * Pieces that came before a break are still handed over, one at a time, before the failure is told. The socket is
 * paused by the first piece that comes too early, so a consumer that keeps up costs no pause at all.
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
