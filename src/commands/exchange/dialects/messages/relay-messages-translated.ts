/** Messages to a client whose model sits behind a provider of another language: translated, answer and stream. */

import { isObject } from '../../../../json/is-object.ts';
import type { Frame } from '../../../../providers/sse.ts';
import type { ChatReader } from '../../../../providers/translate/chat-adapter.ts';
import type { JsonObject } from '../../../../providers/translate/json.ts';
import { messageFromChat } from '../../../../providers/translate/messages-to-chat/answer.ts';
import {
  encodeMessageEvent,
  type Message,
  type MessageShell,
} from '../../../../providers/translate/messages-to-chat/message-object.ts';
import {
  createMessageStreamTranslator,
  type MessageStreamTranslator,
} from '../../../../providers/translate/messages-to-chat/stream.ts';
import { messagesErrorBody } from '../../../messages/error-object.ts';
import type { Answering } from '../../../model-request/redacted.ts';
import { gatewayStopping, streamIncomplete } from '../../../model-request/stream-refusals.ts';
import { readUsage, type TokenUsage, unknownUsage } from '../../../model-request/usage.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import type { StorableResponse } from '../../../responses/storable-response.ts';
import { failureIn, unreadableEvent } from '../../delivery/reported-failure.ts';
import { type FrameAnswer, joined, type Relay } from '../../relay.ts';

export class TranslatedMessagesRelay implements Relay {
  readonly #provider: Answering;
  readonly #reader: ChatReader;
  readonly #shell: MessageShell;
  readonly #translator: MessageStreamTranslator;
  #whole: Message | undefined;
  #usage: TokenUsage = unknownUsage;

  constructor(provider: Answering, reader: ChatReader, shell: MessageShell) {
    this.#provider = provider;
    this.#reader = reader;
    this.#shell = shell;
    this.#translator = createMessageStreamTranslator(shell);
  }

  whole(_bytes: Buffer, parsed: unknown): Buffer {
    const completion = this.#reader.whole(parsed);
    if (isObject(completion)) this.#observe(completion);
    this.#whole = messageFromChat(completion, this.#shell);
    if (this.#whole === undefined) {
      const { name } = this.#provider;
      throw refusals.badAnswer(
        name,
        `The provider '${name}' gave an answer without a choice, or one that was interrupted.`,
      );
    }
    return Buffer.from(JSON.stringify(this.#whole));
  }

  frame(frame: Frame): FrameAnswer {
    if (frame.data === undefined) return { terminal: this.#reader.ended };
    const chunks = this.#reader.chunks(frame.data);
    if (chunks === undefined) return unreadableEvent(frame, this.#provider);
    const bytes: Buffer[] = [];
    for (const chunk of chunks) {
      this.#observe(chunk);
      const failure = failureIn(chunk, frame, this.#provider);
      if (failure !== undefined) return failure;
      for (const event of this.#translator.push(chunk)) bytes.push(encodeMessageEvent(event));
    }
    return { bytes: joined(bytes), terminal: this.#reader.ended };
  }

  finish(): { bytes?: Buffer; cut: boolean } {
    if (!this.#translator.stopped) {
      return { bytes: this.broken(streamIncomplete(this.#provider.name)), cut: true };
    }
    return { bytes: Buffer.concat(this.#translator.finish().map(encodeMessageEvent)), cut: false };
  }

  broken(refusal: Refusal): Buffer {
    return errorEvent(refusal);
  }

  abandon(): Buffer {
    return errorEvent(gatewayStopping());
  }

  usage(): TokenUsage {
    return this.#usage;
  }

  answerId(): string | undefined {
    return this.#reader.answerId;
  }

  finishReason(): string | null {
    return this.#message().stop_reason;
  }

  /** The message as the client gets it, for the record only. */
  response(): StorableResponse {
    const message = this.#message();
    return { id: message.id, status: 'completed', json: JSON.stringify(message) };
  }

  #message(): Message {
    return this.#whole ?? this.#translator.message();
  }

  #observe({ usage }: JsonObject): void {
    if (isObject(usage)) this.#usage = readUsage(usage);
  }
}

/** A stream that fails ends with an `error` event, as Anthropic's do. */
export function errorEvent(refusal: Refusal): Buffer {
  return encodeMessageEvent({ type: 'error', ...messagesErrorBody(refusal) });
}
