import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SlidingWindow } from '../../src/commands/admission/sliding-window.ts';

const START = Date.parse('2026-03-01T00:00:00Z');

describe('a sliding window of a minute', () => {
  test('counts for a minute, and at most a second longer', () => {
    const window = new SlidingWindow(60);
    window.add(START + 500, 3);
    expect(window.used(START + 500)).toBe(3);
    expect(window.used(START + 60_499)).toBe(3);
    expect(window.used(START + 61_500)).toBe(0);
  });

  test('returns the time until there is room', () => {
    const window = new SlidingWindow(60);
    window.add(START, 5);
    window.add(START + 10_000, 5);
    const now = START + 20_000;
    expect(window.msUntil(now, 10)).toBe(0);
    const some = window.msUntil(now, 9);
    const all = window.msUntil(now, 4);
    expect(window.used(now + some - 1)).toBe(10);
    expect(window.used(now + some)).toBe(5);
    expect(window.used(now + all - 1)).toBe(5);
    expect(window.used(now + all)).toBe(0);
    expect(new SlidingWindow(60).msUntil(now, 0)).toBe(0);
  });

  test('returns the time until its first entry expires', () => {
    const window = new SlidingWindow(60);
    expect(window.msUntilLess(START)).toBe(0);
    window.add(START, 1);
    window.add(START + 30_000, 1);
    const wait = window.msUntilLess(START + 40_000);
    expect(window.used(START + 40_000 + wait)).toBe(1);
  });

  test('is empty after clear', () => {
    const window = new SlidingWindow(60);
    window.add(START, 5);
    window.clear();
    expect(window.used(START)).toBe(0);
  });

  test('starts again when the clock is set back by more than its length', () => {
    const window = new SlidingWindow(60);
    window.add(START + 3_600_000, 5);
    expect(window.used(START)).toBe(0);
    window.add(START, 2);
    expect(window.used(START + 1)).toBe(2);
  });

  test('does not count older entries', () => {
    const window = new SlidingWindow(60);
    window.add(START, 1);
    window.add(START - 120_000, 5);
    expect(window.used(START)).toBe(1);
  });
});

const events = fc.array(fc.tuple(fc.nat(200_000), fc.integer({ min: 1, max: 9 })), { maxLength: 80 });
const seconds = fc.constantFrom(1, 7, 60, 90, 100, 3600);

/** In the order of their times. */
function timed(gaps: readonly (readonly [number, number])[], length: number): { at: number; amount: number }[] {
  let at = START;
  return gaps.map(([gap, amount]) => {
    at += Math.round((gap * length) / 60);
    return { at, amount };
  });
}

describe('any window', () => {
  test('never counts less than its entries, nor entries that are older by more than a sixtieth', () => {
    fc.assert(
      fc.property(events, seconds, (gaps, length) => {
        const window = new SlidingWindow(length);
        const seen: { at: number; amount: number }[] = [];
        for (const one of timed(gaps, length)) {
          window.add(one.at, one.amount);
          seen.push(one);
          const sum = (since: number) =>
            seen.filter(({ at }) => at > since).reduce((all, { amount }) => all + amount, 0);
          const used = window.used(one.at);
          expect(used).toBeGreaterThanOrEqual(sum(one.at - length * 1000));
          expect(used).toBeLessThanOrEqual(sum(one.at - (length * 1000 * 62) / 60));
        }
      }),
    );
  });

  test('admits no more than its limit within any stretch of its length', () => {
    fc.assert(
      fc.property(events, seconds, fc.integer({ min: 1, max: 5 }), (gaps, length, limit) => {
        const window = new SlidingWindow(length);
        const through: number[] = [];
        for (const { at } of timed(gaps, length)) {
          if (window.msUntil(at, limit - 1) > 0) continue;
          window.add(at, 1);
          through.push(at);
        }
        for (const [index, at] of through.entries()) {
          const next = through[index + limit];
          if (next !== undefined) expect(next - at).toBeGreaterThanOrEqual(length * 1000);
        }
      }),
    );
  });

  test('is the same after it was saved and restored', () => {
    fc.assert(
      fc.property(events, seconds, fc.nat(100_000), (gaps, length, later) => {
        const window = new SlidingWindow(length);
        const all = timed(gaps, length);
        for (const { at, amount } of all) window.add(at, amount);
        const again = new SlidingWindow(length);
        again.restore(window.save());
        const now = (all.at(-1)?.at ?? START) + later;
        expect(again.used(now)).toBe(window.used(now));
        expect(again.msUntilLess(now)).toBe(window.msUntilLess(now));
      }),
    );
  });
});
