import { crc32 } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { RecentIds, recentIdCount } from '../../../src/events/replicated/recent-ids.ts';

const idOf = (number: number) => `id-${number}`;

function filled(count: number): RecentIds {
  const ids = new RecentIds(0);
  for (let number = 1; number <= count; number++) ids.add(idOf(number), 'yes');
  return ids;
}

describe('RecentIds', () => {
  it('finds the latest 65,536 ids at their positions, and no earlier one', () => {
    const count = 2 * recentIdCount + 1_000;
    const ids = filled(count);
    expect(ids.last).toBe(count);
    for (let number = 1; number <= count; number++) {
      const isRecent = number > count - recentIdCount;
      expect(ids.find([idOf(number)]), idOf(number)).toEqual(isRecent ? { first: number } : undefined);
    }
    expect(ids.find(['id-0'])).toBeUndefined();
  });

  it('finds an id that was added twice at its latest position, until that one is no longer recent', () => {
    const ids = filled(10);
    ids.add(idOf(3), 'yes');
    expect(ids.find([idOf(3)])).toEqual({ first: 11 });
    for (let number = 12; number <= 3 + recentIdCount; number++) ids.add(`more-${number}`, 'yes');
    expect(ids.find([idOf(3)])).toEqual({ first: 11 });
    for (let number = 0; number < 7; number++) ids.add(`further-${number}`, 'yes');
    expect(ids.find([idOf(3)])).toEqual({ first: 11 });
    ids.add('last', 'yes');
    expect(ids.find([idOf(3)])).toBeUndefined();
  });

  it('tells a whole repetition of an append from parts of it', () => {
    const ids = new RecentIds(0);
    for (const id of ['a', 'b', 'c']) ids.add(id, id === 'a' ? 'yes' : 'no');
    ids.add('d', 'yes');
    expect(ids.find(['a', 'b', 'c'])).toEqual({ first: 1 });
    expect(ids.find(['a', 'b'])).toEqual({ reused: 'a' });
    expect(ids.find(['b', 'c'])).toEqual({ reused: 'b' });
    expect(ids.find(['x', 'c'])).toEqual({ reused: 'c' });
    expect(ids.find(['x', 'y'])).toBeUndefined();
    expect(ids.find([])).toBeUndefined();
  });

  it('returns the CRC-32 of the id at a position while it is recent', () => {
    const ids = filled(3);
    expect([0, 1, 3, 3, 2, 4].map((position) => ids.check(position))).toEqual([
      0,
      crc32('id-1'),
      crc32('id-3'),
      crc32('id-3'),
      crc32('id-2'),
      undefined,
    ]);
    for (let number = 4; number <= 2 + recentIdCount; number++) ids.add(idOf(number), 'yes');
    expect(ids.check(2)).toBeUndefined();
    expect(ids.check(3)).toBe(crc32('id-3'));
  });
});
