/** Writes chat completion chunks for a client of the chat API. */
import { isObject } from '../../../../json/is-object.ts';
import type { JsonObject } from '../../../../providers/translate/json.ts';
import { gatewayStopping, streamIncomplete } from '../../../model-request/stream-refusals.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import type { AnswerWriter } from '../../answer/reader-and-writer.ts';
import { joined } from '../../relay.ts';
import { isUsageOnly, ObservedCompletion } from './observed-completion.ts';

const DONE = Buffer.from('data: [DONE]\n\n');

export class ChatWriter implements AnswerWriter<JsonObject> {
  readonly #provider: string;
  /** Whether the client gets the usage chunk. */
  readonly #passesUsage: boolean;
  readonly #completion: ObservedCompletion;

  /** @param completion shared with the observer where the provider's bytes pass unchanged */
  constructor(provider: string, passesUsage: boolean, completion = new ObservedCompletion()) {
    this.#provider = provider;
    this.#passesUsage = passesUsage;
    this.#completion = completion;
  }

  whole(completion: unknown): Buffer {
    if (!isObject(completion) || !Array.isArray(completion.choices) || completion.choices.length === 0) {
      const name = this.#provider;
      throw refusals.badAnswer(name, `The provider '${name}' gave an answer without a choice.`);
    }
    this.#completion.note(completion);
    return Buffer.from(JSON.stringify(completion));
  }

  events(chunks: readonly JsonObject[]): Buffer | undefined {
    const bytes: Buffer[] = [];
    for (const chunk of chunks) {
      this.#completion.note(chunk);
      if (this.#passesUsage || !isUsageOnly(chunk)) bytes.push(Buffer.from(`data: ${JSON.stringify(chunk)}\n\n`));
    }
    return joined(bytes);
  }

  finish(): { bytes?: Buffer; cut: boolean } {
    if (this.#completion.marked) return { cut: false };
    if (this.#completion.finishReason !== null) return { bytes: DONE, cut: false };
    return { bytes: this.broken(streamIncomplete(this.#provider)), cut: true };
  }

  broken(refusal: Refusal): Buffer {
    return chatStreamError(refusal);
  }

  abandon(): Buffer {
    return this.broken(gatewayStopping());
  }

  finishReason(): string | null {
    return this.#completion.finishReason;
  }
}

/** The last frame of a chat stream that broke. */
export function chatStreamError(refusal: Refusal): Buffer {
  return Buffer.from(`data: ${JSON.stringify(refusal.envelope())}\n\n`);
}
