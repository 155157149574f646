/** What the exchange needs of the index of cached answers. */
import type { Position } from '../../../events/event.ts';
import type { CachedEntry } from '../answer-source.ts';

/** An answer on record that later requests may get. */
export interface CacheEntry extends CachedEntry {
  /** Of requests that may get it when they are similar; undefined where only equal ones may. */
  readonly partition?: string | undefined;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

export interface CacheIndex {
  /** The newest entry with this digest, expired or not; in memory. */
  find(digest: string): CacheEntry | undefined;
  /** False while the log is read at start: `find` then finds nothing. */
  readonly isCaughtUp: boolean;
  /** Counts the purges so far: an answer to a request that is older than a purge is not cached. */
  readonly purges: number;
  /** Resolves when everything up to `position` is in the index. Rejects when the index stopped. */
  whenProcessed(position: Position): Promise<void>;
}
