/** Reads embeddings of Ollama as OpenAI's. They are never streamed. */
import { embeddingsFromEmbed } from '../../../../providers/translate/embeddings-to-ollama.ts';
import type { ParsedRequest } from '../../../model-request/parsed-request.ts';
import { readUsage, type TokenUsage, unknownUsage } from '../../../model-request/usage.ts';
import type { AnswerReader, FrameEvents } from '../../answer/reader-and-writer.ts';

export class OllamaEmbeddingsReader implements AnswerReader<never> {
  readonly #parsedRequest: ParsedRequest;
  /** The provider's own id of the model. */
  readonly #model: string;
  #usage: TokenUsage = unknownUsage;

  constructor(parsedRequest: ParsedRequest, model: string) {
    this.#parsedRequest = parsedRequest;
    this.#model = model;
  }

  whole(parsed: unknown): unknown {
    const { json } = this.#parsedRequest;
    const encoding = json.encoding_format === 'base64' ? 'base64' : 'float';
    const answer = embeddingsFromEmbed(parsed, { model: this.#model, encoding });
    if (answer !== undefined) this.#usage = readUsage(answer.usage);
    return answer;
  }

  events(): FrameEvents<never> {
    return { events: [], terminal: true };
  }

  usage(): TokenUsage {
    return this.#usage;
  }
}
