/** Wiring of the response cache. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { EmbeddingCalls } from '../commands/auxiliary-calls/auxiliary-calls.ts';
import { type PurgeSelection, purgeCache, ResponseCache } from '../commands/exchange/caching/response-cache.ts';
import type { ReplayDependencies } from '../commands/exchange/record/replay-answer.ts';
import { PgvectorStore } from '../commands/semantic-cache/pgvector-store.ts';
import { QdrantStore } from '../commands/semantic-cache/qdrant-store.ts';
import { type ReadVectorsOptions, RemoteVectors, readVectors } from '../commands/semantic-cache/remote-vectors.ts';
import { ScannedVectors } from '../commands/semantic-cache/scanned-vectors.ts';
import { Embedder, SemanticCache } from '../commands/semantic-cache/semantic-cache.ts';
import type { VectorStore } from '../commands/semantic-cache/vector-store.ts';
import type { Config } from '../config/config.ts';
import type { SemanticCacheConfig } from '../config/semantic-cache-schema.ts';
import type { EventContext, Position } from '../events/event.ts';
import { wallClock } from '../events/event-id.ts';
import { cachedAnswersView, selected } from '../projections/cached-answers.ts';
import type { ProjectionRunner } from '../projections/runner.ts';
import type { ProxyOf } from '../providers/proxies.ts';

export interface GatewayCacheOptions extends ReplayDependencies {
  readonly config: Pick<Config, 'responseCache'>;
  readonly projections: ProjectionRunner;
  /** Undefined when answers to similar requests are not served. */
  readonly semantic: Pick<GatewaySemanticCache, 'cache' | 'read'> | undefined;
  /** Whether other gateways can use the log. */
  readonly isShared: boolean;
  /** Called when vectors could not be read back. */
  failed(error: unknown): void;
}

const LONGEST_START_MS = 1000;

/** Undefined when the configuration does not turn it on: no index is built then. */
export function createResponseCache({
  config,
  projections,
  semantic,
  isShared,
  failed,
  ...parts
}: GatewayCacheOptions) {
  const { enabled, maxEntries, ...settings } = config.responseCache;
  if (!enabled) return undefined;
  const view = projections.run(cachedAnswersView(maxEntries));
  let isCaughtUp = false;
  const caughtUp = view.caughtUp.then(
    () => {
      isCaughtUp = true;
    },
    // The runner reports it.
    () => {},
  );
  const index = {
    // Before the end of the log is reached, a purge may not be known yet.
    find: (digest: string) => (isCaughtUp ? view.state.entries.get(digest) : undefined),
    get isCaughtUp() {
      return isCaughtUp;
    },
    get purges() {
      return view.state.purges;
    },
    whenProcessed: (position: Position) => view.whenProcessed(position),
  };
  const cache = new ResponseCache({ ...parts, index, settings, semantic: semantic?.cache, now: wallClock });
  const answers = {
    log: parts.log,
    isThere: (digest: string) => index.find(digest) !== undefined,
    whenIndexed: isShared ? index.whenProcessed : undefined,
  };
  void caughtUp.then(() => semantic?.read(answers)).catch(failed);
  /** Resolves when the index is complete, and at the latest after a second: a long log is read beside the requests. */
  const begun = Promise.race([caughtUp, sleep(LONGEST_START_MS, undefined, { ref: false })]);
  const { caughtUp: complete } = view;
  const digestsOf = (selection: PurgeSelection) => selected(view.state, selection).map(({ digest }) => digest);
  const matching = (selection: PurgeSelection) => digestsOf(selection).length;
  const purgedIndex = { caughtUp: complete, matching, whenProcessed: index.whenProcessed };
  return {
    view,
    cache,
    begun,
    /** @returns how many answers were removed. @throws Refusal 503 */
    async purge(selection: PurgeSelection, context: EventContext) {
      const digests = semantic === undefined ? [] : digestsOf(selection);
      const removed = await purgeCache(selection, context, { log: parts.log, index: purgedIndex });
      // A vector without an answer is never used, so the purge does not wait for a server.
      semantic?.cache.forget(digests).catch(failed);
      return removed;
    },
  };
}

/** Wiring of the semantic cache. */
type SemanticCacheFailure = 'embedding' | 'search' | 'store';

type GatewaySemanticCache = ReturnType<typeof createSemanticCache>;

interface SemanticCacheOptions {
  readonly config: SemanticCacheConfig;
  /** Created after the cache, which the exchanges need. */
  embeddings(): Pick<EmbeddingCalls, 'embed'>;
  readonly proxyOf: ProxyOf;
  /** Called with each failure; the request is served without the semantic cache. */
  failed(operation: SemanticCacheFailure, error: unknown): void;
}

/** Longest time that the server of the vectors delays a request. */
const SERVER_MS = 1000;
/** Vectors that wait for their server. */
const MAX_PENDING = 256;

export function createSemanticCache({ config, embeddings, proxyOf, failed }: SemanticCacheOptions) {
  const { embedder, store: where, ...settings } = config;
  const stopped = new AbortController();
  const store = storeOf(where, proxyOf, failed);
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

function storeOf(
  where: SemanticCacheConfig['store'],
  proxyOf: ProxyOf,
  failed: SemanticCacheOptions['failed'],
): VectorStore {
  if (where.type === 'memory') return new ScannedVectors(where);
  const own = { timeoutMs: SERVER_MS, now: wallClock };
  const store =
    where.type === 'pgvector'
      ? new PgvectorStore({ ...where, ...own })
      : new QdrantStore({ ...where, ...own, proxyOf });
  return new RemoteVectors({ ...own, store, maxPending: MAX_PENDING, failed });
}
