/**
 * The response cache. The log is its store: an index leads from the digest of a request to the exchange that answered
 * it, and a hit is generated from the record of that exchange.
 */
import type { Position } from '../../../events/event.ts';
import type { SemanticCache } from '../../semantic-cache/semantic-cache.ts';
import type { CachedContent } from '../answer-source.ts';
import type { ReplayDependencies } from '../record/replay-answer.ts';
import type { CacheEntry, CacheIndex } from './cache-index.ts';
import { CachedAnswers } from './cached-answers.ts';
import { Flights } from './flights.ts';
import { RequestDigests } from './request-digest.ts';

export interface ResponseCacheSettings {
  readonly maxTtlSeconds: number;
  /** Of recorded answers kept ready in memory. */
  readonly maxMemoryBytes: number;
  /** Longer answers are not cached. */
  readonly maxAnswerBytes: number;
}

export interface ResponseCacheParts extends ReplayDependencies {
  readonly index: CacheIndex;
  readonly settings: ResponseCacheSettings;
  /** Undefined when answers to similar requests are not served. */
  readonly semantic: SemanticCache | undefined;
  /** Milliseconds since the epoch. */
  now(): number;
}

export class ResponseCache {
  readonly settings: ResponseCacheSettings;
  readonly digests = new RequestDigests();
  readonly semantic: SemanticCache | undefined;
  readonly flights = new Flights();
  readonly now: () => number;
  readonly #index: CacheIndex;
  readonly #answers: CachedAnswers;

  constructor({ index, settings, semantic, now, ...deps }: ResponseCacheParts) {
    this.semantic = semantic;
    this.settings = settings;
    this.now = now;
    this.#index = index;
    this.#answers = new CachedAnswers(deps, settings.maxMemoryBytes);
  }

  /** Whether an answer that `find` does not find is gone. */
  get isComplete(): boolean {
    return this.#index.isCaughtUp;
  }

  get purges(): number {
    return this.#index.purges;
  }

  /** @param maxAgeSeconds the oldest answer that the client accepts */
  find(digest: string, maxAgeSeconds = Number.POSITIVE_INFINITY): CacheEntry | undefined {
    const entry = this.#index.find(digest);
    if (entry === undefined) return undefined;
    const now = this.now();
    return entry.expiresAt > now && now - entry.storedAt <= maxAgeSeconds * 1000 ? entry : undefined;
  }

  /** @returns undefined when the answer cannot be reissued. @throws the errors of reading the log */
  answerOf({ exchangeId }: CacheEntry): CachedContent | Promise<CachedContent | undefined> {
    return this.#answers.of(exchangeId);
  }

  /** Resolves when `find` knows everything up to the position. */
  whenIndexed(position: Position): Promise<void> {
    return this.#index.whenProcessed(position);
  }
}
