import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { formatPosition, InvalidPosition, parsePosition } from '../../src/events/event.ts';
import { mintEventId, wallClock } from '../../src/events/event-id.ts';

describe('event ids', () => {
  it('are version 7 UUIDs that carry their time', () => {
    const before = Date.now();
    const id = mintEventId();
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const time = Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16);
    expect(time).toBeGreaterThanOrEqual(before);
    expect(time).toBeLessThanOrEqual(Date.now() + 1);
  });

  it('increase, within a millisecond and although the clock goes backwards', () => {
    const start = Date.now() + 1_000;
    const ids = Array.from({ length: 20_000 }, (_, n) => mintEventId(start - (n % 3)));
    expect(ids).toEqual(ids.toSorted());
    expect(new Set(ids).size).toBe(ids.length);
  });
});

describe('positions', () => {
  it('sort as strings like their numbers do, and come back as the same number', () => {
    const number = fc.integer({ min: 0, max: 9_999_999_999_999_99 });
    fc.assert(
      fc.property(number, number, (a, b) => {
        expect(formatPosition(a) < formatPosition(b)).toBe(a < b);
        expect(parsePosition(formatPosition(a))).toBe(a);
      }),
    );
    for (const n of [0, 1, 9_999, 10_000, 10_001, 99_999_999, 2 ** 32])
      expect(parsePosition(formatPosition(n))).toBe(n);
  });

  it('are also taken without the zeros in front', () => {
    expect(parsePosition('17')).toBe(17);
  });

  it.each(['', '-1', '1.5', '0x10', 'head', ' 1', '12345678901234567', '9999999999999999'])(
    '%j is none',
    (position) => {
      expect(() => parsePosition(position)).toThrow(InvalidPosition);
    },
  );
});

describe('the wall clock', () => {
  it('agrees with the system clock to a few milliseconds, and has a finer grain', () => {
    expect(Math.abs(wallClock() - Date.now())).toBeLessThan(5);
    const readings = new Set(Array.from({ length: 1_000 }, wallClock));
    expect(readings.size).toBeGreaterThan(20);
  });

  describe('when the system clock is set', () => {
    afterEach(() => void vi.restoreAllMocks());

    it.each([-3_600_000, 3_600_000])('follows it at the next reading: by %i ms', (step) => {
      const system = Date.now;
      wallClock();
      vi.spyOn(Date, 'now').mockImplementation(() => system.call(Date) + step);
      expect(Math.abs(wallClock() - Date.now())).toBeLessThan(50);
      vi.restoreAllMocks();
      expect(Math.abs(wallClock() - Date.now())).toBeLessThan(50);
    });
  });

  describe('while the process is stopped between two readings', () => {
    afterEach(() => void vi.restoreAllMocks());

    it('does not take the pause for a system clock that was set', () => {
      // More than the time after which it looks at the system clock again.
      let elapsed = performance.now() + 5_000;
      const system = Date.now() + 5_000 - performance.now();
      vi.spyOn(performance, 'now').mockImplementation(() => elapsed);
      const pauses = [40, 0];
      vi.spyOn(Date, 'now').mockImplementation(() => {
        elapsed += pauses.shift() ?? 0;
        return Math.floor(system - 5_000 + elapsed);
      });
      const first = wallClock();
      const second = wallClock();
      const third = wallClock();
      expect(second - first).toBeCloseTo(40, 0);
      expect(third).toBe(second);
      expect(Math.abs(third - (system - 5_000 + elapsed))).toBeLessThan(3);
    });
  });
});
