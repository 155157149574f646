import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bucketIntervals, rangeBetween, timeBuckets } from '../../src/http/dates.ts';

const MOST = 120;
const DAY_MS = 86_400_000;
const zones = ['UTC', 'Asia/Kathmandu', 'America/St_Johns', 'Australia/Lord_Howe', 'Europe/Berlin'];
const at = (text: string) => Date.parse(text);
const bucketsOf = (from: string, to: string, zone = 'UTC') => {
  const { interval, starts } = timeBuckets(rangeBetween(at(from), at(to), zone), MOST);
  return { interval, starts: starts.map((start) => new Date(start).toISOString()) };
};

describe('timeBuckets', () => {
  it('chooses the shortest round interval', () => {
    const chosen = (to: string) => bucketsOf('2026-03-01T00:00:00Z', to).interval;
    expect(chosen('2026-03-01T00:02:00Z')).toBe('PT1S');
    expect(chosen('2026-03-01T01:00:00Z')).toBe('PT30S');
    expect(chosen('2026-03-02T00:00:00Z')).toBe('PT15M');
    expect(chosen('2026-03-31T00:00:00Z')).toBe('PT6H');
    expect(chosen('2026-06-29T00:00:00Z')).toBe('P1D');
    expect(chosen('2028-03-01T00:00:00Z')).toBe('P7D');
    expect(chosen('2036-02-28T00:00:00Z')).toBe('P1M');
    expect(chosen('2036-03-02T00:00:00Z')).toBe('P3M');
  });

  it('aligns hours to midnight in the zone, also where the clock changes', () => {
    const { interval, starts } = bucketsOf('2026-03-28T10:00:00Z', '2026-04-10T00:00:00Z', 'Europe/Berlin');
    expect(interval).toBe('PT3H');
    const hours = starts.map((start) =>
      Number(
        new Intl.DateTimeFormat('en', { hour: 'numeric', hourCycle: 'h23', timeZone: 'Europe/Berlin' }).format(
          at(start),
        ),
      ),
    );
    expect(hours.filter((hour) => hour % 3 !== 0)).toEqual([]);
  });

  it('begins weeks on Monday and months on the first', () => {
    const weeks = bucketsOf('2026-01-01T00:00:00Z', '2027-01-01T00:00:00Z', 'Asia/Kathmandu');
    expect(weeks.interval).toBe('P7D');
    expect(weeks.starts[1]).toBe('2026-01-04T18:15:00.000Z');
    const months = bucketsOf('2026-01-15T00:00:00Z', '2030-01-01T00:00:00Z');
    expect([months.interval, months.starts[0], months.starts[1]]).toEqual([
      'P1M',
      '2026-01-01T00:00:00.000Z',
      '2026-02-01T00:00:00.000Z',
    ]);
  });

  it('covers every range with at most that many ascending buckets', () => {
    const range = fc.record({
      from: fc.integer({ min: at('1970-01-01T00:00:00Z'), max: at('2036-01-01T00:00:00Z') }),
      length: fc.oneof(fc.integer({ min: 1, max: 200_000 }), fc.integer({ min: 1, max: 3660 * DAY_MS })),
      zone: fc.constantFrom(...zones),
    });
    fc.assert(
      fc.property(range, ({ from, length, zone }) => {
        const { interval, starts } = timeBuckets(rangeBetween(from, from + length, zone), MOST);
        expect(starts.length).toBeGreaterThan(0);
        expect(starts.length).toBeLessThanOrEqual(MOST);
        expect(starts[0]).toBeLessThanOrEqual(from);
        expect(starts.at(-1)).toBeLessThan(from + length);
        // The clock is set back by at most two hours.
        const longest = bucketIntervals[interval] + 7_200_000;
        const ends = [...starts.slice(1), from + length];
        for (const [place, start] of starts.entries()) {
          expect(Number.isInteger(start / 1000)).toBe(true);
          expect(ends[place]).toBeGreaterThan(start);
          expect((ends[place] ?? 0) - start).toBeLessThanOrEqual(longest);
        }
      }),
    );
  });
});
