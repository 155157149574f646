/** The one parser of days, times and ranges of days: accepted forms and refusals, value by value. */
import { describe, expect, it } from 'vitest';
import { Refusal } from '../../src/commands/refusal.ts';
import { reportParameters } from '../../src/http/admin/reports/report-db.ts';
import { queryOfParameters } from '../../src/http/api/parameters.ts';
import { calendarDay, dayOrTime, reportRange, timeOf } from '../../src/http/dates.ts';

const invalid = 'invalid_value';

/** In ISO 8601, or the code of a refusal (400) that names the parameter. */
function outcome(parse: () => number | undefined): string | undefined {
  try {
    const at = parse();
    return at === undefined ? undefined : new Date(at).toISOString();
  } catch (error) {
    if (!(error instanceof Refusal) || error.status !== 400) throw error;
    expect(error.param).toBe('start');
    expect(error.message).toContain("'start'");
    return String(error.code);
  }
}

describe('a day or a time', () => {
  const march = '2026-03-01T00:00:00.000Z';
  const nine = '2026-03-01T09:00:00.000Z';
  /** The input; the result as a day, as a time, and as either in a query. */
  const table: readonly (readonly [string, string, string | undefined, string])[] = [
    ['2026-03-01', march, undefined, march],
    ['2024-02-29', '2024-02-29T00:00:00.000Z', undefined, '2024-02-29T00:00:00.000Z'],
    ['2026-02-29', invalid, undefined, invalid],
    ['2026-02-30', invalid, undefined, invalid],
    ['2026-13-01', invalid, undefined, invalid],
    ['2026-00-10', invalid, undefined, invalid],
    ['2026-3-1', invalid, undefined, invalid],
    ['20260301', invalid, undefined, invalid],
    ['+002026-03-01', invalid, undefined, invalid],
    ['-2026-03-01', invalid, undefined, invalid],
    ['2026-03-01T09:00:00Z', invalid, nine, nine],
    ['2026-03-01T09:00Z', invalid, nine, nine],
    ['2026-03-01T09:00:00.000000000Z', invalid, nine, nine],
    ['2026-03-01T10:00:00+01:00', invalid, nine, nine],
    ['2026-03-01T10:00:00 01:00', invalid, undefined, nine],
    ['2026-03-01T09:00:00', invalid, undefined, invalid],
    ['2026-03-01T09Z', invalid, undefined, invalid],
    ['2026-03-01T24:00:00Z', invalid, undefined, invalid],
    ['2026-03-01T09:60:00Z', invalid, undefined, invalid],
    ['2026-03-01T09:00:60Z', invalid, undefined, invalid],
    ['2026-03-01T09:00:00+24:00', invalid, undefined, invalid],
    ['2026-03-01T09:00:00+0100', invalid, undefined, invalid],
    ['2026-02-30T09:00:00Z', invalid, undefined, invalid],
    ['2026-03-01t09:00:00z', invalid, undefined, invalid],
    ['2026-03-01 09:00:00Z', invalid, undefined, invalid],
    ['2026-03-01T09:00:00.Z', invalid, undefined, invalid],
    ['2026-03-01T09:00:00ZT', invalid, undefined, invalid],
    ['2026-03-01T09:00:00Z[UTC]', invalid, undefined, invalid],
    ['', invalid, undefined, invalid],
    [' ', invalid, undefined, invalid],
    [' 2026-03-01', invalid, undefined, invalid],
    ['2026-03-01 ', invalid, undefined, invalid],
    ['2026-03-01\n', invalid, undefined, invalid],
    ['2026-03-01\0', invalid, undefined, invalid],
    ['٢٠٢٦-٠٣-٠١', invalid, undefined, invalid],
    ['yesterday', invalid, undefined, invalid],
    ['0', invalid, undefined, invalid],
    ['1e3', invalid, undefined, invalid],
    ['-1', invalid, undefined, invalid],
    ['9'.repeat(400), invalid, undefined, invalid],
  ];

  it.each(table)('%j is %j as a day, %j as a time, %j as either', (text, day, time, either) => {
    expect(outcome(() => calendarDay(text, 'start'))).toBe(day);
    expect(outcome(() => timeOf(text))).toBe(time);
    expect(outcome(() => dayOrTime(text, 'start'))).toBe(either);
  });
});

describe('a range of days', () => {
  const now = Date.parse('2026-03-31T12:00:00Z');

  it.each([
    [{}, '2026-03-02', '2026-03-31'],
    [{ days: 1 }, '2026-03-31', '2026-03-31'],
    [{ days: 1e9 }, '2016-03-24', '2026-03-31'],
    [{ start_date: '2026-03-30' }, '2026-03-30', '2026-03-31'],
    [{ end_date: '2026-03-30' }, '2026-03-01', '2026-03-30'],
    [{ days: 1, start_date: '2026-03-01', end_date: '2026-03-02' }, '2026-03-01', '2026-03-02'],
  ])('%j is from %s to %s', (range, startDate, endDate) => {
    expect(reportRange(range, 'UTC', now)).toMatchObject({ startDate, endDate });
  });

  it.each([
    [{ start_date: '2026-03-02', end_date: '2026-03-01' }],
    [{ start_date: '2026-04-01' }],
    [{ start_date: '1900-01-01' }],
    [{ start_date: '' }],
    [{ start_date: '2026-03-01T00:00:00Z' }],
  ])('%j is refused', (range) => {
    expect(() => reportRange(range, 'UTC', now)).toThrow(expect.objectContaining({ status: 400, param: 'start_date' }));
  });

  it.each(['0', '-3', '+3', '3.5', '1e1', ' 3', '3\0', '٣', 'many', '1'.repeat(10)])(
    'refuses the number of days %j in the query of a report',
    (days) => {
      expect(() => rangeAsked({ days })).toThrow(expect.objectContaining({ status: 400, param: 'days' }));
    },
  );

  it('takes an empty number of days in the query of a report as none: the last thirty', () => {
    expect(rangeAsked({ days: '' })).toBe('2026-03-02 2026-03-31');
  });

  it('uses the last of a repeated parameter', () => {
    expect(rangeAsked({ days: ['many', '2'] })).toBe('2026-03-30 2026-03-31');
    expect(rangeAsked({ start_date: ['x', '2026-03-05'], end_date: ['2026-03-01', '2026-03-06'] })).toBe(
      '2026-03-05 2026-03-06',
    );
  });

  function rangeAsked(query: Readonly<Record<string, string | readonly string[]>>): string {
    const { startDate, endDate } = reportRange(queryOfParameters(reportParameters).parse(query), 'UTC', now);
    return `${startDate} ${endDate}`;
  }
});
