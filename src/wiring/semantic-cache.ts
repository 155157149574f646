/** Wiring of the semantic cache. */
import type { EmbeddingCalls } from '../commands/auxiliary-calls/auxiliary-calls.ts';
import { PgvectorStore } from '../commands/semantic-cache/pgvector-store.ts';
import { QdrantStore } from '../commands/semantic-cache/qdrant-store.ts';
import { type ReadVectorsOptions, RemoteVectors, readVectors } from '../commands/semantic-cache/remote-vectors.ts';
import { ScannedVectors } from '../commands/semantic-cache/scanned-vectors.ts';
import { Embedder, SemanticCache } from '../commands/semantic-cache/semantic-cache.ts';
import type { VectorStore } from '../commands/semantic-cache/vector-store.ts';
import type { SemanticCacheConfig } from '../config/semantic-cache-schema.ts';
import { wallClock } from '../events/event-id.ts';

export type SemanticCacheFailure = 'embedding' | 'search' | 'store';

export type GatewaySemanticCache = ReturnType<typeof createSemanticCache>;

export interface SemanticCacheOptions {
  readonly config: SemanticCacheConfig;
  /** Created after the cache, which the exchanges need. */
  embeddings(): Pick<EmbeddingCalls, 'embed'>;
  /** Called with each failure; the request is served without the semantic cache. */
  failed(operation: SemanticCacheFailure, error: unknown): void;
}

/** Longest time that the server of the vectors delays a request. */
const SERVER_MS = 1000;
/** Vectors that wait for their server. */
const MAX_PENDING = 256;

export function createSemanticCache({ config, embeddings, failed }: SemanticCacheOptions) {
  const { embedder, store: where, ...settings } = config;
  const stopped = new AbortController();
  const store = storeOf(where, failed);
  const cache = new SemanticCache({
    settings,
    embedder: new Embedder({
      ...embedder,
      embed: (call) => embeddings().embed(call),
      failed: (error) => failed('embedding', error),
      now: wallClock,
    }),
    store,
    recordsVectors: where.type === 'memory',
    now: wallClock,
  });
  return {
    cache,
    /** Reads the vectors of the log, beside the requests. @throws the errors of reading the log */
    async read(answers: Pick<ReadVectorsOptions, 'log' | 'isThere' | 'whenIndexed'>): Promise<void> {
      if (where.type !== 'memory') return;
      const { ttlSeconds } = settings;
      await readVectors({ ...answers, store, ttlSeconds, signal: stopped.signal, now: wallClock }).catch((error) => {
        if (!stopped.signal.aborted) throw error;
      });
    },
    async close(): Promise<void> {
      stopped.abort();
      await store.close();
    },
  };
}

function storeOf(where: SemanticCacheConfig['store'], failed: SemanticCacheOptions['failed']): VectorStore {
  if (where.type === 'memory') return new ScannedVectors(where);
  const own = { timeoutMs: SERVER_MS, now: wallClock };
  const store =
    where.type === 'pgvector' ? new PgvectorStore({ ...where, ...own }) : new QdrantStore({ ...where, ...own });
  return new RemoteVectors({ ...own, store, maxPending: MAX_PENDING, failed });
}
