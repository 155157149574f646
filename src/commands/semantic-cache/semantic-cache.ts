/**
 * Finds the answer to a similar request: one that is equal but for the last user text, and whose text is close enough.
 * The answers themselves are in the response cache, under the digests that the vectors have.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { vectorStored } from '../../events/catalogue/semantic-cache.ts';
import type { EventContext, NewEvent } from '../../events/event.ts';
import type { Embedder, TextToEmbed } from './embedder.ts';
import { type SemanticDialect, type SemanticText, semanticText } from './semantic-text.ts';
import { bytesOfVector } from './vector-bytes.ts';
import type { Neighbour, StoredVector, VectorStore } from './vector-store.ts';

export interface SemanticCacheSettings {
  /** Least similarity, unless the request states another. */
  readonly threshold: number;
  readonly ttlSeconds: number;
  readonly maxMessages: number;
  readonly excludeSystemPrompt: boolean;
}

export interface SemanticCacheParts {
  readonly settings: SemanticCacheSettings;
  readonly embedder: Pick<Embedder, 'embed' | 'space'>;
  readonly store: VectorStore;
  /** Whether the log is where vectors survive a restart. */
  readonly recordsVectors: boolean;
  now(): number;
}

export interface SearchedText {
  readonly partition: string;
  readonly vector: Float32Array;
  readonly threshold: number;
}

const REMOVED_AT_ONCE = 500;
/** A server may compute with less precise numbers. */
const ROUNDING = 1e-5;
/** Vectors whose answers are gone that one search removes. */
const MAX_STALE = 8;
/** Of a search for an answer that was recorded just before, in milliseconds. */
const LONGEST_WAIT_MS = 250;

const dialects: ReadonlySet<string> = new Set(['chat', 'responses', 'messages'] satisfies SemanticDialect[]);

function isSemanticDialect(name: string): name is SemanticDialect {
  return dialects.has(name);
}

export class SemanticCache {
  readonly #parts: SemanticCacheParts;
  /** By partition: resolves when the vectors of answers that were just recorded are kept. */
  readonly #arriving = new Map<string, Promise<void>>();

  constructor(parts: SemanticCacheParts) {
    this.#parts = parts;
  }

  get settings(): SemanticCacheSettings {
    return this.#parts.settings;
  }

  /** Distinguishes vectors of different models. */
  get space(): string {
    return this.#parts.embedder.space;
  }

  /** @returns undefined for a request that must not be searched */
  textOf(dialect: string, body: Readonly<Record<string, unknown>>): SemanticText | undefined {
    return isSemanticDialect(dialect) ? semanticText(dialect, body, this.#parts.settings) : undefined;
  }

  /** Never rejects. */
  embed(text: TextToEmbed): Promise<Float32Array | undefined> {
    return this.#parts.embedder.embed(text);
  }

  /**
   * The nearest vector whose answer is still there. Never rejects.
   * @param isThere whether the response cache has an answer with this digest, for requests of the partition
   */
  async nearest(searched: SearchedText, isThere: (digest: string) => boolean): Promise<Neighbour | undefined> {
    const { store, now } = this.#parts;
    await this.#arriving.get(searched.partition);
    for (let stale = 0; stale <= MAX_STALE; stale++) {
      const found = await store.nearest({ ...searched, now: now() });
      if (found === undefined) return undefined;
      const isNear = found.similarity >= searched.threshold - ROUNDING && found.similarity <= 1;
      if (isNear && isThere(found.digest)) return found;
      // The answer was purged, gave way to others, or the server gave a row that does not fit. The request does not wait for a server.
      if (store.remove([found.digest]) instanceof Promise) return undefined;
    }
    return undefined;
  }

  /** Removes the vectors of answers that were purged. Never rejects; failures of a server are counted. */
  async forget(digests: readonly string[]): Promise<void> {
    for (let from = 0; from < digests.length; from += REMOVED_AT_ONCE) {
      await this.#parts.store.remove(digests.slice(from, from + REMOVED_AT_ONCE));
    }
  }

  /** The time after which a vector is not found, within the life of its answer. */
  expiry(answerExpiresAt: number): number {
    const { now, settings } = this.#parts;
    return Math.min(answerExpiresAt, Math.floor(now()) + settings.ttlSeconds * 1000);
  }

  /** The event of a vector; undefined where the log does not keep them. */
  eventOf({ digest, partition, vector, expiresAt }: StoredVector, context: EventContext): NewEvent | undefined {
    if (!this.#parts.recordsVectors) return undefined;
    const data = { digest, partition, expiresAt, model: this.space, dimensions: vector.length };
    return vectorStored.create(data, context, bytesOfVector(vector));
  }

  /**
   * Keeps the vector once its answer can be found. Searches of its partition that begin before wait for that, so that a
   * client that got the answer finds it. Without an effect when `answerIsThere` rejects.
   */
  add(entry: StoredVector, answerIsThere: Promise<void>): void {
    const { partition } = entry;
    const kept = answerIsThere.then(
      // A server may take its time.
      () => void this.#parts.store.add(entry),
      () => {},
    );
    const late = sleep(LONGEST_WAIT_MS, undefined, { ref: false });
    const all = Promise.race([Promise.all([this.#arriving.get(partition), kept]), late]).then(() => {
      if (this.#arriving.get(partition) === all) this.#arriving.delete(partition);
    });
    this.#arriving.set(partition, all);
  }
}
