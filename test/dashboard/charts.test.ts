import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { calendarWeeks, monthStarts } from '../../dashboard/src/charts/calendar-days.ts';
import {
  heatLevels,
  lineParts,
  linePath,
  roundSteps,
  shownLabels,
  stacked,
  wholeSteps,
} from '../../dashboard/src/charts/scale.ts';
import { differenceOfParts, relativeChange } from '../../dashboard/src/pages/overview/changes.ts';

describe('the steps of an axis', () => {
  it.each([
    [0, [0, 1]],
    [1, [0, 0.5, 1]],
    [7, [0, 2, 4, 6, 8]],
    [100, [0, 50, 100]],
    [4321, [0, 2000, 4000, 6000]],
  ])('for %d are %j', (max, steps) => {
    expect(roundSteps(max)).toEqual(steps);
  });

  it('begin with 0, reach the largest value, and are few', () => {
    fc.assert(
      fc.property(fc.double({ min: 1e-9, max: 1e15, noNaN: true }), (max) => {
        const steps = roundSteps(max);
        expect(steps[0]).toBe(0);
        expect(steps.at(-1)).toBeGreaterThanOrEqual(max * (1 - 1e-9));
        expect(steps.length).toBeLessThanOrEqual(6);
      }),
    );
  });

  it('are whole for counts', () => {
    expect(wholeSteps(1)).toEqual([0, 1]);
    expect(wholeSteps(3)).toEqual([0, 1, 2, 3]);
    expect(wholeSteps(300)).toEqual(roundSteps(300));
  });
});

describe('the labels of an axis', () => {
  it('have the room that they need', () => {
    expect(shownLabels(24, 1000, 50)).toEqual([0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22]);
    expect(shownLabels(3, 1000, 50)).toEqual([0, 1, 2]);
    expect(shownLabels(90, 100, 60)).toEqual([0, 54]);
    expect(shownLabels(0, 100, 60)).toEqual([]);
  });
});

describe('a line', () => {
  const at = (x: number) => ({ x, y: x * 2 });

  it('has a gap where there is no value', () => {
    expect(linePath([at(0), at(1), null, at(3), at(4)])).toBe('M0 0L1 2M3 6L4 8');
    expect(linePath([null, null])).toBe('');
  });

  it('keeps every point in one of its parts', () => {
    fc.assert(
      fc.property(fc.array(fc.option(fc.nat(1000), { nil: null })), (values) => {
        const points = values.map((value, place) => (value === null ? null : { x: place, y: value }));
        const parts = lineParts(points);
        expect(parts.flat()).toEqual(points.filter((point) => point !== null));
        expect(parts.every((part) => part.length > 0)).toBe(true);
        for (const part of parts) {
          const places = part.map(({ x }) => x);
          expect(places).toEqual(places.map((_, index) => (places[0] ?? 0) + index));
        }
      }),
    );
  });
});

it('a stack puts each value on top of those before; unknown ones have no height', () => {
  expect(stacked([2, null, 3])).toEqual([
    { from: 0, to: 2 },
    { from: 2, to: 2 },
    { from: 2, to: 5 },
  ]);
});

describe('the levels of heat', () => {
  it('are 0 for nothing and unknown, and otherwise 1 to 4 by rank', () => {
    expect(heatLevels([0, null, 1, 2, 3, 4, 1000])).toEqual([0, 0, 1, 1, 2, 3, 4]);
    expect(heatLevels([5])).toEqual([1]);
    expect(heatLevels([])).toEqual([]);
  });

  it('are never lower for a larger value', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(100), { minLength: 1 }), (values) => {
        const levels = heatLevels(values);
        for (const [one, value] of values.entries()) {
          for (const [other, larger] of values.entries()) {
            if (larger >= value) expect(levels[other]).toBeGreaterThanOrEqual(levels[one] ?? 0);
          }
        }
      }),
    );
  });
});

describe('the calendar', () => {
  it('has whole weeks from Monday on, and ends today', () => {
    const weeks = calendarWeeks('2026-11-25', 3);
    expect(weeks.map((days) => days.length)).toEqual([7, 7, 3]);
    expect(weeks.flat()[0]).toBe('2026-11-09');
    expect(weeks.flat().at(-1)).toBe('2026-11-25');
  });

  it('has every day once, also where the clock changes', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 40_000 }), (number) => {
        const today = new Date(number * 86_400_000).toISOString().slice(0, 10);
        const days = calendarWeeks(today, 53).flat();
        expect(new Set(days).size).toBe(days.length);
        expect(days.length).toBeGreaterThan(52 * 7);
        expect(days.at(-1)).toBe(today);
        expect(new Date(`${days[0]}T00:00:00Z`).getUTCDay()).toBe(1);
      }),
    );
  });

  it('names each month where there is room for its name', () => {
    const months = monthStarts(calendarWeeks('2026-11-25', 53));
    expect(months.length).toBeGreaterThanOrEqual(11);
    expect(new Set(months.map(({ month }) => month)).size).toBe(months.length);
    expect(months.every(({ week }) => week < 51)).toBe(true);
  });
});

describe('the change to the time before', () => {
  it('is relative, and unknown without a figure before', () => {
    expect(relativeChange(112, 100)).toEqual({ sign: '▲', by: 0.12 });
    expect(relativeChange(50, 100)).toEqual({ sign: '▼', by: 0.5 });
    expect(relativeChange(100, 100)).toEqual({ sign: '=', by: 0 });
    expect(relativeChange(5, 0)).toBeUndefined();
    expect(relativeChange(null, 3)).toBeUndefined();
    expect(relativeChange(3, null)).toBeUndefined();
  });

  it('of parts is their difference', () => {
    expect(differenceOfParts(0.75, 0.5)).toEqual({ sign: '▲', by: 0.25 });
    expect(differenceOfParts(0.5, null)).toBeUndefined();
  });
});
