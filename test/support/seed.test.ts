import { dirname } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createChance } from '../crash/random.ts';
import { filesLeftOut, subjects } from './drawn-files.ts';
import { coveringPart, pairsOf } from './seed.ts';

const tables = fc.record({
  rows: fc.uniqueArray(fc.string(), { maxLength: 12 }),
  columns: fc.uniqueArray(fc.integer(), { maxLength: 12 }),
  each: fc.integer({ min: 1, max: 3 }),
  seed: fc.nat(),
});
const kindsOf = ([row, column]: readonly [string, number]) => [row, column];

describe('a part of a table of cases', () => {
  it('has as many cases of each kind as are wanted, or all of them', () => {
    fc.assert(
      fc.property(tables, ({ rows, columns, each, seed }) => {
        const part = coveringPart(pairsOf(rows, columns), kindsOf, each, createChance(seed));
        for (const row of rows) {
          const count = part.filter(([one]) => one === row).length;
          expect(count).toBeGreaterThanOrEqual(Math.min(each, columns.length));
        }
        for (const column of columns) {
          const count = part.filter(([, one]) => one === column).length;
          expect(count).toBeGreaterThanOrEqual(Math.min(each, rows.length));
        }
        expect(part.length).toBeLessThanOrEqual(each * (rows.length + columns.length));
      }),
    );
  });

  it('keeps the order, and is the same for the same seed', () => {
    fc.assert(
      fc.property(tables, ({ rows, columns, each, seed }) => {
        const cases = pairsOf(rows, columns);
        const part = coveringPart(cases, kindsOf, each, createChance(seed));
        expect(part).toEqual(cases.filter((one) => part.includes(one)));
        expect(coveringPart(cases, kindsOf, each, createChance(seed))).toEqual(part);
      }),
    );
  });

  it('is another one for another seed, until every case was in it', () => {
    const cases = pairsOf(['a', 'b', 'c'], [1, 2, 3, 4]);
    const seen = new Set<unknown>();
    for (let seed = 0; seed < 200; seed++) {
      for (const one of coveringPart(cases, kindsOf, 1, createChance(seed))) seen.add(one);
    }
    expect(seen.size).toBe(cases.length);
  });
});

describe('files that test one subject', () => {
  const root = dirname(dirname(import.meta.dirname));
  const all = subjects.flatMap(({ files }) => files.map((file) => `test/${file}.test.ts`));

  it('belong to one subject each', () => {
    expect(new Set(all).size).toBe(all.length);
  });

  it('are in a run as often as is wanted, and each of them in some run', () => {
    const wanted = subjects.reduce((sum, { drawn }) => sum + drawn, 0);
    const seen = new Set<string>();
    for (let seed = 0; seed < 100; seed++) {
      const left = filesLeftOut(root, seed);
      expect(all.length - left.length).toBe(wanted);
      for (const file of all) if (!left.includes(file)) seen.add(file);
    }
    expect(all.filter((file) => !seen.has(file))).toEqual(['test/browser/live-load.test.ts']);
  });
});
