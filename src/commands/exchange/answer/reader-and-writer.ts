/**
 * The two halves of an answer. A reader converts what the provider sends to events of one dialect. A writer converts
 * events of that dialect to the client's bytes. When the two dialects differ, the events are chat completion chunks;
 * when they match, the events are the dialect's own.
 * - `translatedRelay(reader, writer)`: every frame is parsed and written again. A step that changes the answer stands
 * between the two.
 * - `unchangedRelay(observer, writer)`: the provider's bytes pass unchanged. The observer parses only the frames that
 * contain something to record.
 */
import type { Frame } from '../../../providers/sse.ts';
import type { DeferredWork } from '../../model-request/deferred-work.ts';
import type { EarlyEnd } from '../../model-request/stream-refusals.ts';
import type { TokenUsage } from '../../model-request/usage.ts';
import type { Refusal } from '../../refusal.ts';
import type { StorableResponse } from '../../responses/storable-response.ts';
import type { FrameAnswer, FrameOutcome } from '../relay.ts';

/** Facts that the provider's answer states about itself. */
export interface AnswerFacts {
  usage(): TokenUsage;
  /** The id that the provider gave its answer; undefined when there is none. */
  answerId?(): string | undefined;
  /** The model that the answer names, for requests in which the gateway does not read the model. */
  model?(): string | undefined;
  /** The work that the provider continues after this answer; undefined for nearly every answer. */
  deferredWork?(): DeferredWork | undefined;
}

export interface FrameEvents<Event> extends FrameOutcome {
  /** In the order in which the provider sent them; empty for a frame without meaning. */
  readonly events: readonly Event[];
}

/** The outcome of a frame without events, which reports a failure or cannot be read. */
export function withoutEvents(outcome: FrameOutcome): FrameEvents<never> {
  return { ...outcome, events: [] };
}

/** Converts the answer of a provider to events. It holds the state of one answer. */
export interface AnswerReader<Event> extends AnswerFacts {
  /**
   * The whole answer, parsed, as an object of the events' dialect. The writer refuses an object that is not an
   * answer.
   */
  whole(parsed: unknown): unknown;
  events(frame: Frame): FrameEvents<Event>;
}

/** Passes the bytes of an answer unchanged when both dialects are the same. It holds the state of one answer. */
export interface AnswerObserver extends AnswerFacts {
  /** The whole answer, as the client gets it. */
  whole(bytes: Buffer, parsed: unknown): Buffer;
  frame(frame: Frame): FrameAnswer;
}

/** The result once no more frames follow: the last bytes of the client's stream, and the response to store. */
export interface AnswerEnd {
  /**
   * The provider's stream ended normally: returns the rest of the client's stream. `cut` when it ended too early to
   * be whole.
   */
  finish(): { readonly bytes?: Buffer; readonly cut: boolean };
  /** The stream broke, or reported `refusal`: returns the error for the client. */
  broken?(refusal: Refusal): Buffer | undefined;
  /** The gateway ends the answer before its provider does: returns the rest of the client's stream. */
  abandon?(end: EarlyEnd): Buffer | undefined;
  /** A guardrail ended the answer: returns the rest of the client's stream, with the reason `content_filter`. */
  filtered?(): Buffer | undefined;
  /** Why the model stopped, as the client's dialect names it. */
  finishReason?(): string | null;
  /** The response object to keep, for dialects that have one. */
  response?(): StorableResponse | undefined;
}

/** Converts events to the client's bytes. It holds the state of one answer. */
export interface AnswerWriter<Event> extends AnswerEnd {
  /** @param answer from the reader. @throws Refusal when it is not an answer */
  whole(answer: unknown): Buffer;
  /** The client's bytes for these events; undefined when there are none. */
  events(events: readonly Event[]): Buffer | undefined;
  /** An event ended the client's stream; later events of the provider are ignored. */
  readonly ended?: boolean;
}
