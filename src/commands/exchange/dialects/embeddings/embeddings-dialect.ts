/**
 * `POST /v1/embeddings`: forwarded unchanged to any model, whatever its category, or translated to its provider's
 * dialect.
 */
import { rewriteMembers } from '../../../../providers/json-members.ts';
import { embedRequestFromOpenAi } from '../../../../providers/translate/embeddings-to-ollama.ts';
import { providerType } from '../../../../providers/types.ts';
import { parseEmbeddingsRequest } from '../../../embeddings/embeddings-request.ts';
import type { ParsedRequest } from '../../../model-request/parsed-request.ts';
import type { Answering } from '../../../model-request/redacted.ts';
import type { Target } from '../../../model-request/target.ts';
import { refusals, refusedInTranslation } from '../../../refusal.ts';
import { translatedRelay } from '../../answer/translated-relay.ts';
import type { ExchangeDialect } from '../../dialect.ts';
import type { Plan } from '../../plan.ts';
import type { Relay } from '../../relay.ts';
import { hasMembers, memberChanges } from '../member-changes.ts';
import { passthroughRelay } from '../passthrough/passthrough-relay.ts';
import { readWith } from '../read-with.ts';
import { OllamaEmbeddingsReader } from './reader.ts';
import { EmbeddingsWriter } from './writer.ts';

export const embeddingsDialect: ExchangeDialect = {
  name: 'embeddings',
  endpoint: '/v1/embeddings',
  read(json) {
    const read = readWith(parseEmbeddingsRequest(json));
    // Embeddings are never streamed; a `stream` member has no effect.
    return read.ok ? { ok: true, parsedRequest: { ...read.parsedRequest, stream: false } } : read;
  },
  relayOfRecorded: ({ parsedRequest, provider, model, dialect }) => relayFor(dialect, provider, parsedRequest, model),
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
      relay: () => passthroughRelay(),
    };
  },
};

function ollamaPlan(parsedRequest: ParsedRequest, target: Target): Plan {
  const translated = embedRequestFromOpenAi(parsedRequest.json, target.model);
  if (!translated.ok) throw refusedInTranslation(translated.refusal);
  const dialect = 'ollama_embed';
  const body = Buffer.from(JSON.stringify(translated.body));
  return { kind: 'model', dialect, body, relay: () => relayFor(dialect, target.provider, parsedRequest, target.model) };
}

function relayFor(dialect: string, provider: Answering, parsedRequest: ParsedRequest, model: string): Relay {
  if (dialect !== 'ollama_embed') return passthroughRelay();
  return translatedRelay(new OllamaEmbeddingsReader(parsedRequest, model), new EmbeddingsWriter(provider.name));
}
