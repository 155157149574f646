/**
 * What the exchange needs of an answer: the client's bytes, and what the record keeps. `unchangedRelay` and
 * `translatedRelay` make one from a reader and a writer (see answer/reader-and-writer.ts).
 */

import type { Frame } from '../../providers/sse.ts';
import type { DeferredWork } from '../model-request/deferred-work.ts';
import type { EarlyEnd } from '../model-request/stream-refusals.ts';
import type { TokenUsage } from '../model-request/usage.ts';
import type { Refusal } from '../refusal.ts';
import type { StorableResponse } from '../responses/storable-response.ts';

/** What one frame of a provider's stream means for the exchange. */
export interface FrameOutcome {
  /** The client may have this, and all after it, only when everything is on disk. */
  readonly terminal: boolean;
  /** What is recorded in place of the frame's own bytes, when those held the provider's credentials. */
  readonly record?: Buffer;
  /** The provider reported a failure in mid-stream. */
  readonly refusal?: Refusal;
}

export interface FrameAnswer extends FrameOutcome {
  /** What the client gets for this frame; undefined when it gets nothing. */
  readonly bytes?: Buffer;
}

/** Pieces of a client's stream as one; undefined when there are none. */
export function joined(pieces: readonly Buffer[]): Buffer | undefined {
  return pieces.length > 1 ? Buffer.concat(pieces) : pieces[0];
}

export interface Relay {
  /** The whole answer, as the client gets it. @throws Refusal when it makes no sense */
  whole(bytes: Buffer, parsed: unknown): Buffer;
  frame(frame: Frame): FrameAnswer;
  /**
   * The provider's stream ended in an orderly way: the rest of the client's stream. `cut` when it ended too early to
   * be whole.
   */
  finish(): { readonly bytes?: Buffer; readonly cut: boolean };
  /** The stream broke, or reported `refusal`: what the client is told of it. */
  broken?(refusal: Refusal): Buffer | undefined;
  /** The answer is ended before its provider ended it: the rest of the client's stream, if there is a client. */
  abandon?(end: EarlyEnd): Buffer | undefined;
  usage(): TokenUsage;
  /** Undefined when the answer is all there is, as nearly always. */
  goesOn?(): DeferredWork | undefined;
  /** Which model the answer says it is of, where nobody read the request for it. */
  model?(): string | undefined;
  /** The id that the provider gave its answer; undefined when there is none. */
  answerId?(): string | undefined;
  /** Why the model stopped, in the dialect's own word. */
  finishReason?(): string | null;
  /** The response object to keep, when the client's dialect has such a thing. */
  response?(): StorableResponse | undefined;
}
