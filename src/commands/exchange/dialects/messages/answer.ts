/** A message: passed on unchanged, or written for a client. */
import { isObject } from '../../../../json/is-object.ts';
import type { Frame, UnreadPattern } from '../../../../providers/stream-frames.ts';
import { type ClientEvent, filled, type JsonObject } from '../../../../providers/translate/json.ts';
import { isErrorBody, mapUpstreamError, statusOfErrorType } from '../../../../providers/upstream-error.ts';
import { messagesErrorBody } from '../../../messages/error-object.ts';
import { type Answering, isNoEvent, parseChunk, redacted } from '../../../model-request/answer-body.ts';
import { gatewayStopping, refusalFromUpstream, streamIncomplete } from '../../../model-request/upstream-refusals.ts';
import { readUsage, type TokenUsage } from '../../../model-request/usage.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import {
  type AnswerReader,
  type AnswerWriter,
  type FrameResult,
  reportedFailure,
  unreadableEvent,
  type WrittenEnd,
} from '../../response-stream.ts';

/** @throws Refusal when a whole answer is not a message */
function checkedMessage(answer: unknown, provider: string): JsonObject {
  if (isObject(answer) && Array.isArray(answer.content)) return answer;
  throw refusals.badAnswer(provider, `The provider '${provider}' gave an answer that is not a message.`);
}

/** In JSON text this matches members only: inside a string the quotes would be escaped. */
const SAYS_MORE = /"type"\s*:\s*"(?:message_start|message_delta|message_stop|error)"|"error"\s*:\s*[{"]/;

const UNREAD: UnreadPattern = {
  start: 'event: content_block_delta\ndata: {',
  isRead: new RegExp(SAYS_MORE.source, 'g'),
};

/** A message for a client of the Messages API: the provider's bytes, unchanged, or events that are written. */
export class MessagesAnswer implements AnswerReader, AnswerWriter {
  readonly namesEvents = true;
  answerId: string | undefined;
  finishReason: string | null = null;
  readonly #provider: Answering;
  /** Whether the client has received `message_stop`. */
  #isStopped = false;
  /** Whether the client has received the provider's own `error` event. */
  #isFailed = false;
  /** The last reported usage, member by member: the counts of a stream are cumulative. */
  #usage: JsonObject | undefined;
  /** Of a written answer: the index of the content block that has begun and not ended. */
  #openBlock: unknown;

  constructor(provider: Answering) {
    this.#provider = provider;
  }

  readWhole(bytes: Buffer, parsed: unknown) {
    if (isObject(parsed)) this.#noteWhole(parsed);
    return { answer: parsed, bytes };
  }

  read(frame: Frame): FrameResult {
    const { data, raw } = frame;
    const event = data !== undefined && SAYS_MORE.test(data) ? parseChunk(data) : undefined;
    if (event === undefined && data !== undefined && isNoEvent(data)) return unreadableEvent(frame, this.#provider);
    if (event === undefined) return { bytes: raw, terminal: this.#isStopped };
    const failure = isErrorBody(event) ? this.#failure(event, frame) : undefined;
    if (failure === undefined || failure.bytes !== undefined) this.#note(event);
    return failure ?? { bytes: raw, events: [event], terminal: this.#isStopped };
  }

  readonly unread = UNREAD;

  usage(): TokenUsage {
    return readUsage(this.#usage);
  }

  writeWhole(message: unknown): JsonObject {
    const answer = checkedMessage(message, this.#provider.name);
    this.#noteWhole(answer);
    return answer;
  }

  write(event: JsonObject): readonly JsonObject[] {
    this.#note(event);
    if (event['type'] === 'content_block_start') this.#openBlock = event['index'];
    else if (event['type'] === 'content_block_stop') this.#openBlock = undefined;
    return [event];
  }

  finish(): WrittenEnd {
    if (this.#isStopped) return { events: [], cut: false };
    return { events: this.broken(streamIncomplete(this.#provider.name)), cut: true };
  }

  broken(refusal: Refusal): readonly ClientEvent[] {
    return this.#isFailed || this.#isStopped ? [] : [messagesErrorEvent(refusal)];
  }

  abandon(): readonly ClientEvent[] {
    return this.broken(gatewayStopping());
  }

  filtered(): readonly ClientEvent[] {
    const block = this.#openBlock === undefined ? [] : [{ type: 'content_block_stop', index: this.#openBlock }];
    const delta = { stop_reason: 'refusal', stop_sequence: null };
    const usage = { output_tokens: this.usage().outputTokens ?? 0 };
    const events = [...block, { type: 'message_delta', delta, usage }, { type: 'message_stop' }];
    return events.flatMap((event) => this.write(event));
  }

  /** Anthropic's own `error` event is passed to the client, without the provider's credentials. */
  #failure(event: JsonObject, frame: Frame): FrameResult {
    const provider = this.#provider;
    if (event['type'] !== 'error') return reportedFailure(event, frame, provider);
    const type = isObject(event['error']) ? event['error']['type'] : undefined;
    const body = Buffer.from(JSON.stringify(event));
    const refusal = refusalFromUpstream(
      mapUpstreamError({ headers: {}, body, provider, status: statusOfErrorType(type) ?? 200 }),
    );
    const clean = redacted(frame.raw, provider);
    return { bytes: clean, record: clean, terminal: true, refusal };
  }

  #noteWhole(message: JsonObject): void {
    this.answerId = filled(message['id']);
    this.#noteEnd(message, message);
  }

  #note(event: JsonObject): void {
    const { type, message, delta, usage } = event;
    if (type === 'message_start' && isObject(message)) this.#noteWhole(message);
    else if (type === 'message_delta') this.#noteEnd({ usage }, delta);
    else if (type === 'message_stop') this.#isStopped = true;
    else if (type === 'error' && isErrorBody(event)) this.#isFailed = true;
  }

  #noteEnd({ usage }: JsonObject, stopped: unknown): void {
    if (isObject(usage)) {
      const reported = Object.entries(usage).filter(([, value]) => value !== null);
      this.#usage = { ...this.#usage, ...Object.fromEntries(reported) };
    }
    if (isObject(stopped) && typeof stopped['stop_reason'] === 'string') this.finishReason = stopped['stop_reason'];
  }
}

/** The event that ends a stream which fails, as in Anthropic's API. */
export function messagesErrorEvent(refusal: Refusal): ClientEvent {
  return { type: 'error', ...messagesErrorBody(refusal) };
}
