import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isoTime } from '../../src/events/event-json.ts';
import { numbers, orNull, TsvRows, texts, time, tsvText } from '../../src/projections/analytics/tsv.ts';

/** As ClickHouse reads a field. */
function unescaped(field: string): string {
  const meanings: Record<string, string> = { n: '\n', t: '\t', r: '\r', '0': '\0' };
  return field.replace(/\\(.)/gs, (_, character: string) => meanings[character] ?? character);
}

describe('TabSeparated', () => {
  test('any text survives, and holds neither tab nor end of line', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (value) => {
        expect(tsvText(value)).not.toMatch(/[\t\n\r\0]/);
        expect(unescaped(tsvText(value))).toBe(value);
      }),
    );
  });

  test('any bytes survive', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        const rows = new TsvRows();
        rows.write('1\t');
        rows.writeBytes(bytes);
        rows.end(1);
        const row = rows.all().toString('latin1');
        expect(row.match(/\n/g)).toHaveLength(1);
        expect(Buffer.from(unescaped(row.slice(2, -1)), 'latin1')).toEqual(Buffer.from(bytes));
      }),
    );
  });

  test.each([
    [tsvText(undefined), ''],
    [texts([]), '[]'],
    [texts(["it's", 'a\\b\t']), "['it\\'s','a\\\\b\\t']"],
    [numbers([1, 2.5]), '[1,2.5]'],
    [orNull(null), '\\N'],
    [orNull(undefined), '\\N'],
    [orNull(0), '0'],
    [time(0), '0.000000'],
    [time(1_700_000_000_123.456), '1700000000.123456'],
  ])('%j', (field, expected) => {
    expect(field).toBe(expected);
  });

  test('a time has microseconds, the same as elsewhere', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 4e12, noNaN: true }), (at) => {
        const [seconds = '', micros = ''] = time(at).split('.');
        expect(`${new Date(Number(seconds) * 1000).toISOString().slice(0, 20)}${micros}Z`).toBe(isoTime(at));
      }),
    );
  });
});
