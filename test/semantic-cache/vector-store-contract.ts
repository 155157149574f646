/** What every vector store does, wherever it keeps its vectors. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { normalised, type StoredVector, type VectorStore } from '../../src/commands/semantic-cache/vector-store.ts';

export const DIMENSION = 8;

/** Length 1, at this angle to the first axis. */
export function at(degrees: number): Float32Array {
  const radians = (degrees * Math.PI) / 180;
  return unit([Math.cos(radians), Math.sin(radians)]);
}

export function unit(values: readonly number[]): Float32Array {
  const vector = normalised([...values, ...new Array<number>(Math.max(0, DIMENSION - values.length)).fill(0)]);
  if (vector === undefined) throw new Error('a vector without a direction');
  return vector;
}

export function randomDigest(): string {
  return randomBytes(32).toString('hex');
}

export function entry(change: Partial<StoredVector> = {}): StoredVector {
  return { digest: randomDigest(), partition: 'p', vector: at(0), expiresAt: 2000, ...change };
}

export const query = (change: object = {}) => ({
  partition: 'p',
  vector: at(0),
  threshold: 0.92,
  now: 1000,
  ...change,
});

/** @param open called once; its store is empty, or may be purged */
export function describeVectorStore(name: string, open: () => Promise<VectorStore>): void {
  describe(name, () => {
    let opened: Promise<VectorStore> | undefined;
    let store: VectorStore;
    beforeEach(async () => {
      opened ??= open();
      store = await opened;
      await store.purge();
    });
    afterAll(async () => (await opened)?.close());

    it('finds the nearest vector at or above the threshold, with its similarity', async () => {
      const [far, near] = [entry({ vector: at(20) }), entry({ vector: at(10) })];
      await store.add(far);
      await store.add(near);
      await store.add(entry({ vector: at(90) }));
      const found = await store.nearest(query());
      expect(found?.digest).toBe(near.digest);
      expect(found?.similarity).toBeCloseTo(Math.cos(Math.PI / 18), 5);
      expect(await store.nearest(query({ vector: at(50) }))).toBeUndefined();
    });

    it('never finds vectors of another partition', async () => {
      await store.add(entry({ partition: "p' OR 1=1 --" }));
      expect(await store.nearest(query())).toBeUndefined();
      expect(await store.nearest(query({ partition: "p' OR 1=1 --" }))).toBeDefined();
    });

    it('never finds expired vectors, and finds others past them', async () => {
      const kept = entry({ vector: at(10), expiresAt: 1001 });
      await store.add(entry({ expiresAt: 1000 }));
      await store.add(kept);
      expect((await store.nearest(query()))?.digest).toBe(kept.digest);
      expect((await store.nearest(query({ now: 1000.25 })))?.digest).toBe(kept.digest);
      expect(await store.nearest(query({ now: 1001 }))).toBeUndefined();
    });

    it('replaces the vector with the same digest', async () => {
      const first = entry();
      await store.add(first);
      await store.add({ ...first, vector: at(90) });
      expect(await store.nearest(query())).toBeUndefined();
      expect((await store.nearest(query({ vector: at(90) })))?.digest).toBe(first.digest);
    });

    it('removes vectors by their digests, and all of them', async () => {
      const [one, other] = [entry(), entry({ vector: at(5) })];
      await store.add(one);
      await store.add(other);
      await store.remove([one.digest, randomDigest()]);
      expect((await store.nearest(query()))?.digest).toBe(other.digest);
      await store.purge();
      expect(await store.nearest(query())).toBeUndefined();
    });
  });
}
