/** Reads the answer of a provider that speaks the Messages API, as events of that API. */

import { messagesFailureOf, ObservedMessage } from '../../../src/commands/exchange/dialects/messages/answer.ts';
import {
  type AnswerReader,
  type FrameEvents,
  unreadableEvent,
  withoutEvents,
} from '../../../src/commands/exchange/relay.ts';
import { type Answering, parseChunk } from '../../../src/commands/model-request/answer-body.ts';
import type { TokenUsage } from '../../../src/commands/model-request/usage.ts';
import { isObject } from '../../../src/json/is-object.ts';
import type { Frame } from '../../../src/providers/stream-frames.ts';
import type { JsonObject } from '../../../src/providers/translate/json.ts';

export class MessagesReader implements AnswerReader<JsonObject> {
  readonly #provider: Answering;
  readonly #message = new ObservedMessage();

  constructor(provider: Answering) {
    this.#provider = provider;
  }

  whole(parsed: unknown): unknown {
    if (isObject(parsed)) this.#message.noteWhole(parsed);
    return parsed;
  }

  events(frame: Frame): FrameEvents<JsonObject> {
    const { data } = frame;
    const message = this.#message;
    // The end marker belongs to other dialects, but some servers send it here too.
    if (data === undefined || data.trim() === '' || data === '[DONE]') return { events: [], terminal: message.stopped };
    const event = parseChunk(data);
    if (event === undefined) return withoutEvents(unreadableEvent(frame, this.#provider));
    const failure = messagesFailureOf(event, frame, this.#provider);
    if (failure === undefined) {
      message.note(event);
      return { events: [event], terminal: message.stopped };
    }
    const { bytes, ...outcome } = failure;
    // Anthropic's own error event, without the provider's credentials.
    const clean = bytes === undefined ? undefined : parseChunk(this.#provider.redact?.(data) ?? data);
    return { ...outcome, events: clean === undefined ? [] : [clean] };
  }

  usage(): TokenUsage {
    return this.#message.usage();
  }

  answerId(): string | undefined {
    return this.#message.answerId;
  }
}
