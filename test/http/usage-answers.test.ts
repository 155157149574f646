import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { costOf, periodOf, throughputOf } from '../../src/http/admin/reports/usage-answers.ts';
import { dayStarts, reportRange } from '../../src/http/dates.ts';

const DAY_MS = 86_400_000;
const day = (at: number) => new Date(at).toISOString().slice(0, 10);
const noon = Date.parse('2026-03-10T12:00:00Z');

describe('the period of a day', () => {
  test.each([
    ['2026-01-01', '2026-W01'],
    ['2025-12-29', '2026-W01'],
    ['2027-01-03', '2026-W53'],
    ['2027-01-04', '2027-W01'],
    ['2024-12-30', '2025-W01'],
    ['2021-01-03', '2020-W53'],
  ])('%s is in the week %s', (date, week) => {
    expect(periodOf(date, 'weekly')).toBe(week);
  });

  test('a week begins on Monday, and the fourth of January is in the first week', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 40_000 }), (number) => {
        const at = number * DAY_MS;
        const isMonday = new Date(at).getUTCDay() === 1;
        expect(periodOf(day(at), 'weekly') !== periodOf(day(at - DAY_MS), 'weekly')).toBe(isMonday);
        const year = day(at).slice(0, 4);
        expect(periodOf(`${year}-01-04`, 'weekly')).toBe(`${year}-W01`);
      }),
    );
  });

  test('is the day, the month or the year otherwise', () => {
    expect(periodOf('2026-03-10', 'daily')).toBe('2026-03-10');
    expect(periodOf('2026-03-10', 'monthly')).toBe('2026-03');
    expect(periodOf('2026-03-10', 'yearly')).toBe('2026');
  });
});

describe('the days of a report', () => {
  test('are the last thirty, or the requested number, including today', () => {
    const { from, until, ...named } = reportRange({}, 'UTC', noon);
    expect(named).toEqual({ startDate: '2026-02-09', endDate: '2026-03-10', timeZone: 'UTC' });
    expect([from, until]).toEqual([Date.parse('2026-02-09'), Date.parse('2026-03-11')]);
    expect(reportRange({ days: 1 }, 'UTC', noon).startDate).toBe('2026-03-10');
    expect(reportRange({ days: 1e9 }, 'UTC', noon).startDate).toBe(day(noon - 3659 * DAY_MS));
  });

  test('are those of the dates when there are any', () => {
    const named = ({ startDate, endDate }: ReturnType<typeof reportRange>) => `${startDate} ${endDate}`;
    expect(named(reportRange({ days: 3, start_date: '2026-01-05' }, 'UTC', noon))).toBe('2026-01-05 2026-03-10');
    expect(named(reportRange({ days: 3, end_date: '2026-01-30' }, 'UTC', noon))).toBe('2026-01-01 2026-01-30');
    const one = { start_date: '2026-01-05', end_date: '2026-01-05' };
    expect(named(reportRange(one, 'UTC', noon))).toBe('2026-01-05 2026-01-05');
  });

  test('begin at midnight of the zone, also when its clocks change', () => {
    const berlin = reportRange({ start_date: '2026-03-28', end_date: '2026-03-30' }, 'Europe/Berlin', noon);
    expect(dayStarts(berlin, Number.MAX_SAFE_INTEGER).map((at) => new Date(at).toISOString())).toEqual([
      '2026-03-27T23:00:00.000Z',
      '2026-03-28T23:00:00.000Z',
      '2026-03-29T22:00:00.000Z',
    ]);
    expect(berlin.until).toBe(Date.parse('2026-03-30T22:00:00Z'));
    expect(dayStarts(berlin, Date.parse('2026-03-28T22:59:59Z'))).toHaveLength(1);
  });
});

describe('figures', () => {
  test('an unknown cost is null, and a free answer costs 0', () => {
    expect(costOf('0', '0')).toBeNull();
    expect(costOf('0', 2)).toBe(0);
    expect(costOf('1500000000', '1')).toBe(1.5);
    expect(costOf(3n, 1n)).toBe(3e-9);
  });

  test('throughput has every bucket, zero where nothing was used, and the last is the current one', () => {
    const row = {
      start: String(noon / 1000 - 120),
      input_tokens: '5',
      output_tokens: '6',
      prompt_cached_tokens: '1',
      locally_cached_tokens: '2',
    };
    const { buckets, bucket_seconds } = throughputOf([row], 'minute', noon + 59_999);
    expect([buckets.length, bucket_seconds]).toEqual([60, 60]);
    expect(buckets.at(-1)).toMatchObject({ start: '2026-03-10T12:00:00.000Z', input_tokens: 0 });
    expect(buckets.at(-3)).toEqual({
      start: '2026-03-10T11:58:00.000Z',
      input_tokens: 5,
      output_tokens: 6,
      prompt_cached_tokens: 1,
      locally_cached_tokens: 2,
    });
  });
});
