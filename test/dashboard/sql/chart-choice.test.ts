import { describe, expect, it } from 'vitest';
import { chartData, ticksOf, usualChart, validChoice } from '../../../dashboard/src/pages/sql/chart-choice.ts';
import { isNumeric, isTime, numberIn, plainType, tableOf } from '../../../dashboard/src/pages/sql/sql-result.ts';

const table = (columns: Record<string, string>, rows: unknown[][]) => ({
  columns: Object.entries(columns).map(([name, type]) => ({ name, type })),
  rows,
  seconds: 0.1,
});
const byDay = table({ day: 'Date', model: 'LowCardinality(String)', n: 'UInt64' }, [
  ['2026-03-02', 'a', '2'],
  ['2026-03-01', 'a', '1'],
  ['2026-03-01', 'b', '5'],
  ['2026-03-01', 'b', '1'],
]);

describe('the types of columns', () => {
  it('are read without their wrappers', () => {
    expect(plainType('LowCardinality(Nullable(String))')).toBe('String');
    expect(isNumeric({ name: '', type: 'Nullable(Float64)' })).toBe(true);
    expect(isNumeric({ name: '', type: 'Decimal(18, 4)' })).toBe(true);
    expect(isNumeric({ name: '', type: 'Array(UInt8)' })).toBe(false);
    expect(isTime({ name: '', type: "DateTime64(6, 'UTC')" })).toBe(true);
  });

  it('give numbers also as text, and nothing of other values', () => {
    expect(['18446744073709551615', '1.5', 2, '', 'x', null, 'nan', {}].map(numberIn)).toEqual([
      ...[2 ** 64, 1.5, 2, null, null, null, null, null],
    ]);
  });
});

describe('the answer', () => {
  it('is read with rows as lists or as objects', () => {
    const meta = [{ name: 'a', type: 'UInt8' }];
    const expected = { columns: meta, rows: [[1]], seconds: 0.5 };
    const answer = (data: unknown) => JSON.stringify({ meta, data, statistics: { elapsed: 0.5 } });
    expect(tableOf('application/json', answer([[1]]))).toEqual(expected);
    expect(tableOf('application/json', answer([{ a: 1 }]))).toEqual(expected);
    expect(tableOf('text/csv', '1\n')).toBeUndefined();
    expect(tableOf('application/json', '[1]')).toBeUndefined();
    expect(tableOf('application/json', '{')).toBeUndefined();
  });
});

describe('the usual chart', () => {
  it('has a number over time, by a text with few values', () => {
    expect(usualChart(byDay)).toEqual({ kind: 'lines', x: 'day', y: 'n', series: 'model' });
  });

  it('has bars over texts, and one series when another text has many values', () => {
    const many = table(
      { path: 'String', id: 'String', n: 'UInt8' },
      Array.from({ length: 9 }, (_, n) => ['/a', `id ${n}`, n]),
    );
    expect(usualChart(many)).toEqual({ kind: 'bars', x: 'path', y: 'n', series: '' });
  });

  it('exists only with a number beside x', () => {
    expect(usualChart(table({ n: 'UInt8' }, [[1]]))).toBeUndefined();
    expect(usualChart(table({ a: 'String', b: 'String' }, [['x', 'y']]))).toBeUndefined();
    expect(usualChart(table({ a: 'UInt8', b: 'UInt8' }, [[1, 2]]))).toMatchObject({ x: 'a', y: 'b' });
  });

  it('takes the place of a choice whose columns are gone', () => {
    const choice = { kind: 'bars', x: 'day', y: 'n', series: '' } as const;
    expect(validChoice(byDay, choice)).toBe(choice);
    expect(validChoice(byDay, { ...choice, y: 'model' })).toEqual(usualChart(byDay));
    expect(validChoice(byDay, { ...choice, x: 'hour' })).toEqual(usualChart(byDay));
  });
});

describe('the values of a chart', () => {
  it('are in the order of time, summed, with gaps, the largest series first', () => {
    expect(chartData(byDay, { kind: 'lines', x: 'day', y: 'n', series: 'model' })).toEqual({
      places: ['2026-03-01', '2026-03-02'],
      series: [
        { name: 'b', values: [6, null] },
        { name: 'a', values: [1, 2] },
      ],
      notes: [],
    });
    expect(chartData(byDay, { kind: 'bars', x: 'model', y: 'n', series: '' })).toMatchObject({
      places: ['a', 'b'],
      series: [{ name: 'n', values: [3, 6] }],
    });
  });

  it('say what is not drawn', () => {
    const wide = table(
      { x: 'UInt16', s: 'String', n: 'Int8' },
      Array.from({ length: 500 }, (_, n) => [n, `s${n % 10}`, -1]),
    );
    const { places, series, notes } = chartData(wide, { kind: 'bars', x: 'x', y: 'n', series: 's' });
    expect([places.length, series.length]).toEqual([400, 8]);
    expect(notes).toEqual([
      'The 8 largest of 10 series are drawn.',
      'The first 400 of 500 places are drawn.',
      'Values below 0 are drawn as 0.',
    ]);
  });

  it('have short texts below the axis', () => {
    expect(ticksOf(['2026-03-01', '2026-03-02'])).toEqual(['03-01', '03-02']);
    expect(ticksOf(['2026-03-01 00:00:00', '2026-03-02 00:00:00'])).toEqual(['03-01', '03-02']);
    expect(ticksOf(['2026-03-01 10:00:00', '2026-03-01 11:00:00'])).toEqual(['10:00', '11:00']);
    expect(ticksOf(['2026-03-01 10:00:00', '2026-03-02 11:00:00'])).toEqual(['03-01 10:00', '03-02 11:00']);
    expect(ticksOf(['/team/a-long-path', 'x'])).toEqual(['/team/a-lo…', 'x']);
  });
});
