/** Looks for the answer to a similar request, after the cache has none to an equal one. */
import type { CachedAnswer, CachedContent } from '../answer-source.ts';
import type { CacheDirectives } from '../caching/cache-directives.ts';
import type { CacheEntry } from '../caching/cache-index.ts';
import type { DigestedRequest } from '../caching/request-digest.ts';
import type { ResponseCache } from '../caching/response-cache.ts';
import {
  type EmbeddedQuestion,
  type SemanticQuestion,
  semanticQuestion,
  thresholdOf,
} from '../caching/semantic-question.ts';
import type { CachePolicy } from '../policy.ts';
import type { Guarded } from './context.ts';

export interface SimilarAnswer {
  readonly content: CachedContent;
  readonly entry: CacheEntry;
  readonly similarity: CachedAnswer['similarity'];
}

export interface SimilarSearch {
  /** The request as embedded; undefined when that failed. */
  readonly question: EmbeddedQuestion | undefined;
  readonly found: SimilarAnswer | undefined;
}

/** @returns undefined when the request is not searched, and its answer not found by others */
export function searchableQuestion(
  { exchange, history, guarded }: Guarded,
  request: DigestedRequest,
  { semantic, isComplete }: ResponseCache,
  directives: Pick<CacheDirectives, 'reads' | 'semantic'>,
): SemanticQuestion | undefined {
  if (semantic === undefined || !isComplete || history !== undefined) return undefined;
  if (!directives.reads || !directives.semantic) return undefined;
  // The answer names placeholders, and their values are those of another request.
  if (guarded !== undefined && guarded.guard.placeholders.size > 0) return undefined;
  return semanticQuestion(exchange.dialect.name, request, semantic);
}

/** Never rejects, except with the errors of reading the log. */
export async function searchSimilar(
  { exchange }: Guarded,
  { text, partition }: SemanticQuestion,
  cache: ResponseCache,
  { threshold, maxAgeSeconds }: CacheDirectives,
  policy: CachePolicy,
): Promise<SimilarSearch> {
  const { semantic } = cache;
  const { request, record, client } = exchange;
  const { requestId, caller } = request;
  const vector = await semantic?.embed({
    ...{ text, requestId, exchangeId: record.id, userPath: caller.userPath },
    signal: client.ended,
  });
  if (semantic === undefined || vector === undefined) return { question: undefined, found: undefined };
  const searched = { partition, vector, threshold: thresholdOf(threshold, semantic.settings, policy) };
  // The record decides who may get an answer, and not the server that keeps the vectors.
  const isThere = (digest: string) => cache.find(digest)?.partition === partition;
  const neighbour = await semantic.nearest(searched, isThere);
  const entry = neighbour && cache.find(neighbour.digest, maxAgeSeconds);
  const content = entry && (await cache.answerOf(entry));
  const found = neighbour && entry && content ? { content, entry, similarity: neighbour.similarity } : undefined;
  return { question: { partition, vector }, found };
}
