/**
 * `POST /v1/embeddings`: forwarded unchanged to any model, whatever its category, or translated to its provider's
 * dialect.
 */

import { embeddingsFromEmbed, embedRequestFromOpenAi } from '../../../../providers/translate/embeddings-to-ollama.ts';
import { rewriteMembers } from '../../../../providers/translate/json.ts';
import { providerType } from '../../../../providers/types.ts';
import { parseEmbeddingsRequest } from '../../../embeddings/embeddings-request.ts';
import type { Answering } from '../../../model-request/answer-body.ts';
import type { ParsedRequest } from '../../../model-request/model-request.ts';
import type { Target } from '../../../model-request/routing-types.ts';
import { readUsage, type TokenUsage, unknownUsage } from '../../../model-request/usage.ts';
import { refusals, refusedInTranslation } from '../../../refusal.ts';
import { type ExchangeDialect, hasMembers, memberChanges, readWith } from '../../dialect.ts';
import type { Plan } from '../../plan.ts';
import { type AnswerReader, AnswerStream, type AnswerWriter } from '../../response-stream.ts';
import { passthroughStream } from '../passthrough/passthrough-dialect.ts';

export const embeddingsDialect: ExchangeDialect = {
  name: 'embeddings',
  endpoint: '/v1/embeddings',
  read(json) {
    const read = readWith(parseEmbeddingsRequest(json));
    // Embeddings are never streamed; a `stream` member has no effect.
    return read.ok ? { ok: true, parsedRequest: { ...read.parsedRequest, stream: false } } : read;
  },
  streamOfRecorded: ({ parsedRequest, provider, model, dialect }) => streamFor(dialect, provider, parsedRequest, model),
  plan(input) {
    const { parsedRequest, body, target } = input;
    const row = providerType(target.provider.type);
    if (row?.embeddingsDialect === 'ollama_embed') return ollamaPlan(parsedRequest, target);
    if (row?.paths !== undefined && row.paths.embeddings === undefined) {
      throw refusals.unsupportedEndpoint(`The provider '${target.provider.name}' makes no embeddings.`);
    }
    const changes = memberChanges(input);
    return {
      kind: 'model',
      dialect: 'embeddings',
      body: hasMembers(changes) ? rewriteMembers(body, changes) : body,
      vectors: vectorsFor(parsedRequest),
      newStream: () => passthroughStream(),
    };
  },
};

function ollamaPlan(parsedRequest: ParsedRequest, target: Target): Plan<AnswerStream> {
  const translated = embedRequestFromOpenAi(parsedRequest.json, target.model);
  if (!translated.ok) throw refusedInTranslation(translated.refusal);
  const dialect = 'ollama_embed';
  const body = Buffer.from(JSON.stringify(translated.body));
  const vectors = vectorsFor(parsedRequest);
  return {
    kind: 'model',
    dialect,
    body,
    vectors,
    newStream: () => streamFor(dialect, target.provider, parsedRequest, target.model),
  };
}

function streamFor(dialect: string, provider: Answering, parsedRequest: ParsedRequest, model: string): AnswerStream {
  if (dialect !== 'ollama_embed') return passthroughStream();
  return new AnswerStream(ollamaReader(parsedRequest, model), writerFor(provider.name));
}

/** A text, or a list of tokens, is one input. */
function vectorsFor({ json: { input } }: ParsedRequest): number {
  return Array.isArray(input) && typeof input[0] !== 'number' ? input.length : 1;
}

/** Reads embeddings of Ollama as OpenAI's. They are never streamed. @param model the provider's own id */
function ollamaReader({ json }: ParsedRequest, model: string): AnswerReader {
  let usage: TokenUsage = unknownUsage;
  return {
    readWhole(_bytes, parsed) {
      const encoding = json.encoding_format === 'base64' ? 'base64' : 'float';
      const answer = embeddingsFromEmbed(parsed, { model, encoding });
      if (answer !== undefined) usage = readUsage(answer.usage);
      return { answer };
    },
    read: () => ({ terminal: true }),
    usage: () => usage,
  };
}

function writerFor(provider: string): AnswerWriter {
  return {
    namesEvents: false,
    writeWhole(embeddings) {
      if (embeddings !== undefined) return embeddings;
      throw refusals.badAnswer(provider, `The provider '${provider}' gave an answer without embeddings.`);
    },
    write: () => [],
    finish: () => ({ events: [], cut: false }),
    broken: () => [],
    abandon: () => [],
  };
}
