/** Embeddings and reranking. Texts that share words are near each other. */
import { type Json, type JsonObject, listIn, numberIn, objectIn, textIn } from './json.ts';
import { Refused } from './refused.ts';
import type { Reply } from './reply.ts';
import { countTokens, tokensOf } from './tokens.ts';
import { hashOf, randomNumbers } from './words.ts';

const DEFAULT_DIMENSIONS = 64;

/** The sum of one random direction per token, scaled to length 1. */
export function embeddingOf(text: string, dimensions = DEFAULT_DIMENSIONS): number[] {
  const sum = new Array<number>(dimensions).fill(0);
  const tokens = tokensOf(text.toLowerCase());
  for (const token of tokens.length > 0 ? tokens : ['']) {
    const next = randomNumbers(hashOf(token.trim()));
    for (let i = 0; i < dimensions; i++) sum[i] = (sum[i] ?? 0) + next() / 0x80000000 - 1;
  }
  const norm = Math.hypot(...sum) || 1;
  return sum.map((value) => value / norm);
}

export function embeddings(body: JsonObject): Reply {
  const inputs = inputsOf(body.input);
  const dimensions = numberIn(body.dimensions) ?? DEFAULT_DIMENSIONS;
  if (!Number.isInteger(dimensions) || dimensions < 1 || dimensions > 4096) {
    throw new Refused(400, 'dimensions must be an integer from 1 to 4096', { param: 'dimensions' });
  }
  const data = inputs.map(({ text }, index) => {
    const vector = embeddingOf(text, dimensions);
    return { object: 'embedding', index, embedding: body.encoding_format === 'base64' ? base64Of(vector) : vector };
  });
  const prompt = inputs.reduce((total, { tokens }) => total + tokens, 0);
  const usage = { prompt_tokens: prompt, total_tokens: prompt };
  return { status: 200, json: { object: 'list', data, model: textIn(body.model) ?? 'simulated-embed', usage } };
}

interface Input {
  readonly text: string;
  readonly tokens: number;
}

/** OpenAI's four forms: a string, a list of strings, a list of token ids, a list of lists of token ids. */
function inputsOf(input: Json | undefined): Input[] {
  if (typeof input === 'string') return [{ text: input, tokens: countTokens(input) }];
  const list = listIn(input);
  if (list.length > 0 && list.every((each) => typeof each === 'number'))
    return [{ text: list.join(' '), tokens: list.length }];
  const inputs = list.flatMap((each) => (typeof each === 'string' || Array.isArray(each) ? inputsOf(each) : []));
  if (inputs.length === 0 || inputs.length !== list.length) {
    throw new Refused(400, 'input must be a string, a list of strings or a list of tokens', { param: 'input' });
  }
  return inputs;
}

/** Little-endian 32-bit floats. */
function base64Of(vector: readonly number[]): string {
  return Buffer.from(Float32Array.from(vector).buffer).toString('base64');
}

export function rerank(body: JsonObject): Reply {
  const query = textIn(body.query);
  const documents = listIn(body.documents).map((each) => textIn(each) ?? textIn(objectIn(each).text) ?? '');
  if (query === undefined) throw new Refused(400, 'query must be a string', { param: 'query' });
  if (documents.length === 0)
    throw new Refused(400, 'documents must be a list of at least one text', { param: 'documents' });
  const requested = embeddingOf(query);
  const results = documents
    .map((text, index) => ({
      index,
      relevance_score: embeddingOf(text).reduce((sum, value, i) => sum + value * (requested[i] ?? 0), 0),
      ...(body.return_documents === true ? { document: { text } } : {}),
    }))
    .sort((left, right) => right.relevance_score - left.relevance_score)
    .slice(0, numberIn(body.top_n) ?? documents.length);
  const tokens = documents.reduce((sum, text) => sum + countTokens(text), countTokens(query));
  const usage = { prompt_tokens: tokens, total_tokens: tokens };
  return { status: 200, json: { object: 'list', model: textIn(body.model) ?? 'simulated-rerank', usage, results } };
}
