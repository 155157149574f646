import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  budgetPeriod,
  budgetPeriodLabel,
  rateLimitPeriod,
  rateLimitPeriodLabel,
} from '../../src/commands/limits/period.ts';
import {
  DAILY,
  defaultAnchors,
  HOURLY,
  MONTHLY,
  type PeriodAnchors,
  periodAt,
  WEEKLY,
} from '../../src/projections/budgets.ts';

const utc = (text: string) => Date.parse(`${text}Z`);
const events = (seconds: number, at: string, anchors: Partial<PeriodAnchors> = {}) => {
  const { start, end } = periodAt(seconds, { ...defaultAnchors, ...anchors }, utc(at));
  return [start, end].map((ms) => new Date(ms).toISOString().slice(0, 16));
};

describe('the period of a budget', () => {
  test.each([
    ['the hour', HOURLY, '2026-03-01T10:59:59', {}, '2026-03-01T10:00', '2026-03-01T11:00'],
    ['the day', DAILY, '2026-03-01T10:00', {}, '2026-03-01T00:00', '2026-03-02T00:00'],
    ['the first moment of a day', DAILY, '2026-03-01T00:00', {}, '2026-03-01T00:00', '2026-03-02T00:00'],
    [
      'a day that begins at half past nine, before it',
      DAILY,
      '2026-03-01T09:29',
      { dailyResetHour: 9, dailyResetMinute: 30 },
      '2026-02-28T09:30',
      '2026-03-01T09:30',
    ],
    ['the week, from Monday', WEEKLY, '2026-03-01T10:00', {}, '2026-02-23T00:00', '2026-03-02T00:00'],
    [
      'a week from Sunday at six',
      WEEKLY,
      '2026-03-01T05:59',
      { weeklyResetWeekday: 0, weeklyResetHour: 6 },
      '2026-02-22T06:00',
      '2026-03-01T06:00',
    ],
    ['the month', MONTHLY, '2026-02-10T10:00', {}, '2026-02-01T00:00', '2026-03-01T00:00'],
    [
      'a month from the 31st, in a short month',
      MONTHLY,
      '2026-02-28T10:00',
      { monthlyResetDay: 31 },
      '2026-02-28T00:00',
      '2026-03-31T00:00',
    ],
    [
      'a month from the 31st, before the end of a short one',
      MONTHLY,
      '2028-02-28T10:00',
      { monthlyResetDay: 31 },
      '2028-01-31T00:00',
      '2028-02-29T00:00',
    ],
    [
      'a month over the end of the year',
      MONTHLY,
      '2026-12-31T10:00',
      { monthlyResetDay: 15 },
      '2026-12-15T00:00',
      '2027-01-15T00:00',
    ],
    ['ninety seconds, from the epoch', 90, '1970-01-01T00:02', {}, '1970-01-01T00:01', '1970-01-01T00:03'],
  ])('%s', (_name, seconds, at, anchors, start, end) => {
    expect(events(seconds, at, anchors)).toEqual([start, end]);
  });

  const anchors = fc.record({
    dailyResetHour: fc.integer({ min: 0, max: 23 }),
    dailyResetMinute: fc.integer({ min: 0, max: 59 }),
    weeklyResetWeekday: fc.integer({ min: 0, max: 6 }),
    weeklyResetHour: fc.integer({ min: 0, max: 23 }),
    weeklyResetMinute: fc.integer({ min: 0, max: 59 }),
    monthlyResetDay: fc.integer({ min: 1, max: 31 }),
    monthlyResetHour: fc.integer({ min: 0, max: 23 }),
    monthlyResetMinute: fc.integer({ min: 0, max: 59 }),
  });
  const seconds = fc.oneof(fc.constantFrom(HOURLY, DAILY, WEEKLY, MONTHLY), fc.integer({ min: 1, max: 40_000_000 }));
  const moment = fc.integer({ min: utc('1971-01-01T00:00'), max: utc('2100-01-01T00:00') });

  test('contains the given moment, and follows on the one before without a gap', () => {
    fc.assert(
      fc.property(seconds, anchors, moment, (length, at, now) => {
        const period = periodAt(length, at, now);
        expect(period.start).toBeLessThanOrEqual(now);
        expect(period.end).toBeGreaterThan(now);
        expect(periodAt(length, at, period.start)).toEqual(period);
        expect(periodAt(length, at, period.end).start).toBe(period.end);
        expect(periodAt(length, at, period.start - 1).end).toBe(period.start);
      }),
    );
  });
});

describe('the names of periods', () => {
  test.each([
    ['hourly', 3600],
    ['Hour', 3600],
    ['hours', 3600],
    ['DAILY', 86_400],
    ['day', 86_400],
    ['days', 86_400],
    ['week', 604_800],
    ['weeks', 604_800],
    ['weekly', 604_800],
    ['month', 2_592_000],
    ['months', 2_592_000],
    ['monthly', 2_592_000],
    ['90', 90],
    ['31622400', 31_622_400],
  ])('a budget accepts %s', (written, seconds) => {
    expect(budgetPeriod(written)).toBe(seconds);
  });

  test.each(['', '0', '-1', '1.5', 'yearly', 'minute', '31622401', '1e3', 'NaN'])('and not %j', (written) => {
    expect(budgetPeriod(written)).toBeUndefined();
  });

  test.each([
    ['minute', 60],
    ['hour', 3600],
    ['day', 86_400],
    ['concurrent', 0],
    ['0', 0],
    ['90', 90],
  ])('a rate limit accepts %s', (written, seconds) => {
    expect(rateLimitPeriod(written)).toBe(seconds);
  });

  test('without a name has its seconds', () => {
    expect([3600, 86_400, 604_800, 2_592_000, 90].map(budgetPeriodLabel)).toEqual([
      'hourly',
      'daily',
      'weekly',
      'monthly',
      '90s',
    ]);
    expect([0, 60, 3600, 86_400, 90].map(rateLimitPeriodLabel)).toEqual(['concurrent', 'minute', 'hour', 'day', '90s']);
  });
});
