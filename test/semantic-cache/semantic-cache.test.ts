import { describe, expect, it } from 'vitest';
import { readVectors } from '../../src/commands/semantic-cache/remote-vectors.ts';
import { ScannedVectors } from '../../src/commands/semantic-cache/scanned-vectors.ts';
import { SemanticCache, type SemanticCacheParts } from '../../src/commands/semantic-cache/semantic-cache.ts';
import { bytesOfVector, type VectorStore, vectorOfBytes } from '../../src/commands/semantic-cache/vector-store.ts';
import { streamName } from '../../src/events/event.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { at, entry, query } from './vector-store-contract.ts';

function cacheOf(store: VectorStore, change: Partial<SemanticCacheParts> = {}): SemanticCache {
  return new SemanticCache({
    settings: { threshold: 0.92, ttlSeconds: 1, maxMessages: 3, excludeSystemPrompt: false },
    embedder: { embed: async () => undefined, space: 'space' },
    store,
    recordsVectors: true,
    now: () => 1000,
    ...change,
  });
}

describe('SemanticCache', () => {
  it('passes over vectors whose answers are gone, and removes them', async () => {
    const store = new ScannedVectors();
    const [gone, kept] = [entry(), entry({ vector: at(5) })];
    store.add(gone);
    store.add(kept);
    const found = await cacheOf(store).nearest(query(), (digest) => digest === kept.digest);
    expect(found?.digest).toBe(kept.digest);
    expect(store.size).toBe(1);
  });

  it('finds a vector as soon as its answer can be found, also when the search begins before', async () => {
    const cache = cacheOf(new ScannedVectors());
    const [one, other] = [entry({ vector: at(3) }), entry({ vector: at(10) })];
    const indexed = Promise.withResolvers<void>();
    cache.add(one, indexed.promise);
    cache.add(other, Promise.resolve());
    const found = cache.nearest(query(), () => true);
    indexed.resolve();
    expect((await found)?.digest).toBe(one.digest);
  });

  it('does not wait for a server that removes a vector whose answer is gone', async () => {
    const store = new ScannedVectors();
    const removed: string[] = [];
    const server: VectorStore = {
      add: (added) => store.add(added),
      nearest: async (searched) => store.nearest(searched),
      remove(digests) {
        removed.push(...digests);
        return new Promise(() => {});
      },
      purge: () => store.purge(),
      close: () => store.close(),
    };
    const gone = entry();
    store.add(gone);
    expect(await cacheOf(server).nearest(query(), () => false)).toBeUndefined();
    expect(removed).toEqual([gone.digest]);
  });

  it('does not keep a vector whose answer is not indexed', async () => {
    const cache = cacheOf(new ScannedVectors());
    cache.add(entry(), Promise.reject(new Error('the index stopped')));
    expect(await cache.nearest(query(), () => true)).toBeUndefined();
  });

  it('keeps a vector no longer than its answer', () => {
    const cache = cacheOf(new ScannedVectors());
    expect(cache.expiry(1500)).toBe(1500);
    expect(cache.expiry(9000)).toBe(2000);
  });

  it('records no vectors where a server keeps them', () => {
    const cache = cacheOf(new ScannedVectors(), { recordsVectors: false });
    expect(cache.eventOf(entry(), { actor: 'system' })).toBeUndefined();
  });

  it.each(['embeddings', 'passthrough'])('does not search requests in the dialect %s', (dialect) => {
    const body = { input: 'hello', messages: [{ role: 'user', content: 'hello' }] };
    expect(cacheOf(new ScannedVectors()).textOf(dialect, body)).toBeUndefined();
  });
});

describe('readVectors', () => {
  it('reads the vectors back that have not expired and whose answers are there', async () => {
    const log = new MemoryLog();
    const cache = cacheOf(new ScannedVectors());
    const [kept, expired, purged] = [entry({ vector: at(7) }), entry({ expiresAt: 1000 }), entry({ vector: at(9) })];
    for (const stored of [kept, expired, purged]) {
      const event = cache.eventOf(stored, { actor: 'system' });
      if (event === undefined) throw new Error('no event');
      const stream = streamName('exchange', stored.digest);
      await log.append([{ stream, events: [{ ...event, at: 900 }], expectedRevision: 'noStream' }]);
    }
    const store = new ScannedVectors();
    const { signal } = new AbortController();
    const isThere = (digest: string) => digest !== purged.digest;
    await readVectors({ log, store, ttlSeconds: 1, isThere, signal, now: () => 1000 });
    expect(store.size).toBe(1);
    expect(store.nearest(query({ vector: at(7) }))).toEqual({ digest: kept.digest, similarity: expect.closeTo(1, 6) });
  });
});

describe('the bytes of a vector', () => {
  it('are its numbers, little-endian', () => {
    const vector = Float32Array.of(1, -0.5);
    expect(bytesOfVector(vector).toString('hex')).toBe('0000803f000000bf');
    expect(vectorOfBytes(bytesOfVector(vector), 2)).toEqual(vector);
    expect(vectorOfBytes(bytesOfVector(vector), 3)).toBeUndefined();
  });
});
