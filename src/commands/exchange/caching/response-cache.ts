/**
 * The response cache. The log is its store: an index leads from the digest of a request to the exchange that answered
 * it, and a hit is generated from the record of that exchange.
 */

import { LRUCache } from 'lru-cache';
import type { z } from 'zod';
import { exchangeCompleted, usageRecorded } from '../../../events/catalogue/exchange.ts';
import { type Position, streamName } from '../../../events/event.ts';
import type { SemanticCache } from '../../semantic-cache/semantic-cache.ts';
import type { CachedContent } from '../answer-source.ts';
import { type ReplayDependencies, recordedTemplate } from '../record/replay-answer.ts';
import type { CacheEntry, CacheIndex } from './cache-index.ts';
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

/** Recorded answers, ready to be sent again: read from the log at the first hit and kept in a bounded memory. */
type RecordedUsage = z.infer<typeof usageRecorded.data>;

/** Estimate of what an entry takes besides its bytes. */
const ENTRY_BYTES = 2_000;

class CachedAnswers {
  readonly #deps: ReplayDependencies;
  readonly #ready: LRUCache<string, CachedContent>;
  readonly #loading = new Map<string, Promise<CachedContent | undefined>>();

  constructor(deps: ReplayDependencies, maxMemoryBytes: number) {
    this.#deps = deps;
    this.#ready = new LRUCache({
      maxSize: Math.max(1, maxMemoryBytes),
      sizeCalculation: ({ template }) => template.bytes + ENTRY_BYTES,
    });
  }

  /** @returns undefined when the answer cannot be reissued. @throws the errors of reading the log */
  of(exchangeId: string): CachedContent | Promise<CachedContent | undefined> {
    const ready = this.#ready.get(exchangeId);
    if (ready !== undefined) return ready;
    const begun = this.#loading.get(exchangeId);
    if (begun !== undefined) return begun;
    const loading = loadContent(exchangeId, this.#deps)
      .then((content) => {
        if (content !== undefined) this.#ready.set(exchangeId, content);
        return content;
      })
      .finally(() => this.#loading.delete(exchangeId));
    this.#loading.set(exchangeId, loading);
    return loading;
  }
}

async function loadContent(exchangeId: string, deps: ReplayDependencies): Promise<CachedContent | undefined> {
  const template = await recordedTemplate(exchangeId, deps, new AbortController().signal);
  return template?.facts.isWhole === true ? { template, ...(await accountOf(exchangeId, deps)) } : undefined;
}

/** The usage of the answer itself, not of attempts that failed before. */
async function accountOf(exchangeId: string, { log }: ReplayDependencies) {
  let usage: RecordedUsage | undefined;
  let finishReason: string | null = null;
  for await (const { type, data } of log.readStream(streamName('exchange', exchangeId))) {
    if (type === usageRecorded.type) {
      const recorded = data as RecordedUsage;
      if (recorded.failedAttempt === undefined) usage = recorded;
    }
    if (type === exchangeCompleted.type) finishReason = (data as z.infer<typeof exchangeCompleted.data>).finishReason;
  }
  return { usage, finishReason };
}
