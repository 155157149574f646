/**
 * How the exchange handles an answer: its bytes for the client, and its facts for the record. `unchangedRelay` and
 * `translatedRelay` make one from a reader and a writer (see answer/reader-and-writer.ts).
 */
import type { Frame } from '../../providers/sse.ts';
import type { DeferredWork } from '../model-request/deferred-work.ts';
import type { EarlyEnd } from '../model-request/stream-refusals.ts';
import type { TokenUsage } from '../model-request/usage.ts';
import type { Refusal } from '../refusal.ts';
import type { StorableResponse } from '../responses/storable-response.ts';

/** The meaning of one frame of a provider's stream for the exchange. */
export interface FrameOutcome {
  /** Whether this frame, and everything after it, may be sent to the client only when everything is on disk. */
  readonly terminal: boolean;
  /** Recorded instead of the frame's own bytes, when those held the provider's credentials. */
  readonly record?: Buffer;
  /** A failure that the provider reported after the start of its stream. */
  readonly refusal?: Refusal;
}

export interface FrameAnswer extends FrameOutcome {
  /** The client's bytes for this frame; undefined when there are none. */
  readonly bytes?: Buffer;
  /** A guardrail ended the answer here. `bytes` are the end of the client's stream, if anything was sent before. */
  readonly guardrail?: GuardrailEnd;
}

/** Why a guardrail ended an answer. */
export interface GuardrailEnd {
  /** The client's error, when nothing was sent before. */
  readonly refusal: Refusal;
  /** The guardrail failed: the client's stream ends with the error. Otherwise it blocked, and the stream ends regularly. */
  readonly isFailure: boolean;
}

/** The rest of the client's stream. */
export interface StreamFinish {
  readonly bytes?: Buffer;
  /** The stream ended too early to be whole. */
  readonly cut: boolean;
  readonly guardrail?: GuardrailEnd;
  /** Of a cut stream: the error that the provider reported, for a client that was sent nothing before. */
  readonly reported?: Refusal;
}

/** Joins pieces of a client's stream; undefined when there are none. */
export function joined(pieces: readonly Buffer[]): Buffer | undefined {
  return pieces.length > 1 ? Buffer.concat(pieces) : pieces[0];
}

export interface Relay {
  /** The whole answer, as the client gets it. @throws Refusal when it is malformed */
  whole(bytes: Buffer, parsed: unknown): Buffer;
  frame(frame: Frame): FrameAnswer;
  /**
   * The provider's stream ended normally: returns the rest of the client's stream. `cut` when it ended too early to
   * be whole.
   */
  finish(): StreamFinish;
  /** The stream broke, or reported `refusal`: returns the error for the client. */
  broken?(refusal: Refusal): Buffer | undefined;
  /** The gateway ends the answer before its provider does: returns the rest of the client's stream. */
  abandon?(end: EarlyEnd): Buffer | undefined;
  usage(): TokenUsage;
  /** The work that the provider continues after this answer; undefined for nearly every answer. */
  deferredWork?(): DeferredWork | undefined;
  /** The model that the answer names, for requests in which the gateway does not read the model. */
  model?(): string | undefined;
  /** The id that the provider gave its answer; undefined when there is none. */
  answerId?(): string | undefined;
  /** Why the model stopped, as the dialect names it. */
  finishReason?(): string | null;
  /** The response object to store, for dialects that have one. */
  response?(): StorableResponse | undefined;
}

/** An answer that no provider gave, in a dialect that `relay` reads. */
export interface GivenAnswer {
  readonly relay: Relay;
  readonly whole: unknown;
  readonly events: readonly unknown[];
}

/** The relay of a running attempt. Guardrails may need time to evaluate an answer as a whole. */
export interface LiveRelay extends Omit<Relay, 'whole' | 'finish'> {
  /** The relay without guardrails, for the facts of an answer that no client gets. Absent where no guardrail runs. */
  readonly unguarded?: Relay;
  /** Like `Relay.whole`. @throws Refusal when it is malformed, AnswerBlocked when a guardrail ended it */
  whole(bytes: Buffer, parsed: unknown): Buffer | Promise<Buffer>;
  /** Like `Relay.finish`. Called once. */
  finish(): StreamFinish | Promise<StreamFinish>;
}

/** A guardrail ended a whole answer: the client gets the error instead. */
export class AnswerBlocked extends Error {
  override readonly name = 'AnswerBlocked';
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.message);
    this.refusal = refusal;
  }
}
