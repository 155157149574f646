/** Embeddings: one JSON answer, the provider's bytes, untouched. */
import { type Refusal, refusals } from '../refusal.ts';
import type { FrameAnswer, Relay, WholeAnswer } from './relay.ts';
import { isObject, readUsage, type TokenUsage, unknownUsage } from './usage.ts';

export class EmbeddingsRelay implements Relay {
  readonly #provider: string;
  #usage: TokenUsage = unknownUsage;

  constructor(provider: string) {
    this.#provider = provider;
  }

  whole(bytes: Buffer, parsed: unknown): WholeAnswer {
    if (isObject(parsed)) this.#usage = readUsage(parsed.usage);
    return { bytes, translated: false };
  }

  frame(): FrameAnswer {
    return { terminal: true, refusal: refusals.badAnswer(this.#provider, 'embeddings are not streamed') };
  }

  finish(): { cut: boolean } {
    return { cut: true };
  }

  broken(_refusal: Refusal): undefined {
    return undefined;
  }

  abandon(): undefined {
    return undefined;
  }

  usage(): TokenUsage {
    return this.#usage;
  }

  finishReason(): null {
    return null;
  }

  response(): undefined {
    return undefined;
  }
}
