/** Writes embeddings for a client of the embeddings API. They are never streamed. */
import { refusals } from '../../../refusal.ts';
import type { AnswerWriter } from '../../answer/reader-and-writer.ts';

export class EmbeddingsWriter implements AnswerWriter<never> {
  readonly #provider: string;

  constructor(provider: string) {
    this.#provider = provider;
  }

  whole(embeddings: unknown): Buffer {
    if (embeddings === undefined) {
      const name = this.#provider;
      throw refusals.badAnswer(name, `The provider '${name}' gave an answer without embeddings.`);
    }
    return Buffer.from(JSON.stringify(embeddings));
  }

  events(): undefined {
    return undefined;
  }

  finish(): { cut: boolean } {
    return { cut: false };
  }
}
