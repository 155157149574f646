import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { csvLine } from '../../src/http/admin/reports/report-csv.ts';
import { printable } from '../../src/projections/printable.ts';

describe('a line of CSV', () => {
  test.each([
    ['=1+1', "'=1+1"],
    ['+1', "'+1"],
    ['-2', "'-2"],
    ['@SUM(A1)', "'@SUM(A1)"],
    ['\t=1', '"\'\t=1"'],
    ['  =1', "'  =1"],
    ['a=1', 'a=1'],
    ['say "hi", you', '"say ""hi"", you"'],
    ['two\nlines', '"two\nlines"'],
    ['', ''],
    ['a\u001b[31mred', 'a\\u001b[31mred'],
    ['\u009b31m\u007f', '\\u009b31m\\u007f'],
    ['abc\u202egpj.exe', 'abc\\u202egpj.exe'],
    ['\u2066=1', '\\u2066=1'],
    ['one\rtwo', 'one\\u000dtwo'],
    ['one\r\ntwo', '"one\r\ntwo"'],
  ])('writes %j as %j', (cell, written) => {
    expect(csvLine([cell])).toBe(`${written}\r\n`);
  });

  test('has numbers and booleans unchanged, and null as an empty cell', () => {
    expect(csvLine([-1.5, true, null, 'x'])).toBe('-1.5,true,,x\r\n');
  });

  test('can be read back, and no cell starts like a formula', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary' }), { minLength: 1, maxLength: 5 }), (cells) => {
        const read = parsed(csvLine(cells));
        const shown = cells.map(printable);
        expect(read.map((cell, place) => (cell === `'${shown[place]}` ? shown[place] : cell))).toEqual(shown);
        for (const cell of read) expect(cell).not.toMatch(/^\s*[=+\-@]/);
      }),
    );
  });
});

/** One line, parsed as RFC 4180 defines it. */
function parsed(line: string): string[] {
  const cells: string[] = [];
  for (const [, quoted, plain] of `,${line.slice(0, -2)}`.matchAll(/,(?:"((?:[^"]|"")*)"|([^",]*))/g)) {
    cells.push(quoted === undefined ? (plain ?? '') : quoted.replaceAll('""', '"'));
  }
  return cells;
}
