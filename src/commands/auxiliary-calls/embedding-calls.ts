/** Embeddings that the semantic cache needs. A call is a request like any other, at a user path of its own. */
import { isObject } from '../../json/is-object.ts';
import { parseChunk } from '../model-request/parse-chunk.ts';
import { Refusal } from '../refusal.ts';
import { AuxiliaryExchanges, type AuxiliaryExchangesOptions, auxiliaryRequest } from './auxiliary-exchanges.ts';

export interface EmbeddingCall {
  readonly text: string;
  readonly model: string;
  readonly provider: string | undefined;
  /** Of the request whose text it is. */
  readonly requestId: string;
  readonly exchangeId: string;
  readonly userPath: string;
  readonly signal: AbortSignal;
}

/** `refused`: by a limit or budget of this caller, or of the gateway; the next call may succeed. */
export type EmbeddingFailure = 'refused' | 'cancelled' | 'failed';

export class EmbeddingCallFailed extends Error {
  override readonly name = 'EmbeddingCallFailed';
  readonly failure: EmbeddingFailure;

  constructor(failure: EmbeddingFailure, message: string) {
    super(message);
    this.failure = failure;
  }
}

export class EmbeddingCalls {
  readonly #exchanges: AuxiliaryExchanges;

  constructor(options: AuxiliaryExchangesOptions) {
    this.#exchanges = new AuxiliaryExchanges(options);
  }

  /** Rejects at once when the signal is aborted. @throws EmbeddingCallFailed, whose message holds no text of a request */
  async embed({ text, model, provider, signal, exchangeId, ...of }: EmbeddingCall): Promise<Float32Array> {
    const failed = (failure: EmbeddingFailure, why: string) =>
      new EmbeddingCallFailed(failure, `the embedding with the model '${model}' failed: ${why}`);
    const body = { model, ...(provider !== undefined && { provider }), input: text, encoding_format: 'base64' };
    const request = auxiliaryRequest({ ...of, causationId: exchangeId, path: '/v1/embeddings', body });
    const ended = await this.#exchanges.run(request, signal);
    if (ended.end === 'cancelled') throw failed('cancelled', 'it was cancelled');
    if (ended.end === 'beyond_limit') {
      throw failed('refused', `${this.#exchanges.limit} embeddings are computed already, which is the limit`);
    }
    const { content } = ended;
    if (content instanceof Refusal) {
      const why = `${content.status} ${content.code ?? content.type}`;
      throw failed(content.provider === undefined && content.status === 429 ? 'refused' : 'failed', why);
    }
    const vector = vectorIn(content);
    if (vector === undefined) throw failed('failed', 'the answer has no embedding');
    return vector;
  }

  /** The gateway stops without waiting for the calls. */
  cut(): void {
    this.#exchanges.cut();
  }
}

function vectorIn(content: Uint8Array): Float32Array | undefined {
  const data = parseChunk(Buffer.from(content.buffer, content.byteOffset, content.length).toString())?.['data'];
  const first: unknown = Array.isArray(data) ? data[0] : undefined;
  const embedding: unknown = isObject(first) ? first['embedding'] : undefined;
  const vector = typeof embedding === 'string' ? floatsIn(embedding) : Array.isArray(embedding) ? embedding : undefined;
  if (vector === undefined || vector.length === 0) return undefined;
  return vector.every((value: unknown) => typeof value === 'number' && Number.isFinite(value))
    ? Float32Array.from(vector)
    : undefined;
}

/** Little-endian numbers of four bytes in base64, as OpenAI's API sends them. Some providers send lists all the same. */
function floatsIn(base64: string): number[] | undefined {
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.length % 4 !== 0) return undefined;
  return Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readFloatLE(at * 4));
}
