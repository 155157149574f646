/** Writes Messages events for a client of the Messages API. */
import type { JsonObject } from '../../../../providers/translate/json.ts';
import { encodeMessageEvent } from '../../../../providers/translate/messages-to-chat/message-object.ts';
import { messagesErrorBody } from '../../../messages/error-object.ts';
import { gatewayStopping, streamIncomplete } from '../../../model-request/stream-refusals.ts';
import type { Refusal } from '../../../refusal.ts';
import { type AnswerWriter, joined } from '../../relay.ts';
import { checkedMessage, ObservedMessage } from './observed-message.ts';

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
