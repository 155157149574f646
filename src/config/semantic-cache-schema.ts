/** The settings of the semantic cache, and its values in the program. */
import type { z } from 'zod';
import type { Problem, RawSettings } from './problem.ts';
import {
  decimal,
  duration,
  headerText,
  httpUrl,
  noted,
  optionalSetting,
  section,
  setting,
  text,
  toggle,
  whole,
} from './setting.ts';

const postgresUrl = /^postgres(ql)?:\/\/\S+$/i;
/** As PostgreSQL folds them: in lower case. */
const table = /^[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?$/;
const collection = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}$/;

export const semanticCacheSection = section({
  enabled: setting(toggle(), false, {
    env: 'SEMANTIC_CACHE_ENABLED',
    describe:
      'answer a request with the recorded answer to a similar one; requires the response cache and an embedder_model',
  }),
  threshold: setting(decimal(0, 1), 0.92, {
    env: 'SEMANTIC_CACHE_THRESHOLD',
    describe:
      'least cosine similarity of the last user texts; a request can set another with X-Cache-Semantic-Threshold',
  }),
  ttl: setting(duration(), '3600s', {
    env: 'SEMANTIC_CACHE_TTL',
    describe: 'how long an answer can be found by a similar request, within the time to live of the answer',
  }),
  max_conversation_messages: setting(whole(1, 1000), 3, {
    env: 'SEMANTIC_CACHE_MAX_CONV_MESSAGES',
    describe: 'requests with more messages of the user and the model are not searched; the earlier ones must be equal',
  }),
  exclude_system_prompt: setting(toggle(), false, {
    env: 'SEMANTIC_CACHE_EXCLUDE_SYSTEM_PROMPT',
    describe: 'requests with different system prompts share answers',
  }),
  embedder_provider: optionalSetting(text('a provider'), {
    env: 'SEMANTIC_CACHE_EMBEDDER_PROVIDER',
    describe: 'provider of the embeddings; when not set, embedder_model selects it like the model of a request',
  }),
  embedder_model: optionalSetting(text('a model', /\S/), {
    env: 'SEMANTIC_CACHE_EMBEDDER_MODEL',
    describe: 'model of the embeddings, such as text-embedding-3-small',
  }),
  embedder_timeout: setting(duration(), '2s', {
    env: 'SEMANTIC_CACHE_EMBEDDER_TIMEOUT',
    describe: 'longest time that an embedding delays a request, which is then sent to its provider',
  }),
  vector_store: section({
    type: setting(noted('pinecone and weaviate are not supported', 'memory', 'pgvector', 'qdrant'), 'memory', {
      env: 'SEMANTIC_CACHE_VECTOR_STORE_TYPE',
      describe: 'where vectors are searched; memory reads them from the log at start',
    }),
    memory: section({
      max_entries: setting(whole(1, 100_000), 100_000, {
        env: 'SEMANTIC_CACHE_MEMORY_MAX_ENTRIES',
        describe: 'the oldest vectors are dropped beyond this number, and beyond 640M in total',
      }),
    }),
    pgvector: section({
      url: optionalSetting(text('an address starting with postgres://', postgresUrl), {
        env: 'SEMANTIC_CACHE_PGVECTOR_URL',
        secret: true,
        describe: 'address of a PostgreSQL database in which pgvector is installed or can be created',
      }),
      table: setting(text('a plain name in lower case, or a schema and a name', table), 'chancery_semantic_cache', {
        env: 'SEMANTIC_CACHE_PGVECTOR_TABLE',
        describe: 'created when missing',
      }),
      dimension: setting(whole(1, 16_000), 1536, {
        env: 'SEMANTIC_CACHE_PGVECTOR_DIMENSION',
        describe: 'number of dimensions that embedder_model returns',
      }),
    }),
    qdrant: section({
      url: optionalSetting(httpUrl(), {
        env: 'SEMANTIC_CACHE_QDRANT_URL',
        describe: 'address of the REST API of Qdrant 1.10 or newer',
      }),
      collection: setting(text('a plain name', collection), 'chancery_semantic_cache', {
        env: 'SEMANTIC_CACHE_QDRANT_COLLECTION',
        describe: 'created when missing',
      }),
      api_key: optionalSetting(headerText('a key'), { env: 'SEMANTIC_CACHE_QDRANT_API_KEY', secret: true }),
    }),
  }),
});

type SemanticCacheSettings = z.output<typeof semanticCacheSection>;

/** Undefined where the layer is off. */
export type SemanticCacheConfig = NonNullable<ReturnType<typeof semanticCacheConfig>>;

export function semanticCacheConfig({ enabled, vector_store, ...settings }: SemanticCacheSettings) {
  const { embedder_model: model } = settings;
  if (!enabled || model === undefined) return undefined;
  return {
    /** Cosine similarity. */
    threshold: settings.threshold,
    ttlSeconds: settings.ttl / 1000,
    maxMessages: settings.max_conversation_messages,
    excludeSystemPrompt: settings.exclude_system_prompt,
    embedder: { provider: settings.embedder_provider, model, timeoutMs: settings.embedder_timeout },
    store: storeOf(vector_store),
  };
}

function storeOf({ type, memory, pgvector, qdrant }: SemanticCacheSettings['vector_store']) {
  if (type === 'pgvector' && pgvector.url !== undefined) {
    return { type: 'pgvector' as const, url: pgvector.url, table: pgvector.table, dimension: pgvector.dimension };
  }
  if (type === 'qdrant' && qdrant.url !== undefined) {
    return { type: 'qdrant' as const, url: qdrant.url, collection: qdrant.collection, apiKey: qdrant.api_key };
  }
  return { type: 'memory' as const, maxEntries: memory.max_entries };
}

/** What is missing for the layer to work. */
export function semanticCacheProblems(settings: SemanticCacheSettings, raw: RawSettings): Problem[] {
  const { enabled, embedder_model, vector_store } = settings;
  if (!enabled) return [];
  const missing = (place: string, variable: string, message: string) =>
    raw.problem(`cache.semantic.${place}`, variable, message);
  const problems: Problem[] = [];
  if (embedder_model === undefined) {
    problems.push(missing('embedder_model', 'SEMANTIC_CACHE_EMBEDDER_MODEL', 'the semantic cache needs a model'));
  }
  const { type, pgvector, qdrant } = vector_store;
  if (type === 'pgvector' && pgvector.url === undefined) {
    problems.push(missing('vector_store.pgvector.url', 'SEMANTIC_CACHE_PGVECTOR_URL', 'pgvector needs an address'));
  }
  if (type === 'qdrant' && qdrant.url === undefined) {
    problems.push(missing('vector_store.qdrant.url', 'SEMANTIC_CACHE_QDRANT_URL', 'qdrant needs an address'));
  }
  return problems;
}
