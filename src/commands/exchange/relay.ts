/**
 * How the exchange handles an answer: its bytes for the client, and its facts for the record. `unchangedRelay`
 * makes one from an observer, `translatedRelay` from a reader and a writer.
 */
import type { Frame } from '../../providers/stream-frames.ts';
import { isErrorBody, mapUpstreamError } from '../../providers/upstream-error.ts';
import { type Answering, redacted } from '../model-request/answer-body.ts';
import { type EarlyEnd, refusalFromUpstream } from '../model-request/upstream-refusals.ts';
import type { DeferredWork, TokenUsage } from '../model-request/usage.ts';
import { type Refusal, refusals } from '../refusal.ts';
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

// The two halves of an answer. A reader converts what the provider sends to events of one dialect. A writer converts
// events of that dialect to the client's bytes. When the two dialects differ, the events are chat completion chunks;
// when they match, the events are the dialect's own.
// - `translatedRelay(reader, writer)`: every frame is parsed and written again. A step that changes the answer stands
// between the two.
// - `unchangedRelay(observer, writer)`: the provider's bytes pass unchanged. The observer parses only the frames that
// contain something to record.

/** Facts that the provider's answer states about itself. */
interface AnswerFacts {
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

// An answer whose bytes pass unchanged, because the provider's dialect is the client's.

/** @param end a writer that shares the observer's state, since it sees no events */
export function unchangedRelay(observer: AnswerObserver, end: AnswerEnd): Relay {
  return new UnchangedRelay(observer, end);
}

/** A class, so that its methods are not created again for each exchange: nearly every exchange has one. */
class UnchangedRelay implements Relay {
  readonly #observer: AnswerObserver;
  readonly #end: AnswerEnd;

  constructor(observer: AnswerObserver, end: AnswerEnd) {
    this.#observer = observer;
    this.#end = end;
  }

  whole(bytes: Buffer, parsed: unknown): Buffer {
    return this.#observer.whole(bytes, parsed);
  }

  frame(frame: Frame): FrameAnswer {
    return this.#observer.frame(frame);
  }

  finish(): { readonly bytes?: Buffer; readonly cut: boolean } {
    return this.#end.finish();
  }

  broken(refusal: Refusal): Buffer | undefined {
    return this.#end.broken?.(refusal);
  }

  abandon(end: EarlyEnd): Buffer | undefined {
    return this.#end.abandon?.(end);
  }

  usage(): TokenUsage {
    return this.#observer.usage();
  }

  deferredWork(): DeferredWork | undefined {
    return this.#observer.deferredWork?.();
  }

  model(): string | undefined {
    return this.#observer.model?.();
  }

  answerId(): string | undefined {
    return this.#observer.answerId?.();
  }

  finishReason(): string | null {
    return this.#end.finishReason?.() ?? null;
  }

  response(): StorableResponse | undefined {
    return this.#end.response?.();
  }
}

/** An answer that is read as events and written again in the client's dialect. */
export function translatedRelay<Event>(reader: AnswerReader<Event>, writer: AnswerWriter<Event>): Relay {
  return {
    whole: (_bytes, parsed) => writer.whole(reader.whole(parsed)),
    frame: (frame) => writtenFrame(reader, writer, frame),
    finish: () => writer.finish(),
    broken: (refusal) => writer.broken?.(refusal),
    abandon: (end) => writer.abandon?.(end),
    usage: () => reader.usage(),
    deferredWork: () => reader.deferredWork?.(),
    model: () => reader.model?.(),
    answerId: () => reader.answerId?.(),
    finishReason: () => writer.finishReason?.() ?? null,
    response: () => writer.response?.(),
  };
}

function writtenFrame<Event>(reader: AnswerReader<Event>, writer: AnswerWriter<Event>, frame: Frame): FrameAnswer {
  const { events, terminal, record, refusal } = reader.events(frame);
  const bytes = events.length === 0 ? undefined : writer.events(events);
  return { bytes, terminal: terminal || writer.ended === true, record, refusal };
}

/** The failure that this part of a provider's stream reports, in its members or as an event named `error`. */
export function failureIn(part: object, frame: Frame, provider: Answering): FrameAnswer | undefined {
  return frame.event === 'error' || isErrorBody(part) ? reportedFailure(part, frame, provider) : undefined;
}

/** The failure that a provider reports in its stream. @param body its error, in OpenAI's form or as a plain string */
export function reportedFailure(body: object, frame: Frame, provider: Answering): FrameAnswer {
  const answer = { status: 200, headers: {}, body: Buffer.from(JSON.stringify(body)), provider };
  return {
    terminal: true,
    refusal: refusalFromUpstream(mapUpstreamError(answer)),
    record: redacted(frame.raw, provider),
  };
}

/** The failure of a stream with an event whose data is not JSON: a part of the answer is missing. */
export function unreadableEvent(frame: Frame, provider: Answering): FrameAnswer {
  if (frame.event === 'error') return reportedFailure({ message: frame.data }, frame, provider);
  const { name } = provider;
  const refusal = refusals.badAnswer(name, `The provider '${name}' sent a stream event that is not JSON.`);
  return { terminal: true, refusal, record: redacted(frame.raw, provider) };
}

/** An answer that no provider gave, as the client gets it. */
export function wholeOfGiven({ relay, whole }: GivenAnswer): Buffer {
  const bytes = Buffer.from(JSON.stringify(whole));
  return relay.whole(bytes, whole);
}

/** The whole stream. */
export function streamOfGiven({ relay, events }: GivenAnswer): Buffer {
  const data = [...events.map((event) => JSON.stringify(event)), '[DONE]'];
  const bytes = data.map((one) => relay.frame({ raw: Buffer.from(`data: ${one}\n\n`), data: one }).bytes);
  return Buffer.concat([...bytes, relay.finish().bytes].filter((one) => one !== undefined));
}
