import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Lateness } from '../../src/projections/analytics/projector.ts';

describe('the lateness of a reader of the log', () => {
  test('is 0 when everything is stored, and counts from then on', () => {
    const lateness = new Lateness(0);
    expect(lateness.of(10, 10, 1000)).toBe(0);
    expect(lateness.of(10, 15, 2000)).toBe(1000);
    expect(lateness.of(15, 15, 3000)).toBe(0);
    expect(lateness.of(15, 16, 3500)).toBe(500);
  });

  test('stays small under a constant load: a reader that is always one second late is not later after an hour', () => {
    const lateness = new Lateness(0);
    for (let second = 1; second < 3600; second++) {
      expect(lateness.of((second - 1) * 1000, second * 1000, second * 1000)).toBeLessThanOrEqual(2000);
    }
  });

  test('grows with the time for which nothing is stored, however long that is', () => {
    const lateness = new Lateness(0);
    expect(lateness.of(1, 1, 0)).toBe(0);
    let late = 0;
    for (let second = 1; second <= 5000; second++) late = lateness.of(1, 1 + second, second * 1000);
    expect(late).toBe(5_000_000);
    expect(lateness.of(4000, 5001, 5_000_000)).toBeGreaterThanOrEqual(1_000_000);
    expect(lateness.of(4000, 5001, 5_000_000)).toBeLessThan(1_100_000);
  });

  test('counts events that were in the log at the start from the start', () => {
    expect(new Lateness(500).of(0, 100, 2500)).toBe(2000);
  });

  test('is never less than the age of the oldest event that is not stored', () => {
    const steps = fc.array(fc.record({ ms: fc.nat(2000), events: fc.nat(50), stored: fc.nat(60) }), { maxLength: 200 });
    fc.assert(
      fc.property(steps, (all) => {
        const lateness = new Lateness(0);
        const appendedAt: number[] = [];
        let [now, head, stored] = [0, 0, 0];
        for (const step of all) {
          now += step.ms;
          for (let count = 0; count < step.events; count++) appendedAt.push(now);
          head += step.events;
          stored = Math.min(head, stored + step.stored);
          const oldest = appendedAt[stored];
          const late = lateness.of(stored, head, now);
          if (oldest === undefined) expect(late).toBe(0);
          else expect(late).toBeGreaterThanOrEqual(now - oldest);
        }
      }),
    );
  });
});
