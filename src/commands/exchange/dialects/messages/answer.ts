/** A message: the facts of a native one, read from its events, and its writer for translations. */
import { isObject } from '../../../../json/is-object.ts';
import type { Frame } from '../../../../providers/stream-frames.ts';
import { filled, type JsonObject } from '../../../../providers/translate/json.ts';
import { encodeMessageEvent } from '../../../../providers/translate/messages-to-chat/message-object.ts';
import { isErrorBody, mapUpstreamError, statusOfErrorType } from '../../../../providers/upstream-error.ts';
import { messagesErrorBody } from '../../../messages/error-object.ts';
import { type Answering, isNoEvent, parseChunk, redacted } from '../../../model-request/answer-body.ts';
import { gatewayStopping, refusalFromUpstream, streamIncomplete } from '../../../model-request/upstream-refusals.ts';
import { readUsage, type TokenUsage } from '../../../model-request/usage.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import {
  type AnswerObserver,
  type AnswerWriter,
  type FrameAnswer,
  joined,
  reportedFailure,
  unreadableEvent,
} from '../../relay.ts';

export class ObservedMessage {
  answerId: string | undefined;
  stopReason: string | null = null;
  /** Whether the client has received `message_stop`. */
  stopped = false;
  /** Whether the client has received the provider's own `error` event. */
  failed = false;
  /** The last reported usage, member by member: the counts of a stream are cumulative. */
  #usage: JsonObject | undefined;

  noteWhole(message: JsonObject): void {
    this.answerId = filled(message['id']);
    this.#note(message, message);
  }

  note(event: JsonObject): void {
    const { type, message, delta, usage } = event;
    if (type === 'message_start' && isObject(message)) this.noteWhole(message);
    else if (type === 'message_delta') this.#note({ usage }, delta);
    else if (type === 'message_stop') this.stopped = true;
    else if (type === 'error' && isErrorBody(event)) this.failed = true;
  }

  usage(): TokenUsage {
    return readUsage(this.#usage);
  }

  #note({ usage }: JsonObject, stopped: unknown): void {
    if (isObject(usage)) {
      const reported = Object.entries(usage).filter(([, value]) => value !== null);
      this.#usage = { ...this.#usage, ...Object.fromEntries(reported) };
    }
    if (isObject(stopped) && typeof stopped['stop_reason'] === 'string') this.stopReason = stopped['stop_reason'];
  }
}

/** @throws Refusal when a whole answer is not a message */
function checkedMessage(answer: unknown, provider: string): JsonObject {
  if (isObject(answer) && Array.isArray(answer.content)) return answer;
  throw refusals.badAnswer(provider, `The provider '${provider}' gave an answer that is not a message.`);
}

// Relays messages to a client of the Messages API: the provider's bytes, unchanged.

/** In JSON text this matches members only: inside a string the quotes would be escaped. */
const SAYS_MORE = /"type"\s*:\s*"(?:message_start|message_delta|message_stop|error)"|"error"\s*:\s*[{"]/;

export class MessagesObserver implements AnswerObserver {
  readonly #provider: Answering;
  readonly #message: ObservedMessage;

  /** @param message shared with the writer */
  constructor(provider: Answering, message: ObservedMessage) {
    this.#provider = provider;
    this.#message = message;
  }

  whole(bytes: Buffer, parsed: unknown): Buffer {
    if (isObject(parsed)) this.#message.noteWhole(parsed);
    return bytes;
  }

  frame(frame: Frame): FrameAnswer {
    const { data, raw } = frame;
    const message = this.#message;
    const event = data !== undefined && SAYS_MORE.test(data) ? parseChunk(data) : undefined;
    if (event === undefined && data !== undefined && isNoEvent(data)) return unreadableEvent(frame, this.#provider);
    if (event === undefined) return { bytes: raw, terminal: message.stopped };
    const failure = messagesFailureOf(event, frame, this.#provider);
    if (failure === undefined || failure.bytes !== undefined) message.note(event);
    return failure ?? { bytes: raw, terminal: message.stopped };
  }

  usage(): TokenUsage {
    return this.#message.usage();
  }

  answerId(): string | undefined {
    return this.#message.answerId;
  }
}

// The failure that an event of a native Messages stream reports.

/** Anthropic's own `error` event is passed to the client: `bytes` are the event without the provider's credentials. */
export function messagesFailureOf(event: JsonObject, frame: Frame, provider: Answering): FrameAnswer | undefined {
  if (!isErrorBody(event)) return undefined;
  if (event['type'] !== 'error') return reportedFailure(event, frame, provider);
  const type = isObject(event['error']) ? event['error']['type'] : undefined;
  const body = Buffer.from(JSON.stringify(event));
  const refusal = refusalFromUpstream(
    mapUpstreamError({ headers: {}, body, provider, status: statusOfErrorType(type) ?? 200 }),
  );
  const clean = redacted(frame.raw, provider);
  return { bytes: clean, record: clean, terminal: true, refusal };
}

/** Writes Messages events for a client of the Messages API. */
export class MessagesWriter implements AnswerWriter<JsonObject> {
  readonly #provider: string;
  readonly #message: ObservedMessage;
  /** The index of the content block that has begun and not ended. */
  #openBlock: unknown;

  /** @param message shared with the observer where the provider's bytes pass unchanged */
  constructor(provider: string, message = new ObservedMessage()) {
    this.#provider = provider;
    this.#message = message;
  }

  whole(message: unknown): Buffer {
    this.#message.noteWhole(checkedMessage(message, this.#provider));
    return Buffer.from(JSON.stringify(message));
  }

  events(events: readonly JsonObject[]): Buffer | undefined {
    return joined(
      events.map((event) => {
        this.#message.note(event);
        if (event['type'] === 'content_block_start') this.#openBlock = event['index'];
        else if (event['type'] === 'content_block_stop') this.#openBlock = undefined;
        return encode(event);
      }),
    );
  }

  finish(): { bytes?: Buffer; cut: boolean } {
    if (this.#message.stopped) return { cut: false };
    return { bytes: this.broken(streamIncomplete(this.#provider)), cut: true };
  }

  broken(refusal: Refusal): Buffer | undefined {
    return this.#message.failed || this.#message.stopped ? undefined : messagesStreamError(refusal);
  }

  abandon(): Buffer | undefined {
    return this.broken(gatewayStopping());
  }

  filtered(): Buffer | undefined {
    const block = this.#openBlock === undefined ? [] : [{ type: 'content_block_stop', index: this.#openBlock }];
    const delta = { stop_reason: 'refusal', stop_sequence: null };
    const usage = { output_tokens: this.#message.usage().outputTokens ?? 0 };
    return this.events([...block, { type: 'message_delta', delta, usage }, { type: 'message_stop' }]);
  }

  finishReason(): string | null {
    return this.#message.stopReason;
  }
}

function encode(event: JsonObject): Buffer {
  const { type } = event;
  const name = typeof type === 'string' ? `event: ${type}\n` : '';
  return Buffer.from(`${name}data: ${JSON.stringify(event)}\n\n`);
}

/** A stream that fails ends with an `error` event, as Anthropic's do. */
export function messagesStreamError(refusal: Refusal): Buffer {
  return encodeMessageEvent({ type: 'error', ...messagesErrorBody(refusal) });
}
