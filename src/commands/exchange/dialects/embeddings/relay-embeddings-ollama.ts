/** Embeddings to a client whose model sits behind Ollama: translated. There is no stream of them. */
import { embeddingsFromEmbed } from '../../../../providers/translate/embeddings-to-ollama.ts';
import type { Asked } from '../../../model-request/parsed-request.ts';
import type { Answering } from '../../../model-request/redacted.ts';
import { readUsage, type TokenUsage, unknownUsage } from '../../../model-request/usage.ts';
import { refusals } from '../../../refusal.ts';
import type { FrameAnswer, Relay } from '../../relay.ts';

export class OllamaEmbeddingsRelay implements Relay {
  readonly #provider: Answering;
  readonly #asked: Asked;
  /** The provider's own id of it. */
  readonly #model: string;
  #usage: TokenUsage = unknownUsage;

  constructor(provider: Answering, asked: Asked, model: string) {
    this.#provider = provider;
    this.#asked = asked;
    this.#model = model;
  }

  whole(_bytes: Buffer, parsed: unknown): Buffer {
    const { json } = this.#asked;
    const encoding = json.encoding_format === 'base64' ? 'base64' : 'float';
    const answer = embeddingsFromEmbed(parsed, { model: this.#model, encoding });
    if (answer === undefined) {
      const { name } = this.#provider;
      throw refusals.badAnswer(name, `The provider '${name}' gave an answer without embeddings.`);
    }
    this.#usage = readUsage(answer.usage);
    return Buffer.from(JSON.stringify(answer));
  }

  frame(): FrameAnswer {
    return { terminal: true };
  }

  finish(): { cut: boolean } {
    return { cut: false };
  }

  usage(): TokenUsage {
    return this.#usage;
  }
}
