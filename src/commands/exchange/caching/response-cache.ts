/**
 * The response cache. The log is its store: an index leads from the digest of a request to the exchange that answered
 * it, and a hit is generated from the record of that exchange.
 */
import { LRUCache } from 'lru-cache';
import type { z } from 'zod';
import { cachePurged } from '../../../events/catalogue/cache.ts';
import { exchangeCompleted, usageRecorded } from '../../../events/catalogue/exchange.ts';
import { type EpochMs, type EventContext, type Position, streamName } from '../../../events/event.ts';
import { type EventLog, LogUnavailable } from '../../../events/log.ts';
import { refusals } from '../../refusal.ts';
import type { SemanticCache } from '../../semantic-cache/semantic-cache.ts';
import type { CachedContent, CachedEntry } from '../answer-source.ts';
import { type ReplayDependencies, recordedTemplate } from '../record/replay-answer.ts';
import { RequestDigests } from './request-digest.ts';

interface ResponseCacheSettings {
  readonly maxTtlSeconds: number;
  /** Of recorded answers kept ready in memory. */
  readonly maxMemoryBytes: number;
  /** Longer answers are not cached. */
  readonly maxAnswerBytes: number;
}

interface ResponseCacheParts extends ReplayDependencies {
  readonly index: CacheIndex;
  readonly settings: ResponseCacheSettings;
  /** Undefined when answers to similar requests are not served. */
  readonly semantic: SemanticCache | undefined;
  now(): EpochMs;
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

// What the exchange needs of the index of cached answers.

/** An answer on record that later requests may get. */
export interface CacheEntry extends CachedEntry {
  /** Of requests that may get it when they are similar; undefined where only equal ones may. */
  readonly partition?: string | undefined;
  readonly expiresAt: EpochMs;
}

interface CacheIndex {
  /** The newest entry with this digest, expired or not; in memory. */
  find(digest: string): CacheEntry | undefined;
  /** False while the log is read at start: `find` then finds nothing. */
  readonly isCaughtUp: boolean;
  /** Counts the purges so far: an answer to a request that is older than a purge is not cached. */
  readonly purges: number;
  /** Resolves when everything up to `position` is in the index. Rejects when the index stopped. */
  whenProcessed(position: Position): Promise<void>;
}

// Requests with one digest at the same time: the first is sent to a provider, the others wait for its answer.

/** `cached`: the answer can be looked up. `ended_early`: its client left. `not_cached`: another request may fail alike. */
export type FlightEnd = 'cached' | 'ended_early' | 'not_cached';

export interface Flight {
  readonly finished: Promise<FlightEnd>;
  /** Has no effect after the first call. */
  finish(end: FlightEnd): void;
}

class Flights {
  readonly #byDigest = new Map<string, Flight>();

  of(digest: string): Flight | undefined {
    return this.#byDigest.get(digest);
  }

  /** Only while there is none with this digest. */
  begin(digest: string): Flight {
    const { promise, resolve } = Promise.withResolvers<FlightEnd>();
    const flight: Flight = {
      finished: promise,
      finish: (end) => {
        if (this.#byDigest.get(digest) === flight) this.#byDigest.delete(digest);
        resolve(end);
      },
    };
    this.#byDigest.set(digest, flight);
    return flight;
  }
}

// Removes answers from the response cache. They stay on the record of their exchanges.

/** The answers that match every given member; without any, all. */
export interface PurgeSelection {
  /** Answers of requests at this path or below. */
  readonly userPath?: string | undefined;
  /** Name of the provider. */
  readonly provider?: string | undefined;
  /** The provider's own id of the model. */
  readonly model?: string | undefined;
}

/** What a purge needs of the index of cached answers. */
interface PurgedIndex {
  /** Resolves when the index knows the whole log. Rejects when it stopped. */
  readonly caughtUp: Promise<unknown>;
  /** How many answers of the index a purge would remove. */
  matching(selection: PurgeSelection): number;
  /** Resolves when everything up to `position` is in the index. Rejects when the index stopped. */
  whenProcessed(position: Position): Promise<void>;
}

const stream = streamName('settings', 'cache');

/**
 * The purge is on disk and in force when this resolves. Answers to requests that are older than it are not cached.
 * @returns how many answers were removed
 * @throws Refusal 503 when the log cannot be written
 */
export async function purgeCache(
  selection: PurgeSelection,
  context: EventContext,
  { log, index }: { readonly log: Pick<EventLog, 'append'>; readonly index: PurgedIndex },
): Promise<number> {
  await index.caughtUp;
  const removed = index.matching(selection);
  const { userPath, provider, model } = selection;
  const event = cachePurged.create({ userPath, provider, model }, context);
  try {
    const { position } = await log.append([{ stream, events: [event], expectedRevision: 'any' }]);
    await index.whenProcessed(position);
  } catch (error) {
    if (error instanceof LogUnavailable) throw refusals.logUnavailable(error);
    throw error;
  }
  return removed;
}
