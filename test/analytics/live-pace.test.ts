import { describe, expect, test } from 'vitest';
import { LivePace } from '../../src/projections/analytics/projector.ts';

const pace = () => new LivePace({ shortestMs: 500, longestMs: 5000 });

describe('the pace of batches once everything is stored', () => {
  test('begins at once', () => {
    expect(pace().waitMs(1000)).toBeLessThanOrEqual(0);
  });

  test('is one batch every 500 ms while storing is quick', () => {
    const quick = pace();
    quick.stored(1000, 1100);
    expect(quick.waitMs(1100)).toBe(400);
    expect(quick.waitMs(1500)).toBe(0);
  });

  test('leaves three quarters of the time to others when storing takes long', () => {
    const slow = pace();
    slow.stored(1000, 2000);
    expect(slow.waitMs(2000)).toBe(3000);
  });

  test('pauses for no longer than the bound, however long a batch took', () => {
    const starved = pace();
    starved.stored(0, 60_000);
    expect(starved.waitMs(60_000)).toBe(5000);
  });
});
