import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { restsOf, ScannedVectors, similarityAtLeast } from '../../src/commands/semantic-cache/scanned-vectors.ts';
import { normalised } from '../../src/commands/semantic-cache/vector-store.ts';
import { at, describeVectorStore, entry, query } from './vector-store-contract.ts';

describeVectorStore('ScannedVectors', async () => new ScannedVectors());

const dot = (one: Float32Array, other: Float32Array) =>
  one.reduce((sum, value, index) => sum + value * (other[index] ?? 0), 0);

/** Unit vectors of one length, some of them close to each other. */
const vectors = fc.integer({ min: 1, max: 300 }).chain((length) =>
  fc
    .array(fc.array(fc.double({ min: -1, max: 1, noNaN: true }), { minLength: length, maxLength: length }), {
      minLength: 2,
      maxLength: 12,
    })
    .map((rows) => rows.flatMap((row) => normalised(row.map((value, index) => value + (rows[0]?.[index] ?? 0))) ?? [])),
);

describe('similarityAtLeast', () => {
  it('returns exactly the similarities that reach the floor', () => {
    fc.assert(
      fc.property(vectors, fc.double({ min: -1, max: 1, noNaN: true }), (given, floor) => {
        const [one, ...others] = given;
        if (one === undefined) return;
        for (const other of others) {
          const similarity = dot(one, other);
          const found = similarityAtLeast(floor, one, restsOf(one), other, restsOf(other));
          if (found === undefined) expect(similarity).toBeLessThan(floor + 1e-9);
          else expect(found).toBeCloseTo(similarity, 6);
        }
      }),
    );
  });
});

describe('normalised', () => {
  it.each([1e-200, 1e-320, 1, 1e200])('has length 1 for numbers like %d', (scale) => {
    const vector = normalised([3 * scale, 4 * scale]);
    expect(Math.hypot(...(vector ?? []))).toBeCloseTo(1, 6);
  });

  it.each([[[]], [[0, 0]], [[Number.NaN]], [[Number.POSITIVE_INFINITY, 1]]])('has no result for %j', (values) => {
    expect(normalised(values)).toBeUndefined();
  });
});

describe('ScannedVectors', () => {
  it('removes the oldest vectors beyond its limits of entries and bytes', () => {
    const few = new ScannedVectors({ maxEntries: 2 });
    const entries = [entry({ vector: at(0) }), entry({ vector: at(40) }), entry({ vector: at(80) })];
    for (const added of entries) few.add(added);
    expect(few.size).toBe(2);
    expect(few.nearest(query())).toBeUndefined();
    expect(few.nearest(query({ vector: at(40) }))).toBeDefined();
    const small = new ScannedVectors({ maxBytes: 80 });
    for (const added of entries) small.add(added);
    expect(small).toMatchObject({ size: 2, bytes: 72 });
  });

  it('keeps the vector that expires later', () => {
    const store = new ScannedVectors();
    const added = entry({ expiresAt: 3000 });
    store.add(added);
    store.add({ ...added, expiresAt: 1500 });
    expect(store.nearest(query({ now: 2000 }))).toBeDefined();
  });

  it('forgets expired vectors that a search reads', () => {
    const store = new ScannedVectors();
    store.add(entry({ expiresAt: 1000 }));
    store.nearest(query());
    expect(store).toMatchObject({ size: 0, bytes: 0 });
  });

  it('lets other work have its turn during a long search, and finds what is added meanwhile', async () => {
    const removed = entry({ vector: at(10) });
    const added = entry({ vector: at(5) });
    let turns = 0;
    const store = new ScannedVectors({
      async turn() {
        turns += 1;
        if (turns > 1) return;
        store.remove([removed.digest]);
        store.add(added);
      },
    });
    store.add(removed);
    for (let degrees = 0; degrees < 60_000; degrees++) store.add(entry({ vector: at(40 + (degrees % 100)) }));
    const found = store.nearest(query());
    expect(found).toBeInstanceOf(Promise);
    expect((await found)?.digest).toBe(added.digest);
    expect(turns).toBeGreaterThan(0);
  });

  it('returns nothing when a purge happens during the search', async () => {
    const store: ScannedVectors = new ScannedVectors({ turn: async () => store.purge() });
    for (let count = 0; count < 60_000; count++) store.add(entry());
    expect(await store.nearest(query())).toBeUndefined();
  });
});
