/** Writes chat completion chunks for a client of the Messages API. */
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
import { gatewayStopping, streamIncomplete } from '../../../model-request/stream-refusals.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import type { StorableResponse } from '../../../responses/storable-response.ts';
import type { AnswerWriter } from '../../answer/reader-and-writer.ts';
import { joined } from '../../relay.ts';
import { messagesStreamError } from './writer.ts';

export class MessagesFromChatWriter implements AnswerWriter<JsonObject> {
  readonly #provider: string;
  readonly #shell: MessageShell;
  readonly #translator: MessageStreamTranslator;
  #whole: Message | undefined;

  constructor(provider: string, shell: MessageShell) {
    this.#provider = provider;
    this.#shell = shell;
    this.#translator = createMessageStreamTranslator(shell);
  }

  whole(completion: unknown): Buffer {
    this.#whole = messageFromChat(completion, this.#shell);
    if (this.#whole === undefined) {
      const name = this.#provider;
      throw refusals.badAnswer(
        name,
        `The provider '${name}' gave an answer without a choice, or one that was interrupted.`,
      );
    }
    return Buffer.from(JSON.stringify(this.#whole));
  }

  events(chunks: readonly JsonObject[]): Buffer | undefined {
    return joined(chunks.flatMap((chunk) => this.#translator.push(chunk)).map(encodeMessageEvent));
  }

  finish(): { bytes?: Buffer; cut: boolean } {
    if (!this.#translator.stopped) return { bytes: this.broken(streamIncomplete(this.#provider)), cut: true };
    return { bytes: Buffer.concat(this.#translator.finish().map(encodeMessageEvent)), cut: false };
  }

  broken(refusal: Refusal): Buffer {
    return messagesStreamError(refusal);
  }

  abandon(): Buffer {
    return messagesStreamError(gatewayStopping());
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
}
