/**
 * Translates an embeddings request to Ollama's `/api/embed`, and the answer back.
 *
 * | OpenAI | Ollama |
 * |---|---|
 * | `input`: a text or several | the same |
 * | `input`: tokens | refused: Ollama accepts only text |
 * | `dimensions`, any unknown member (`options`, `keep_alive`, …) | the same |
 * | `encoding_format` | not sent: the gateway encodes the answer |
 * | `user`, `provider` | not sent: they do not change the answer |
 *
 * `truncate: false` is added unless the client sets it: OpenAI refuses a text that is too long, and does not embed a
 * part of it.
 */
import { isObject } from '../../json/is-object.ts';
import { type JsonObject, type Refused, refuse, reportedCount } from './json.ts';

export interface EmbedRequest {
  readonly ok: true;
  readonly body: JsonObject;
}

export type EmbeddingEncoding = 'float' | 'base64';

const notSent = new Set(['encoding_format', 'input', 'model', 'provider', 'stream', 'user']);

export function embedRequestFromOpenAi(request: JsonObject, model: string): EmbedRequest | Refused {
  const { input, encoding_format: encoding } = request;
  if (encoding !== undefined && encoding !== null && encoding !== 'float' && encoding !== 'base64') {
    return refuse('invalid_value', 'encoding_format', "'encoding_format' must be 'float' or 'base64'.");
  }
  if (Array.isArray(input) && input.some((entry) => typeof entry !== 'string')) {
    return refuse('unsupported_value', 'input', "'input' must be text for an Ollama model: it does not take tokens.");
  }
  const rest = Object.entries(request).filter(([member, value]) => value !== null && !notSent.has(member));
  return { ok: true, body: { model, input, truncate: false, ...Object.fromEntries(rest) } };
}

export interface EmbedAnswerFacts {
  /** The model name for the client. */
  readonly model: string;
  readonly encoding: EmbeddingEncoding;
}

/** Undefined when the answer contains no embeddings. */
export function embeddingsFromEmbed(answer: unknown, { model, encoding }: EmbedAnswerFacts): JsonObject | undefined {
  if (!isObject(answer) || !Array.isArray(answer['embeddings'])) return undefined;
  const vectors: unknown[] = answer['embeddings'];
  const data: JsonObject[] = [];
  for (const [index, vector] of vectors.entries()) {
    if (!Array.isArray(vector) || !vector.every((value) => typeof value === 'number')) return undefined;
    data.push({ object: 'embedding', index, embedding: encoding === 'base64' ? littleEndianFloats(vector) : vector });
  }
  const tokens = reportedCount(answer['prompt_eval_count']);
  return { object: 'list', data, model, usage: { prompt_tokens: tokens, total_tokens: tokens } };
}

function littleEndianFloats(vector: readonly number[]): string {
  const bytes = Buffer.alloc(vector.length * 4);
  for (const [index, value] of vector.entries()) bytes.writeFloatLE(value, index * 4);
  return bytes.toString('base64');
}
