import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bucketAt, bucketsBetween, movedBy, timesOf } from '../../../dashboard/src/pages/audit/brush.ts';

describe('the brush', () => {
  const buckets = bucketsBetween([0, 10, 20, 30], 35);

  it('chooses whole buckets, from either side', () => {
    expect(timesOf(buckets, { anchor: 1, cursor: 2 })).toEqual({ from: 10, to: 30 });
    expect(timesOf(buckets, { anchor: 3, cursor: 2 })).toEqual({ from: 20, to: 35 });
    expect(timesOf([], { anchor: 0, cursor: 0 })).toBeUndefined();
  });

  it('finds the bucket under the pointer, also outside of the chart', () => {
    expect([-1, 0, 0.24, 0.25, 0.999, 1, 7].map((share) => bucketAt(share, 4))).toEqual([0, 0, 0, 1, 3, 3, 3]);
  });

  it('begins at the newest bucket with the first arrow key, and extends with Shift', () => {
    const first = movedBy('ArrowLeft', false, undefined, 4);
    expect(first).toEqual({ anchor: 3, cursor: 3 });
    const moved = movedBy('ArrowLeft', false, first, 4);
    expect(moved).toEqual({ anchor: 2, cursor: 2 });
    const extended = movedBy('ArrowLeft', true, moved, 4);
    expect(extended).toEqual({ anchor: 2, cursor: 1 });
    expect(movedBy('Home', true, extended, 4)).toEqual({ anchor: 2, cursor: 0 });
    expect(movedBy('End', false, extended, 4)).toEqual({ anchor: 3, cursor: 3 });
    expect(movedBy('a', false, extended, 4)).toBeUndefined();
    expect(movedBy('ArrowLeft', false, undefined, 0)).toBeUndefined();
  });

  it('stays in the chart with any keys', () => {
    const keys = fc.array(fc.tuple(fc.constantFrom('ArrowLeft', 'ArrowRight', 'Home', 'End'), fc.boolean()));
    fc.assert(
      fc.property(keys, fc.integer({ min: 1, max: 120 }), (pressed, count) => {
        let brushed = movedBy('End', false, undefined, count);
        for (const [key, extend] of pressed) brushed = movedBy(key, extend, brushed, count) ?? brushed;
        for (const at of [brushed?.anchor, brushed?.cursor]) {
          expect(at).toBeGreaterThanOrEqual(0);
          expect(at).toBeLessThan(count);
        }
      }),
    );
  });
});
