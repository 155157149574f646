/**
 * Answers the request from the response cache, when an answer to an equal or similar request is on record. A hit costs nothing:
 * it precedes limits and budgets. Of equal requests at the same time, one is sent to a provider.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Caller, Client, StreamKeptOpen } from '../../model-request/model-request.ts';
import { earlyEnd } from '../../model-request/upstream-refusals.ts';
import { type Refusal, refusals } from '../../refusal.ts';
import type { CachedAnswer, CachedContent, RecordedAnswer } from '../answer-source.ts';
import { type CacheDirectives, cacheDirectives } from '../caching/cache-directives.ts';
import {
  type DigestedRequest,
  type EmbeddedQuestion,
  type SemanticQuestion,
  semanticQuestion,
  thresholdOf,
} from '../caching/request-digest.ts';
import type { CacheEntry, FlightEnd, ResponseCache } from '../caching/response-cache.ts';
import type { CachePlace } from '../caching/store-answer.ts';
import type { CachePolicy } from '../policy.ts';
import { makeClaim } from './admit.ts';
import type { ExchangeDependencies } from './dependencies.ts';
import type { Guarded, Step } from './running-exchange.ts';

// A client for whose answer other requests wait.

/** Longer than a client needs that reads. */
const STALLED_MS = 1_000;

/** Reports a client that does not read: requests that wait for its answer must not wait for it. */
class WatchedClient implements Client {
  readonly #client: Client;
  readonly #stalled: () => void;

  /** @param stalled called when a piece of the answer was not accepted within a second */
  constructor(client: Client, stalled: () => void) {
    this.#client = client;
    this.#stalled = stalled;
  }

  get ended(): AbortSignal {
    return this.#client.ended;
  }

  get begun(): boolean {
    return this.#client.begun;
  }

  answer(status: number, headers: Record<string, string>, body: Uint8Array): void {
    this.#client.answer(status, headers, body);
  }

  refuse(refusal: Refusal, headers: Record<string, string>): void {
    this.#client.refuse(refusal, headers);
  }

  keepOpen(comments: Uint8Array, stream: StreamKeptOpen): void {
    this.#client.keepOpen(comments, stream);
  }

  get isKeptOpen(): boolean {
    return this.#client.isKeptOpen;
  }

  begin(status: number, headers: Record<string, string>): void {
    this.#client.begin(status, headers);
  }

  write(bytes: Uint8Array): Promise<void> | undefined {
    const accepted = this.#client.write(bytes);
    if (accepted === undefined) return undefined;
    const timer = setTimeout(this.#stalled, STALLED_MS);
    timer.unref();
    return accepted.finally(() => clearTimeout(timer));
  }

  end(): void {
    this.#client.end();
  }
}

export const readCache: Step<Guarded, Guarded> = {
  name: 'readCache',
  run(context, deps) {
    const { exchange } = context;
    if (!cachedEndpoints.has(exchange.dialect.endpoint) || exchange.resumed !== undefined) return context;
    const { cache } = deps;
    // Read also where nothing is cached, so that `only-if-cached` never calls a provider.
    const directives = cacheDirectives(exchange.request.headers, cache?.settings ?? withoutCache);
    const policy = cachePolicyOf(context, deps);
    const applies = cache !== undefined && policy !== undefined && (directives.reads || directives.stores);
    const request = applies ? digestedRequest(context, policy) : undefined;
    if (applies && request !== undefined) {
      const digest = cache.digests.of(request);
      if (digest !== undefined) return lookedUp({ context, deps, cache, policy, directives, request, digest });
    }
    if (directives.onlyIfCached) throw refusals.notCached();
    return context;
  },
};

const withoutCache = { maxTtlSeconds: Number.POSITIVE_INFINITY };

const cachedEndpoints: ReadonlySet<string> = new Set([
  '/v1/chat/completions',
  '/v1/responses',
  '/v1/messages',
  '/v1/embeddings',
]);

/** Undefined for a request whose answer must not be shared, or is not recorded with its bytes. */
export function cachePolicyOf(
  { exchange, parsedRequest, policy, history, guarded }: Guarded,
  { cache }: Pick<ExchangeDependencies, 'cache'>,
): CachePolicy | undefined {
  const { dialect, request, resumed } = exchange;
  if (cache === undefined || policy.cache === undefined) return undefined;
  if (!cachedEndpoints.has(dialect.endpoint) || resumed !== undefined || request.caller.origin !== undefined)
    return undefined;
  if (guarded?.answer !== undefined || parsedRequest.json['background'] === true) return undefined;
  if (history === undefined) return policy.cache;
  // The chain of a cached response is replayed from the record, so the response before it has to be there.
  return history.kind === 'response' && history.head !== undefined ? policy.cache : undefined;
}

function digestedRequest(
  { exchange, parsedRequest, policy, route, guarded }: Guarded,
  { scope, guardrails }: CachePolicy,
): DigestedRequest | undefined {
  const { dialect, request } = exchange;
  const [target] = route.candidates;
  if (target === undefined) return undefined;
  return {
    scope: cacheScopeOf(request.caller, scope),
    endpoint: dialect.endpoint,
    target,
    policy: `${policy.workflow?.id ?? ''} ${guardrails}`,
    headers: guarded?.headers ?? request.headers,
    body: request.body,
    json: parsedRequest.json,
    guarded: guarded?.parsedRequest.json,
  };
}

interface Lookup {
  readonly context: Guarded;
  readonly deps: ExchangeDependencies;
  readonly cache: ResponseCache;
  readonly policy: CachePolicy;
  readonly directives: CacheDirectives;
  readonly request: DigestedRequest;
  readonly digest: string;
}

type Looked = Guarded | CachedAnswer | RecordedAnswer;

/** Without a wait when the answer is ready in memory, or when there is none. */
function lookedUp(lookup: Lookup): Looked | Promise<Looked> {
  const { cache, directives, digest, context } = lookup;
  const entry = directives.reads && directives.exact ? cache.find(digest, directives.maxAgeSeconds) : undefined;
  if (entry !== undefined) {
    const content = cache.answerOf(entry);
    if (content instanceof Promise) return content.then((loaded) => hitOrMiss(loaded, entry, lookup));
    return hitOrMiss(content, entry, lookup);
  }
  const follows = directives.reads && directives.exact && directives.maxAgeSeconds !== 0;
  const flight = follows ? cache.flights.of(digest) : undefined;
  if (flight !== undefined) return afterFlight(flight.landed, lookup);
  return missed(context, lookup);
}

function hitOrMiss(content: CachedContent | undefined, entry: CacheEntry, lookup: Lookup): Looked | Promise<Looked> {
  const { context, policy, deps } = lookup;
  if (content === undefined || !isAllowed(content, policy)) return missed(context, lookup);
  return claimed(cachedAnswer({ cacheType: 'exact', content, entry }, context), context, deps);
}

function claimed(
  answer: CachedAnswer,
  { claim, exchange }: Guarded,
  deps: ExchangeDependencies,
): Looked | Promise<Looked> {
  if (claim === undefined) return answer;
  return makeClaim(exchange, claim, deps).then((earlier) => earlier ?? answer);
}

function isAllowed({ template: { facts } }: CachedContent, { toolCalls }: CachePolicy): boolean {
  // The provider that encrypted it checks the id of its item, which a hit replaces.
  return !facts.hasEncryptedContent && (toolCalls || !facts.hasToolCalls);
}

function cachedAnswer(
  found: Pick<CachedAnswer, 'cacheType' | 'content' | 'entry' | 'similarity'>,
  { parsedRequest, policy, route }: Guarded,
): CachedAnswer {
  const [target] = route.candidates;
  if (target === undefined) throw new Error('a request without a target has no digest');
  return { source: 'cache', ...found, target, parsedRequest, policy };
}

/** Longest wait for the answer to an equal request. */
const FOLLOW_MS = 5 * 60_000;

async function afterFlight(landed: Promise<FlightEnd>, lookup: Lookup): Promise<Looked> {
  const { context } = lookup;
  const { ended } = context.exchange.client;
  const over = new AbortController();
  const gone = () => over.abort();
  ended.addEventListener('abort', gone, { once: true });
  const timeout = sleep(FOLLOW_MS, 'not_cached' as const, { signal: over.signal, ref: false }).catch(
    () => 'not_cached' as const,
  );
  const end = ended.aborted ? 'not_cached' : await Promise.race([landed, timeout]);
  ended.removeEventListener('abort', gone);
  over.abort();
  if (ended.aborted) throw earlyEnd(ended.reason).refusal;
  return end === 'not_cached' ? missed(context, { ...lookup, follows: false }) : lookedUp(lookup);
}

/** No answer to an equal request: that to a similar one is next, where such answers are served. */
function missed(context: Guarded, lookup: Lookup & { readonly follows?: boolean }): Looked | Promise<Looked> {
  const { request, cache, directives } = lookup;
  const question = searchableQuestion(context, request, cache, directives);
  if (question === undefined) return goesOn(context, lookup, undefined);
  const place = directives.onlyIfCached ? undefined : placeOf(context, lookup);
  return afterSearch(searchSimilar(context, question, cache, directives, lookup.policy), place, lookup);
}

async function afterSearch(
  search: Promise<SimilarSearch>,
  place: CachePlace | undefined,
  lookup: Lookup,
): Promise<Looked> {
  const { context, policy, deps } = lookup;
  const { question, found } = await search;
  if (found === undefined || !isAllowed(found.content, policy)) {
    if (place !== undefined) place.question = question;
    return goesOn(context, lookup, place);
  }
  context.exchange.cachePlace = undefined;
  place?.flight?.land('not_cached');
  return claimed(cachedAnswer({ cacheType: 'semantic', ...found }, context), context, deps);
}

/** The request goes on to a provider, whose answer may be cached. @throws Refusal 504 under `only-if-cached` */
function goesOn(
  context: Guarded,
  lookup: Lookup & { readonly follows?: boolean },
  place: CachePlace | undefined,
): Guarded {
  if (lookup.directives.onlyIfCached) throw refusals.notCached();
  context.exchange.hasMissedCache = true;
  if (place === undefined) placeOf(context, lookup);
  return context;
}

/** Where the answer may be kept; equal requests wait for it from now on. */
function placeOf(
  { exchange, route }: Guarded,
  { cache, directives, digest, policy, follows = true }: Lookup & { readonly follows?: boolean },
): CachePlace | undefined {
  const [first] = route.candidates;
  if (!directives.stores || first === undefined) return undefined;
  const flight = follows && cache.flights.of(digest) === undefined ? cache.flights.begin(digest) : undefined;
  const ttlSeconds = Math.min(directives.ttlSeconds ?? policy.ttlSeconds, policy.longestTtlSeconds);
  const place: CachePlace = {
    ...{ digest, flight, ttlSeconds, first, purges: cache.purges, allowsToolCalls: policy.toolCalls },
    ...{ question: undefined, isKept: false },
  };
  exchange.cachePlace = place;
  if (flight !== undefined) {
    exchange.client = new WatchedClient(exchange.client, () => flight.land('not_cached'));
  }
  exchange.scope.atEnd((isRecorded) => {
    if (isRecorded && place.isKept) return;
    flight?.land(exchange.client.ended.aborted ? 'ended_early' : 'not_cached');
  });
  return place;
}

// Who shares cached answers with whom.

/**
 * Callers with the same text share answers. `user_path`: the keys bound to exactly the same path; a caller without a
 * bound key, which may choose its path with a header, shares only with itself at the same path.
 */
function cacheScopeOf({ actor, userPath, key }: Caller, scope: CachePolicy['scope']): string {
  if (scope === 'shared') return 'shared';
  if (scope === 'user_path' && key?.userPath !== undefined) return `path:${userPath ?? key.userPath}`;
  return `caller:${actor}:${userPath ?? ''}`;
}

/** Looks for the answer to a similar request, after the cache has none to an equal one. */
interface SimilarAnswer {
  readonly content: CachedContent;
  readonly entry: CacheEntry;
  readonly similarity: CachedAnswer['similarity'];
}

interface SimilarSearch {
  /** The request as embedded; undefined when that failed. */
  readonly question: EmbeddedQuestion | undefined;
  readonly found: SimilarAnswer | undefined;
}

/** @returns undefined when the request is not searched, and its answer not found by others */
function searchableQuestion(
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
async function searchSimilar(
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
