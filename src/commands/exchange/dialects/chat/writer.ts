/** Writes chat completion chunks for a client of the chat API. */
import { isObject } from '../../../../json/is-object.ts';
import type { JsonObject } from '../../../../providers/translate/json.ts';
import { gatewayStopping, streamIncomplete } from '../../../model-request/stream-refusals.ts';
import type { Refusal } from '../../../refusal.ts';
import { type AnswerWriter, joined } from '../../relay.ts';
import { checkedCompletion, isUsageOnly, ObservedCompletion } from './observed-completion.ts';

const DONE = Buffer.from('data: [DONE]\n\n');

export class ChatWriter implements AnswerWriter<JsonObject> {
  readonly #provider: string;
  /** Whether the client gets the usage chunk. */
  readonly #passesUsage: boolean;
  readonly #completion: ObservedCompletion;
  /** The last chunk with a choice. */
  #last: JsonObject | undefined;
  /** The choices that have begun and not ended. */
  readonly #open = new Set<unknown>();

  /** @param completion shared with the observer where the provider's bytes pass unchanged */
  constructor(provider: string, passesUsage: boolean, completion = new ObservedCompletion()) {
    this.#provider = provider;
    this.#passesUsage = passesUsage;
    this.#completion = completion;
  }

  whole(completion: unknown): Buffer {
    this.#completion.note(checkedCompletion(completion, this.#provider));
    return Buffer.from(JSON.stringify(completion));
  }

  events(chunks: readonly JsonObject[]): Buffer | undefined {
    const bytes: Buffer[] = [];
    for (const chunk of chunks) {
      this.#completion.note(chunk);
      this.#noteChoices(chunk);
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

  filtered(): Buffer {
    const { choices: _, usage: __, ...envelope } = this.#last ?? {};
    const empty = envelope['object'] === 'text_completion' ? { text: '' } : { delta: {} };
    const open = this.#open.size === 0 ? [0] : [...this.#open];
    const choices = open.map((index) => ({ index, ...empty, logprobs: null, finish_reason: 'content_filter' }));
    const end = this.events([{ ...envelope, choices }]);
    this.#completion.marked = true;
    return Buffer.concat(end === undefined ? [DONE] : [end, DONE]);
  }

  finishReason(): string | null {
    return this.#completion.finishReason;
  }

  #noteChoices(chunk: JsonObject): void {
    const { choices } = chunk;
    if (!Array.isArray(choices) || choices.length === 0) return;
    this.#last = chunk;
    for (const choice of choices.filter(isObject)) {
      if (choice.finish_reason == null) this.#open.add(choice.index);
      else this.#open.delete(choice.index);
    }
  }
}

/** The last frame of a chat stream that broke. */
export function chatStreamError(refusal: Refusal): Buffer {
  return Buffer.from(`data: ${JSON.stringify(refusal.envelope())}\n\n`);
}
