/** Chat completions to a client whose provider speaks another language: translated, answer and stream. */

import { isObject } from '../../../../json/is-object.ts';
import type { Frame } from '../../../../providers/sse.ts';
import type { ChatReader } from '../../../../providers/translate/chat-adapter.ts';
import type { JsonObject } from '../../../../providers/translate/json.ts';
import type { Answering } from '../../../model-request/redacted.ts';
import { gatewayStopping, streamIncomplete } from '../../../model-request/stream-refusals.ts';
import { readUsage, type TokenUsage, unknownUsage } from '../../../model-request/usage.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import { failureIn, unreadableEvent } from '../../delivery/reported-failure.ts';
import { type FrameAnswer, joined, type Relay } from '../../relay.ts';
import { chatStreamError, DONE, finishReasonIn } from './relay-chat.ts';

export class TranslatedChatRelay implements Relay {
  readonly #provider: Answering;
  readonly #reader: ChatReader;
  /** Whether the client asked for the usage chunk. */
  readonly #clientWantsUsage: boolean;
  #usage: TokenUsage = unknownUsage;
  #finishReason: string | null = null;

  constructor(provider: Answering, reader: ChatReader, clientWantsUsage: boolean) {
    this.#provider = provider;
    this.#reader = reader;
    this.#clientWantsUsage = clientWantsUsage;
  }

  whole(_bytes: Buffer, parsed: unknown): Buffer {
    const completion = this.#reader.whole(parsed);
    if (isObject(completion)) this.#observe(completion);
    if (!isObject(completion) || !Array.isArray(completion.choices) || completion.choices.length === 0) {
      const { name } = this.#provider;
      throw refusals.badAnswer(name, `The provider '${name}' gave an answer without a choice.`);
    }
    return Buffer.from(JSON.stringify(completion));
  }

  frame(frame: Frame): FrameAnswer {
    const { data } = frame;
    if (data === undefined) return { terminal: this.#reader.ended };
    const chunks = this.#reader.chunks(data);
    if (chunks === undefined) return unreadableEvent(frame, this.#provider);
    const bytes: Buffer[] = [];
    for (const chunk of chunks) {
      this.#observe(chunk);
      const failure = failureIn(chunk, frame, this.#provider);
      if (failure !== undefined) return failure;
      const usageOnly = isObject(chunk.usage) && Array.isArray(chunk.choices) && chunk.choices.length === 0;
      if (!usageOnly || this.#clientWantsUsage) bytes.push(encode(chunk));
    }
    return { bytes: joined(bytes), terminal: this.#reader.ended };
  }

  finish(): { bytes?: Buffer; cut: boolean } {
    if (this.#finishReason !== null) return { bytes: DONE, cut: false };
    return { bytes: this.broken(streamIncomplete(this.#provider.name)), cut: true };
  }

  broken(refusal: Refusal): Buffer {
    return chatStreamError(refusal);
  }

  abandon(): Buffer {
    return this.broken(gatewayStopping());
  }

  usage(): TokenUsage {
    return this.#usage;
  }

  answerId(): string | undefined {
    return this.#reader.answerId;
  }

  finishReason(): string | null {
    return this.#finishReason;
  }

  #observe(chat: JsonObject): void {
    if (isObject(chat.usage)) this.#usage = readUsage(chat.usage);
    this.#finishReason = finishReasonIn(chat.choices) ?? this.#finishReason;
  }
}

function encode(chunk: JsonObject): Buffer {
  return Buffer.from(`data: ${JSON.stringify(chunk)}\n\n`);
}
