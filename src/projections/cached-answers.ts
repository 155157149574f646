/** The index of the response cache: from the digest of a request to the exchange that answered it. */
import { answerCached, cacheHit, cachePurged } from '../events/catalogue/cache.ts';
import { responseDeleted } from '../events/catalogue/response.ts';
import { type EpochMs, idOf } from '../events/event.ts';
import { isA, type Projection } from './projection.ts';

export interface IndexedAnswer {
  readonly digest: string;
  readonly exchangeId: string;
  readonly storedAt: EpochMs;
  readonly expiresAt: number;
  /** Of the request; empty for one without a user path. */
  readonly userPath: string;
  readonly provider: string;
  readonly model: string;
  /** Of requests that may get it when they are similar; undefined where only equal ones may. */
  readonly partition: string | undefined;
}

export interface CachedAnswersState {
  /** By digest, in the order of their last use. */
  readonly entries: Map<string, IndexedAnswer>;
  purges: number;
}

/** Which answers a purge removes: those that match every given member. Without any, all. */
export interface CacheSelection {
  /** Answers of requests at this path or below. */
  readonly userPath?: string | undefined;
  readonly provider?: string | undefined;
  readonly model?: string | undefined;
}

/** @param maxEntries the entry that was not used for the longest time gives way to a new one */
export function cachedAnswersView(maxEntries: number): Projection<CachedAnswersState> {
  return {
    name: 'cached-answers',
    version: 3,
    filter: { types: [answerCached.type, cacheHit.type, cachePurged.type, responseDeleted.type] },
    initial: () => ({ entries: new Map(), purges: 0 }),
    apply(state, event) {
      const { entries } = state;
      if (isA(event, answerCached)) {
        const { digest, partition, expiresAt, provider, model, purges } = event.data;
        // Its append crossed that of a purge.
        if (purges !== undefined && purges !== state.purges) return state;
        const { userPath = '' } = event.context;
        const storedAt = Math.floor(event.at);
        entries.delete(digest);
        entries.set(digest, {
          ...{ digest, exchangeId: idOf(event.stream), storedAt, expiresAt },
          ...{ userPath, provider, model, partition },
        });
        makeRoom(entries, maxEntries, storedAt);
      } else if (isA(event, cacheHit)) {
        const entry = entries.get(event.data.digest);
        if (entry !== undefined) {
          entries.delete(entry.digest);
          entries.set(entry.digest, entry);
        }
      } else if (isA(event, responseDeleted)) {
        const { cached } = event.data;
        // Another answer may have its place.
        if (cached !== undefined && entries.get(cached.digest)?.exchangeId === cached.exchangeId) {
          entries.delete(cached.digest);
        }
      } else if (isA(event, cachePurged)) {
        for (const entry of selected(state, event.data)) entries.delete(entry.digest);
        state.purges += 1;
      }
      return state;
    },
    save: (state) => state,
    load(saved) {
      const { entries, purges } = saved as CachedAnswersState;
      // The configuration may allow fewer than before.
      return { entries: new Map([...entries].slice(-maxEntries)), purges };
    },
  };
}

/** The cached answers that a purge removes. */
export function selected({ entries }: CachedAnswersState, selection: CacheSelection): IndexedAnswer[] {
  const { userPath, provider, model } = selection;
  return [...entries.values()].filter(
    (entry) =>
      (userPath === undefined || isAtOrBelow(entry.userPath, userPath)) &&
      (provider === undefined || entry.provider === provider) &&
      (model === undefined || entry.model === model),
  );
}

function isAtOrBelow(path: string, root: string): boolean {
  return root === '/' || path === root || path.startsWith(`${root}/`);
}

/** Removes the least recently used entries, and expired ones before them in the order of use. */
function makeRoom(entries: Map<string, IndexedAnswer>, maxEntries: number, now: number): void {
  for (const entry of entries.values()) {
    if (entries.size <= maxEntries && entry.expiresAt > now) return;
    entries.delete(entry.digest);
  }
}
