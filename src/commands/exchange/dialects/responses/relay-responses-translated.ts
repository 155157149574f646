/** Responses to a client whose model sits behind a chat provider: translated, answer and stream. */

import { isObject } from '../../../../json/is-object.ts';
import type { Frame } from '../../../../providers/sse.ts';
import type { ChatReader } from '../../../../providers/translate/chat-adapter.ts';
import { responseFromChat } from '../../../../providers/translate/responses-to-chat/answer.ts';
import {
  DONE,
  encodeResponseEvent,
  type ResponseEvent,
} from '../../../../providers/translate/responses-to-chat/response-events.ts';
import type { ResponseShell } from '../../../../providers/translate/responses-to-chat/response-object.ts';
import {
  type ChatStreamTranslator,
  createChatStreamTranslator,
} from '../../../../providers/translate/responses-to-chat/stream.ts';
import type { Answering } from '../../../model-request/redacted.ts';
import type { EarlyEnd } from '../../../model-request/stream-refusals.ts';
import { readUsage, type TokenUsage, unknownUsage } from '../../../model-request/usage.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import type { StorableResponse } from '../../../responses/storable-response.ts';
import { failureIn, unreadableEvent } from '../../delivery/reported-failure.ts';
import { type FrameAnswer, joined, type Relay } from '../../relay.ts';

export class TranslatedResponsesRelay implements Relay {
  readonly #provider: Answering;
  readonly #reader: ChatReader;
  readonly #shell: ResponseShell;
  /** Unix seconds. */
  readonly #now: () => number;
  readonly #translator: ChatStreamTranslator;
  #whole: StorableResponse | undefined;
  #usage: TokenUsage = unknownUsage;

  constructor(provider: Answering, reader: ChatReader, shell: ResponseShell, now: () => number) {
    this.#provider = provider;
    this.#reader = reader;
    this.#shell = shell;
    this.#now = now;
    this.#translator = createChatStreamTranslator(shell);
  }

  whole(_bytes: Buffer, parsed: unknown): Buffer {
    const completion = this.#reader.whole(parsed);
    if (isObject(completion)) this.#usage = readUsage(completion.usage);
    const answer = responseFromChat(completion, this.#shell, this.#now());
    if (!answer.ok) throw refusals.badAnswer(this.#shell.provider, answer.error.message, answer.error.code);
    const { id, status, output } = answer.response;
    this.#whole = { id, status, json: JSON.stringify(answer.response), output };
    return Buffer.from(this.#whole.json);
  }

  frame(frame: Frame): FrameAnswer {
    if (frame.data === undefined) return { terminal: this.#hasEnded };
    const chunks = this.#reader.chunks(frame.data);
    if (chunks === undefined) return unreadableEvent(frame, this.#provider);
    const bytes: Buffer[] = [];
    for (const chunk of chunks) {
      if (isObject(chunk.usage)) this.#usage = readUsage(chunk.usage);
      const failure = failureIn(chunk, frame, this.#provider);
      if (failure !== undefined) return failure;
      for (const event of this.#translator.push(chunk)) bytes.push(encodeResponseEvent(event));
    }
    return { bytes: joined(bytes), terminal: this.#reader.ended || this.#hasEnded };
  }

  finish(): { bytes?: Buffer; cut: boolean } {
    const events = this.#translator.finish({ completedAt: this.#now(), endMarker: false });
    return { bytes: this.#lastBytes(events), cut: this.#translator.ended === 'response.failed' };
  }

  broken(refusal: Refusal): Buffer | undefined {
    if (this.#hasEnded) return DONE;
    return this.#lastBytes(this.#translator.fail(refusal));
  }

  abandon({ refusal, status }: EarlyEnd): Buffer | undefined {
    return this.#hasEnded ? undefined : this.#lastBytes(this.#translator.fail(refusal, status));
  }

  usage(): TokenUsage {
    return this.#usage;
  }

  answerId(): string | undefined {
    return this.#reader.answerId;
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

  get #hasEnded(): boolean {
    return this.#translator.ended !== undefined;
  }

  #lastBytes(events: readonly ResponseEvent[]): Buffer {
    return Buffer.concat([...events.map(encodeResponseEvent), DONE]);
  }
}
