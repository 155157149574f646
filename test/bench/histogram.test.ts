import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Histogram } from '../../bench/load/histogram.ts';
import { median } from '../../bench/sections/median.ts';

const durations = fc.array(fc.double({ min: 0.0001, max: 100_000, noNaN: true }), { minLength: 1, maxLength: 200 });

describe('a histogram of durations', () => {
  it('gives every quantile within one part in a hundred of the sorted values', () => {
    fc.assert(
      fc.property(durations, fc.double({ min: 0.01, max: 1, noNaN: true }), (values, fraction) => {
        const histogram = new Histogram();
        for (const value of values) histogram.record(value);
        const exact = values.toSorted((a, b) => a - b)[Math.max(1, Math.ceil(fraction * values.length)) - 1] ?? 0;
        expect(Math.abs(histogram.quantile(fraction) - exact)).toBeLessThanOrEqual(exact / 100);
      }),
    );
  });

  it('keeps the count and the greatest value exactly', () => {
    const histogram = new Histogram();
    for (const value of [3.25, 0.5, 7.125]) histogram.record(value);
    expect(histogram.count).toBe(3);
    expect(histogram.max).toBe(7.125);
    expect(histogram.quantile(1)).toBeLessThanOrEqual(7.125);
  });

  it('is 0 without values', () => {
    expect(new Histogram().quantile(0.5)).toBe(0);
  });
});

describe('the median', () => {
  it('is the middle value, or the mean of the two in the middle', () => {
    expect(median([9, 1, 5])).toBe(5);
    expect(median([9, 1, 5, 6])).toBe(5.5);
    expect(median([])).toBe(0);
  });
});
