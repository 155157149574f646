/**
 * One answer on its way from its provider to its client: a reader of the provider's dialect, guardrails where some
 * run, and a writer of the client's dialect. Where both dialects are the same and no guardrail runs, the provider's
 * bytes pass unchanged, and only the frames with facts for the record are parsed.
 */
import {
  createFrameSplitter,
  type Frame,
  type UnreadFrames,
  type UnreadPattern,
} from '../../providers/stream-frames.ts';
import { type ClientEvent, encodeEvent, type JsonObject } from '../../providers/translate/json.ts';
import { isErrorBody, mapUpstreamError } from '../../providers/upstream-error.ts';
import { type Answering, parseChunk, redacted } from '../model-request/answer-body.ts';
import { type EarlyEnd, refusalFromUpstream } from '../model-request/upstream-refusals.ts';
import type { DeferredWork, TokenUsage } from '../model-request/usage.ts';
import { type Refusal, refusals } from '../refusal.ts';
import type { StorableResponse } from '../responses/storable-response.ts';

/** The meaning of one frame of a provider's stream, for its client and for the record. */
export interface FrameResult {
  /** The client's bytes. Of a reader: the provider's own bytes, where the client gets these. */
  readonly bytes?: Buffer | undefined;
  /** Of a reader: the events of the frame, where it was parsed. */
  readonly events?: readonly JsonObject[] | undefined;
  /** Whether this frame, and everything after it, may be sent to the client only when everything is on disk. */
  readonly terminal: boolean;
  /** Recorded instead of the frame's own bytes, when those held the provider's credentials. */
  readonly record?: Buffer | undefined;
  /** A failure that the provider reported after the start of its stream. */
  readonly refusal?: Refusal | undefined;
  /** A guardrail ended the answer here. `bytes` are the end of the client's stream, if anything was sent before. */
  readonly guardrail?: GuardrailEnd | undefined;
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
  readonly bytes?: Buffer | undefined;
  /** The stream ended too early to be whole. */
  readonly cut: boolean;
  readonly guardrail?: GuardrailEnd;
  /** Of a cut stream: the error that the provider reported, for a client that was sent nothing before. */
  readonly reported?: Refusal | undefined;
}

/** Reads the answer of a provider. It holds the state of one answer. */
export interface AnswerReader {
  /**
   * The whole answer as an object of the dialect in which the reader gives events. With `bytes`, that is the client's
   * dialect, and these are the bytes for the client.
   */
  readWhole(bytes: Buffer, parsed: unknown): { readonly answer: unknown; readonly bytes?: Buffer };
  /** With `bytes`, events are those of the client's dialect; they may be left out, and are then those in `bytes`. */
  read(frame: Frame): FrameResult;
  /** Where the client gets the provider's bytes: which frames it need not read. */
  readonly unread?: UnreadPattern;
  /** Frames that it need not read, instead of `read`. The client gets their bytes. */
  passRun?(run: UnreadFrames): void;
  usage(): TokenUsage;
  /** The id that the provider gave its answer; undefined when there is none. */
  readonly answerId?: string | undefined;
  /** The model that the answer names, for requests in which the gateway does not read the model. */
  readonly model?: string | undefined;
  /** The work that the provider continues after this answer; undefined for nearly every answer. */
  deferredWork?(): DeferredWork | undefined;
}

/** The last events of a client's stream; `cut` when it ended too early to be whole. */
export interface WrittenEnd {
  readonly events: readonly ClientEvent[];
  readonly cut: boolean;
}

/** Writes an answer in the client's dialect. It holds the state of the answer as the client gets it. */
export interface AnswerWriter {
  /** Whether each event is named by its `type`. */
  readonly namesEvents: boolean;
  /** @param answer from the reader. @throws Refusal when it is not an answer */
  writeWhole(answer: unknown): unknown;
  /** The client's events for this event. They must be encoded before the next call, which may change their members. */
  write(event: JsonObject): readonly ClientEvent[];
  /** An event ended the client's stream; later events of the provider are ignored. */
  readonly ended?: boolean;
  /** The provider's stream ended normally: the rest of the client's stream. */
  finish(): WrittenEnd;
  /** The stream broke, or reported `refusal`: the error for the client. */
  broken(refusal: Refusal): readonly ClientEvent[];
  /** The gateway ends the answer before its provider does: the rest of the client's stream. */
  abandon(end: EarlyEnd): readonly ClientEvent[];
  /** A guardrail ended the answer: the rest of the client's stream, with the reason `content_filter`. */
  filtered?(): readonly ClientEvent[];
  /** Why the model stopped, as the client's dialect names it. */
  readonly finishReason?: string | null;
  /** The response object to store, for dialects that have one. */
  response?(): StorableResponse | undefined;
}

/** Of one attempt. Guardrails may need time to evaluate an answer as a whole. */
export interface ResponseStream {
  /** The facts that the provider states. */
  readonly reader: AnswerReader;
  /** The facts of the answer that the client gets. */
  readonly writer: AnswerWriter;
  /** The stream without guardrails. */
  readonly unguarded: AnswerStream;
  /** The whole answer, as the client gets it. @throws Refusal when it is malformed, AnswerBlocked when a guardrail ended it */
  whole(bytes: Buffer, parsed: unknown): Buffer | Promise<Buffer>;
  frame(frame: Frame): FrameResult;
  /** The provider's stream ended normally. Called once. */
  finish(): StreamFinish | Promise<StreamFinish>;
  /** The stream broke, or reported `refusal`: the error for the client. */
  broken(refusal: Refusal): Buffer | undefined;
  /** The gateway ends the answer before its provider does: the rest of the client's stream. */
  abandon(end: EarlyEnd): Buffer | undefined;
}

/** An answer without guardrails. */
export class AnswerStream implements ResponseStream {
  readonly reader: AnswerReader;
  readonly writer: AnswerWriter;

  /** @param writer the reader itself, where the provider's dialect is the client's */
  constructor(reader: AnswerReader, writer: AnswerWriter) {
    this.reader = reader;
    this.writer = writer;
  }

  get unguarded(): AnswerStream {
    return this;
  }

  whole(bytes: Buffer, parsed: unknown): Buffer {
    const read = this.reader.readWhole(bytes, parsed);
    return read.bytes ?? Buffer.from(JSON.stringify(this.writer.writeWhole(read.answer)));
  }

  /** The whole answer, as an object of the client's dialect. @throws Refusal when it is malformed */
  wholeAnswer(bytes: Buffer, parsed: unknown): unknown {
    const read = this.reader.readWhole(bytes, parsed);
    return read.bytes === undefined ? this.writer.writeWhole(read.answer) : read.answer;
  }

  frame(frame: Frame): FrameResult {
    const read = this.reader.read(frame);
    if (read.bytes !== undefined) return read;
    const bytes = read.events === undefined ? undefined : write(read.events, this.writer);
    return { ...read, bytes, terminal: read.terminal || this.writer.ended === true };
  }

  /** The frame as events of the client's dialect; without `events` where the client gets nothing. */
  eventsIn(frame: Frame): Omit<FrameResult, 'events' | 'bytes'> & { readonly events?: readonly ClientEvent[] } {
    const { bytes, events, ...read } = this.reader.read(frame);
    if (bytes === undefined) {
      const written = events?.flatMap((event) => this.writer.write(event)) ?? [];
      const terminal = read.terminal || this.writer.ended === true;
      return written.length === 0 ? { ...read, terminal } : { ...read, terminal, events: written };
    }
    if (events !== undefined) return { ...read, events };
    const [{ data } = frame] = bytes === frame.raw ? [frame] : createFrameSplitter().push(bytes);
    const event = data === undefined ? undefined : parseChunk(data);
    return { ...read, events: event === undefined ? [] : [event] };
  }

  finish(): StreamFinish {
    const { events, cut } = this.writer.finish();
    return { bytes: encode(events, this.writer), cut };
  }

  broken(refusal: Refusal): Buffer | undefined {
    return encode(this.writer.broken(refusal), this.writer);
  }

  abandon(end: EarlyEnd): Buffer | undefined {
    return encode(this.writer.abandon(end), this.writer);
  }
}

/** The client's bytes for these events of the reader; undefined when there are none. */
export function write(events: readonly JsonObject[], writer: AnswerWriter): Buffer | undefined {
  const pieces: Buffer[] = [];
  for (const event of events) {
    for (const written of writer.write(event)) pieces.push(encodeEvent(written, writer.namesEvents));
  }
  return joined(pieces);
}

/** The bytes of the client's events; undefined when there are none. */
export function encode(
  events: readonly ClientEvent[],
  { namesEvents }: Pick<AnswerWriter, 'namesEvents'>,
): Buffer | undefined {
  return joined(events.map((event) => encodeEvent(event, namesEvents)));
}

/** Adds the next piece of a client's stream; one that lies behind the last one in memory is not copied to join them. */
export function addPiece(pieces: Buffer[], next: Buffer): void {
  const last = pieces.at(-1);
  if (last?.buffer === next.buffer && last.byteOffset + last.length === next.byteOffset) {
    pieces[pieces.length - 1] = Buffer.from(last.buffer, last.byteOffset, last.length + next.length);
  } else pieces.push(next);
}

/** Joins pieces of a client's stream; undefined when there are none. */
export function joined(pieces: readonly Buffer[]): Buffer | undefined {
  return pieces.length > 1 ? Buffer.concat(pieces) : pieces[0];
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

/** The failure that this part of a provider's stream reports, in its members or as an event named `error`. */
export function failureIn(part: object, frame: Frame, provider: Answering): FrameResult | undefined {
  return frame.event === 'error' || isErrorBody(part) ? reportedFailure(part, frame, provider) : undefined;
}

/** The failure that a provider reports in its stream. @param body its error, in OpenAI's form or as a plain string */
export function reportedFailure(body: object, frame: Frame, provider: Answering): FrameResult {
  const answer = { status: 200, headers: {}, body: Buffer.from(JSON.stringify(body)), provider };
  return {
    terminal: true,
    refusal: refusalFromUpstream(mapUpstreamError(answer)),
    record: redacted(frame.raw, provider),
  };
}

/** The failure of a stream with an event whose data is not JSON: a part of the answer is missing. */
export function unreadableEvent(frame: Frame, provider: Answering): FrameResult {
  if (frame.event === 'error') return reportedFailure({ message: frame.data }, frame, provider);
  const { name } = provider;
  const refusal = refusals.badAnswer(name, `The provider '${name}' sent a stream event that is not JSON.`);
  return { terminal: true, refusal, record: redacted(frame.raw, provider) };
}

/** An answer that no provider gave, in a dialect that `stream` reads. */
export interface GivenAnswer {
  readonly stream: AnswerStream;
  readonly whole: unknown;
  readonly events: readonly unknown[];
}

/** An answer that no provider gave, as the client gets it. @param isStream whether as a whole stream */
export function bytesOfGiven({ stream, whole, events }: GivenAnswer, isStream: boolean): Buffer {
  if (!isStream) return stream.whole(Buffer.from(JSON.stringify(whole)), whole);
  const data = [...events.map((event) => JSON.stringify(event)), '[DONE]'];
  const bytes = data.map((one) => stream.frame({ raw: Buffer.from(`data: ${one}\n\n`), data: one }).bytes);
  return Buffer.concat([...bytes, stream.finish().bytes].filter((one) => one !== undefined));
}
