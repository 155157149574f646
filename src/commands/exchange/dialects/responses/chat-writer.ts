/** Writes chat completion chunks for a client of the Responses API. */
import { responseFromChat } from '../../../../providers/translate/chat-to-responses/answer.ts';
import {
  DONE,
  encodeResponseEvent,
  type ResponseEvent,
} from '../../../../providers/translate/chat-to-responses/response-events.ts';
import type { ResponseShell } from '../../../../providers/translate/chat-to-responses/response-object.ts';
import {
  type ChatStreamTranslator,
  createChatStreamTranslator,
} from '../../../../providers/translate/chat-to-responses/stream.ts';
import type { JsonObject } from '../../../../providers/translate/json.ts';
import type { EarlyEnd } from '../../../model-request/stream-refusals.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import type { StorableResponse } from '../../../responses/storable-response.ts';
import { type AnswerWriter, joined } from '../../relay.ts';

export class ResponsesFromChatWriter implements AnswerWriter<JsonObject> {
  readonly #shell: ResponseShell;
  /** Unix seconds. */
  readonly #now: () => number;
  readonly #translator: ChatStreamTranslator;
  #whole: StorableResponse | undefined;

  constructor(shell: ResponseShell, now: () => number) {
    this.#shell = shell;
    this.#now = now;
    this.#translator = createChatStreamTranslator(shell);
  }

  whole(completion: unknown): Buffer {
    const answer = responseFromChat(completion, this.#shell, this.#now());
    if (!answer.ok) throw refusals.badAnswer(this.#shell.provider, answer.error.message, answer.error.code);
    const { id, status, output } = answer.response;
    this.#whole = { id, status, json: JSON.stringify(answer.response), output };
    return Buffer.from(this.#whole.json);
  }

  events(chunks: readonly JsonObject[]): Buffer | undefined {
    return joined(chunks.flatMap((chunk) => this.#translator.push(chunk)).map(encodeResponseEvent));
  }

  get ended(): boolean {
    return this.#translator.ended !== undefined;
  }

  finish(): { bytes?: Buffer; cut: boolean } {
    const events = this.#translator.finish({ completedAt: this.#now(), endMarker: false });
    return { bytes: lastBytes(events), cut: this.#translator.ended === 'response.failed' };
  }

  broken(refusal: Refusal): Buffer | undefined {
    return this.ended ? DONE : lastBytes(this.#translator.fail(refusal));
  }

  abandon({ refusal, status }: EarlyEnd): Buffer | undefined {
    return this.ended ? undefined : lastBytes(this.#translator.fail(refusal, status));
  }

  finishReason(): string | null {
    return (this.#whole ?? this.#translator.snapshot()).status;
  }

  response(): StorableResponse | undefined {
    if (this.#whole !== undefined) return this.#whole;
    const response = this.#translator.snapshot();
    const { id, status, output } = response;
    return { id, status, json: JSON.stringify(response), output };
  }
}

function lastBytes(events: readonly ResponseEvent[]): Buffer {
  return Buffer.concat([...events.map(encodeResponseEvent), DONE]);
}
