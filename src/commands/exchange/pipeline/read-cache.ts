/**
 * Answers the request from the response cache, when an answer to an equal or similar request is on record. A hit costs nothing:
 * it precedes limits and budgets. Of equal requests at the same time, one is sent to a provider.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Caller, Client, StreamKeptOpen } from '../../model-request/model-request.ts';
import { earlyEnd } from '../../model-request/upstream-refusals.ts';
import { type Refusal, refusals } from '../../refusal.ts';
import type { CachedAnswer, CachedContent, RecordedAnswer } from '../answer-source.ts';
import {
  type DigestedRequest,
  type EmbeddedQuestion,
  type SemanticQuestion,
  semanticQuestion,
  thresholdOf,
} from '../caching/request-digest.ts';
import type { CacheEntry, FlightEnd, ResponseCache } from '../caching/response-cache.ts';
import type { CachePlace } from '../caching/store-answer.ts';
import { type CachePolicy, passedHeaders } from '../policy.ts';
import { makeClaim } from './admit.ts';
import { cachePolicyOf, type Governed } from './running-exchange.ts';

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

/** @returns undefined when the request goes on to a provider. @throws Refusal */
export function readCache(exchange: Governed): Looked | Promise<Looked> {
  const { cache } = exchange.deps;
  // Read also where nothing is cached, so that `only-if-cached` never calls a provider.
  const directives = cacheDirectives(exchange.request.headers, cache?.settings ?? withoutCache);
  const policy = cache === undefined ? undefined : cachePolicyOf(exchange);
  if (cache !== undefined && policy !== undefined && (directives.reads || directives.stores)) {
    const request = digestedRequest(exchange, policy);
    const digest = request === undefined ? undefined : cache.digests.of(request);
    if (request !== undefined && digest !== undefined) {
      return lookedUp({ exchange, cache, policy, directives, request, digest });
    }
  }
  if (directives.onlyIfCached) throw refusals.notCached();
  return undefined;
}

const withoutCache = { maxTtlSeconds: Number.POSITIVE_INFINITY };

function digestedRequest(
  { dialect, request, parsedRequest, policy, route, guarded }: Governed,
  { scope, guardrails }: CachePolicy,
): DigestedRequest | undefined {
  const [target] = route.candidates;
  if (target === undefined) return undefined;
  const headers = guarded?.headers ?? request.headers;
  const passed = policy.headers?.pass === undefined ? '' : JSON.stringify(passedHeaders(policy.headers, headers));
  return {
    scope: cacheScopeOf(request.caller, scope),
    endpoint: dialect.endpoint,
    target,
    policy: `${policy.workflow?.id ?? ''} ${guardrails}${passed}`,
    headers,
    body: request.body,
    json: parsedRequest.json,
    guarded: guarded?.parsedRequest.json,
  };
}

interface Lookup {
  readonly exchange: Governed;
  readonly cache: ResponseCache;
  readonly policy: CachePolicy;
  readonly directives: CacheDirectives;
  readonly request: DigestedRequest;
  readonly digest: string;
  /** Whether an equal request may wait for the answer to this one. Default true. */
  readonly follows?: boolean;
}

type Looked = CachedAnswer | RecordedAnswer | undefined;

/** Without a wait when the answer is ready in memory, or when there is none. */
function lookedUp(lookup: Lookup): Looked | Promise<Looked> {
  const { cache, directives, digest } = lookup;
  const entry = directives.reads && directives.exact ? cache.find(digest, directives.maxAgeSeconds) : undefined;
  if (entry !== undefined) {
    const content = cache.answerOf(entry);
    if (content instanceof Promise) return content.then((loaded) => hitOrMiss(loaded, entry, lookup));
    return hitOrMiss(content, entry, lookup);
  }
  const follows = directives.reads && directives.exact && directives.maxAgeSeconds !== 0;
  const flight = follows ? cache.flights.of(digest) : undefined;
  if (flight !== undefined) return afterFlight(flight.finished, lookup);
  return missed(lookup);
}

function hitOrMiss(content: CachedContent | undefined, entry: CacheEntry, lookup: Lookup): Looked | Promise<Looked> {
  const { exchange, policy } = lookup;
  if (content === undefined || !isAllowed(content, policy)) return missed(lookup);
  return claimed({ cacheType: 'exact', content, entry }, exchange);
}

function claimed(
  found: Pick<CachedAnswer, 'cacheType' | 'content' | 'entry' | 'similarity'>,
  exchange: Governed,
): Looked | Promise<Looked> {
  const [target] = exchange.route.candidates;
  if (target === undefined) throw new Error('a request without a target has no digest');
  const answer: CachedAnswer = { source: 'cache', ...found, target };
  if (exchange.claim === undefined) return answer;
  return makeClaim(exchange, exchange.claim).then((earlier) => earlier ?? answer);
}

function isAllowed({ template: { facts } }: CachedContent, { toolCalls }: CachePolicy): boolean {
  // The provider that encrypted it checks the id of its item, which a hit replaces.
  return !facts.hasEncryptedContent && (toolCalls || !facts.hasToolCalls);
}

/** Longest wait for the answer to an equal request. */
const FOLLOW_MS = 5 * 60_000;

async function afterFlight(finished: Promise<FlightEnd>, lookup: Lookup): Promise<Looked> {
  const { ended } = lookup.exchange.client;
  const over = new AbortController();
  const gone = () => over.abort();
  ended.addEventListener('abort', gone, { once: true });
  const timeout = sleep(FOLLOW_MS, 'not_cached' as const, { signal: over.signal, ref: false }).catch(
    () => 'not_cached' as const,
  );
  const end = ended.aborted ? 'not_cached' : await Promise.race([finished, timeout]);
  ended.removeEventListener('abort', gone);
  over.abort();
  if (ended.aborted) throw earlyEnd(ended.reason).refusal;
  return end === 'not_cached' ? missed({ ...lookup, follows: false }) : lookedUp(lookup);
}

/** No answer to an equal request: that to a similar one is next, where such answers are served. */
function missed(lookup: Lookup): Looked | Promise<Looked> {
  const { exchange, request, cache, directives } = lookup;
  const question = searchableQuestion(exchange, request, cache, directives);
  if (question === undefined) return goesOn(lookup, undefined);
  const place = directives.onlyIfCached ? undefined : placeOf(lookup);
  return afterSearch(searchSimilar(exchange, question, cache, directives, lookup.policy), place, lookup);
}

async function afterSearch(
  search: Promise<SimilarSearch>,
  place: CachePlace | undefined,
  lookup: Lookup,
): Promise<Looked> {
  const { exchange, policy } = lookup;
  const { question, found } = await search;
  if (found === undefined || !isAllowed(found.content, policy)) {
    if (place !== undefined) place.question = question;
    return goesOn(lookup, place);
  }
  exchange.cachePlace = undefined;
  place?.flight?.finish('not_cached');
  return claimed({ cacheType: 'semantic', ...found }, exchange);
}

/** The request goes on to a provider, whose answer may be cached. @throws Refusal 504 under `only-if-cached` */
function goesOn(lookup: Lookup, place: CachePlace | undefined): undefined {
  const { exchange } = lookup;
  if (lookup.directives.onlyIfCached) throw refusals.notCached();
  exchange.hasMissedCache = true;
  if (place === undefined) placeOf(lookup);
}

/** Where the answer may be kept; equal requests wait for it from now on. */
function placeOf({ exchange, cache, directives, digest, policy, follows = true }: Lookup): CachePlace | undefined {
  const [first] = exchange.route.candidates;
  if (!directives.stores || first === undefined) return undefined;
  const flight = follows && cache.flights.of(digest) === undefined ? cache.flights.begin(digest) : undefined;
  const ttlSeconds = Math.min(directives.ttlSeconds ?? policy.ttlSeconds, policy.longestTtlSeconds);
  const place: CachePlace = {
    ...{ digest, flight, ttlSeconds, first, purges: cache.purges, allowsToolCalls: policy.toolCalls },
    ...{ question: undefined, isKept: false },
  };
  exchange.cachePlace = place;
  if (flight !== undefined) {
    exchange.client = new WatchedClient(exchange.client, () => flight.finish('not_cached'));
  }
  exchange.atEnd((isRecorded) => {
    if (isRecorded && place.isKept) return;
    flight?.finish(exchange.client.ended.aborted ? 'ended_early' : 'not_cached');
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
  { dialect, history, guarded }: Governed,
  request: DigestedRequest,
  { semantic, isComplete }: ResponseCache,
  directives: Pick<CacheDirectives, 'reads' | 'semantic'>,
): SemanticQuestion | undefined {
  if (semantic === undefined || !isComplete || history !== undefined) return undefined;
  if (!directives.reads || !directives.semantic) return undefined;
  // The answer names placeholders, and their values are those of another request.
  if (guarded !== undefined && guarded.guard.placeholders.size > 0) return undefined;
  return semanticQuestion(dialect.name, request, semantic);
}

/** Never rejects, except with the errors of reading the log. */
async function searchSimilar(
  { request, record, client }: Governed,
  { text, partition }: SemanticQuestion,
  cache: ResponseCache,
  { threshold, maxAgeSeconds }: CacheDirectives,
  policy: CachePolicy,
): Promise<SimilarSearch> {
  const { semantic } = cache;
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

// What a request's headers say about the response cache: `Cache-Control` (RFC 9111 §5.2.1), and the gateway's own
// `X-Cache-Control`, `X-Cache-Type`, `X-Cache-TTL` and `X-Cache-Semantic-Threshold`.

interface CacheDirectives {
  /** Whether the answer may come from the cache. */
  readonly reads: boolean;
  /** Whether the answer may be kept for later requests. */
  readonly stores: boolean;
  /** Older entries are not accepted. */
  readonly maxAgeSeconds?: number;
  /** Without an entry, the request fails instead of calling a provider. */
  readonly onlyIfCached: boolean;
  /** Whether an entry for the same request may answer. */
  readonly exact: boolean;
  /** Whether an entry for a similar request may answer. */
  readonly semantic: boolean;
  /** How long the answer is kept; at most the configured maximum. */
  readonly ttlSeconds?: number;
  /** Least similarity of a similar request: 0 to 1. */
  readonly threshold?: number;
}

const usual: CacheDirectives = { reads: true, stores: true, onlyIfCached: false, exact: true, semantic: true };

/**
 * The same object for all requests without such headers.
 * @param headers lower-case names
 * @throws Refusal 400 for a malformed header of the gateway's own. A malformed `Cache-Control` has no effect.
 */
export function cacheDirectives(
  headers: Readonly<Record<string, string>>,
  { maxTtlSeconds }: { readonly maxTtlSeconds: number },
): CacheDirectives {
  const standard = headers['cache-control'];
  const own = headers['x-cache-control'];
  const type = headers['x-cache-type'];
  const ttl = headers['x-cache-ttl'];
  const threshold = headers['x-cache-semantic-threshold'];
  if ((standard ?? own ?? type ?? ttl ?? threshold) === undefined) return usual;
  return {
    ...usual,
    ...(own === undefined ? standardControl(standard) : ownControl(own)),
    ...(type === undefined ? undefined : readType(type)),
    ...(ttl === undefined ? undefined : readTtl(ttl, maxTtlSeconds)),
    ...(threshold === undefined ? undefined : { threshold: readThreshold(threshold) }),
  };
}

type Control = Partial<Pick<CacheDirectives, 'reads' | 'stores' | 'maxAgeSeconds' | 'onlyIfCached'>>;

function standardControl(value: string | undefined): Control {
  return value === undefined ? {} : Object.assign({}, ...directivesIn(value).map(controlOf));
}

/** @throws Refusal 400 */
function ownControl(value: string): Control {
  const directives = directivesIn(value);
  const controls = directives.map(controlOf);
  if (directives.length === 0 || controls.includes(undefined)) {
    throw malformed('X-Cache-Control', 'no-cache, no-store, max-age=<seconds> or only-if-cached');
  }
  return Object.assign({}, ...controls);
}

/** Undefined for a directive that is malformed, or that the cache does not know. */
function controlOf(directive: string): Control | undefined {
  const [name = '', argument] = directive.split(/=(.*)/s);
  switch (name.trim().toLowerCase()) {
    case 'no-cache':
      return { reads: false };
    case 'no-store':
      return { reads: false, stores: false };
    case 'only-if-cached':
      return argument === undefined ? { onlyIfCached: true } : undefined;
    case 'max-age': {
      const seconds = secondsIn(/^\s*"(.*)"\s*$/.exec(argument ?? '')?.[1] ?? argument ?? '');
      return seconds === undefined ? undefined : { maxAgeSeconds: seconds };
    }
    default:
      return undefined;
  }
}

function directivesIn(value: string): string[] {
  return value
    .split(',')
    .map((directive) => directive.trim())
    .filter((directive) => directive !== '');
}

function readType(value: string): Pick<CacheDirectives, 'exact' | 'semantic'> {
  const type = value.trim().toLowerCase();
  if (type !== 'exact' && type !== 'semantic' && type !== 'both') {
    throw malformed('X-Cache-Type', 'exact, semantic or both');
  }
  return { exact: type !== 'semantic', semantic: type !== 'exact' };
}

function readTtl(value: string, maxTtlSeconds: number): Partial<CacheDirectives> {
  const seconds = secondsIn(value);
  if (seconds === undefined) throw malformed('X-Cache-TTL', 'a whole number of seconds');
  return seconds === 0 ? { stores: false } : { ttlSeconds: Math.min(seconds, maxTtlSeconds) };
}

function readThreshold(value: string): number {
  const text = value.trim();
  if (!/^(0?\.\d{1,17}|[01](\.\d{0,17})?)$/.test(text) || Number(text) > 1) {
    throw malformed('X-Cache-Semantic-Threshold', 'a number from 0 to 1');
  }
  return Number(text);
}

/** Seconds past 2^53 are as good as 2^53. Undefined for anything but digits. */
function secondsIn(text: string): number | undefined {
  const digits = text.trim();
  return /^\d{1,400}$/.test(digits) ? Math.min(Number(digits), Number.MAX_SAFE_INTEGER) : undefined;
}

function malformed(header: string, expected: string) {
  return refusals.invalidRequest(`The header '${header}' must be ${expected}.`, header);
}
