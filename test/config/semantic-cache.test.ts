import { describe, expect, test } from 'vitest';
import { printConfig } from '../../src/config/print.ts';
import { describeProblem } from '../../src/config/problem.ts';
import { configFrom, load, problemsFrom, types } from './load.ts';

const on = {
  ...{ RESPONSE_CACHE_ENABLED: 'true', SEMANTIC_CACHE_ENABLED: 'true' },
  SEMANTIC_CACHE_EMBEDDER_MODEL: 'text-embedding-3-small',
};
const problems = (env: Record<string, string>) => problemsFrom({ env: { ...on, ...env } }).map(describeProblem);

describe('cache.semantic', () => {
  test('is off by default, and then needs nothing', () => {
    expect(configFrom({}).semanticCache).toBeUndefined();
    expect(configFrom({ env: { SEMANTIC_CACHE_VECTOR_STORE_TYPE: 'qdrant' } }).semanticCache).toBeUndefined();
  });

  test('is off without the response cache, with a notice', () => {
    const { semanticCache, notices } = configFrom({ env: { ...on, RESPONSE_CACHE_ENABLED: 'false' } });
    expect(semanticCache).toBeUndefined();
    expect(notices).toContain(
      'the semantic cache is off because it requires the response cache (RESPONSE_CACHE_ENABLED)',
    );
  });

  test('has the defaults of the reference', () => {
    expect(configFrom({ env: on }).semanticCache).toEqual({
      threshold: 0.92,
      ttlSeconds: 3600,
      maxMessages: 3,
      excludeSystemPrompt: false,
      embedder: { provider: undefined, model: 'text-embedding-3-small', timeoutMs: 2000 },
      store: { type: 'memory', maxEntries: 100_000 },
    });
  });

  test('comes from the file', () => {
    const yaml = `
cache:
  response: { enabled: true }
  semantic:
    enabled: true
    threshold: 0.8
    ttl: 10m
    max_conversation_messages: 1
    exclude_system_prompt: true
    embedder_provider: local
    embedder_model: nomic
    embedder_timeout: 500ms
    vector_store:
      type: pgvector
      pgvector: { url: "postgres://u:p@db/app", table: cache.vectors, dimension: 768 }
`;
    expect(configFrom({ yaml }).semanticCache).toEqual({
      threshold: 0.8,
      ttlSeconds: 600,
      maxMessages: 1,
      excludeSystemPrompt: true,
      embedder: { provider: 'local', model: 'nomic', timeoutMs: 500 },
      store: { type: 'pgvector', url: 'postgres://u:p@db/app', table: 'cache.vectors', dimension: 768 },
    });
  });

  test('comes from the variables of the reference', () => {
    const env = {
      ...on,
      SEMANTIC_CACHE_THRESHOLD: '0.5',
      SEMANTIC_CACHE_TTL: '60',
      SEMANTIC_CACHE_MAX_CONV_MESSAGES: '5',
      SEMANTIC_CACHE_EXCLUDE_SYSTEM_PROMPT: 'yes',
      SEMANTIC_CACHE_EMBEDDER_PROVIDER: 'openai',
      SEMANTIC_CACHE_VECTOR_STORE_TYPE: 'qdrant',
      SEMANTIC_CACHE_QDRANT_URL: 'http://qdrant:6333/',
      SEMANTIC_CACHE_QDRANT_COLLECTION: 'answers',
      SEMANTIC_CACHE_QDRANT_API_KEY: 'a-key',
    };
    expect(configFrom({ env }).semanticCache).toMatchObject({
      ...{ threshold: 0.5, ttlSeconds: 60, maxMessages: 5, excludeSystemPrompt: true },
      embedder: { provider: 'openai' },
      store: { type: 'qdrant', url: 'http://qdrant:6333', collection: 'answers', apiKey: 'a-key' },
    });
  });

  const store = 'cache.semantic.vector_store';
  test.each([
    [
      { SEMANTIC_CACHE_VECTOR_STORE_TYPE: 'pinecone' },
      `${store}.type (SEMANTIC_CACHE_VECTOR_STORE_TYPE): expected one of memory, pgvector, qdrant ` +
        '(pinecone and weaviate are not supported), got "pinecone"',
    ],
    [
      { SEMANTIC_CACHE_VECTOR_STORE_TYPE: 'pgvector' },
      `${store}.pgvector.url (SEMANTIC_CACHE_PGVECTOR_URL): pgvector needs an address`,
    ],
    [
      { SEMANTIC_CACHE_VECTOR_STORE_TYPE: 'qdrant' },
      `${store}.qdrant.url (SEMANTIC_CACHE_QDRANT_URL): qdrant needs an address`,
    ],
    [
      { SEMANTIC_CACHE_EMBEDDER_MODEL: '' },
      'cache.semantic.embedder_model (SEMANTIC_CACHE_EMBEDDER_MODEL): the semantic cache needs a model',
    ],
    [
      { SEMANTIC_CACHE_THRESHOLD: '1.5' },
      'cache.semantic.threshold (SEMANTIC_CACHE_THRESHOLD): expected a number from 0 to 1, got "1.5"',
    ],
    [
      { SEMANTIC_CACHE_PGVECTOR_TABLE: 'a; DROP' },
      `${store}.pgvector.table (SEMANTIC_CACHE_PGVECTOR_TABLE): expected a plain name in lower case, or a schema and a name, got "a; DROP"`,
    ],
  ])('refuses %j', (env, expected) => {
    expect(problems(env)).toEqual([expected]);
  });

  test('never shows the password of the database, nor the key', () => {
    const [problem] = problems({ SEMANTIC_CACHE_PGVECTOR_URL: 'mysql://u:a-hidden-password@db/app' });
    expect(problem).toMatch(/expected an address starting with postgres:\/\/, got \*\*\*\*/);
    const loaded = load({
      env: {
        ...{ ...on, SEMANTIC_CACHE_VECTOR_STORE_TYPE: 'pgvector' },
        SEMANTIC_CACHE_PGVECTOR_URL: 'postgres://u:a-hidden-password@db/app',
        SEMANTIC_CACHE_QDRANT_API_KEY: 'another-hidden-key',
      },
    });
    if (!loaded.ok) throw new Error('refused');
    const printed = printConfig(loaded.config, loaded.rawSettings, { providers: types, guardrailSecrets: {} });
    expect(printed).not.toMatch(/hidden/);
    expect(printed).toContain('pgvector');
  });
});
