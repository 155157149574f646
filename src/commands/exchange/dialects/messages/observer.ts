/** Relays messages to a client of the Messages API: the provider's bytes, unchanged. */
import { isObject } from '../../../../json/is-object.ts';
import type { Frame } from '../../../../providers/sse.ts';
import { isNoEvent, parseChunk } from '../../../model-request/parse-chunk.ts';
import type { Answering } from '../../../model-request/redacted.ts';
import type { TokenUsage } from '../../../model-request/usage.ts';
import { type AnswerObserver, type FrameAnswer, unreadableEvent } from '../../relay.ts';
import type { ObservedMessage } from './observed-message.ts';
import { messagesFailureOf } from './stream-failure.ts';

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
