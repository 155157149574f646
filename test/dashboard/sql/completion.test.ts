import { describe, expect, it } from 'vitest';
import { completionsAt, type SqlReference } from '../../../dashboard/src/pages/sql/complete.ts';

const column = (name: string, type = 'String') => ({ name, type, about: `about ${name}` });
const reference: SqlReference = {
  tables: [
    {
      name: 'exchanges',
      about: 'requests',
      columns: [column('status', 'UInt16'), column('attempts.status'), column('at')],
    },
    { name: 'usage', about: 'what requests used', columns: [column('user_path'), column('requests', 'Int64')] },
  ],
  functions: ['sum', 'uniq', 'toStartOfHour', 'sumIf', 'stddevPop'],
};

/** The caret is at `|`. */
function at(text: string) {
  const caret = text.indexOf('|');
  return completionsAt(text.replace('|', ''), caret, reference);
}
const names = (text: string) => at(text)?.found.map(({ name }) => name);

describe('completion', () => {
  it('offers tables after FROM and JOIN', () => {
    expect(names('SELECT 1 FROM |')).toEqual(['exchanges', 'usage']);
    expect(names('SELECT 1 FROM usage AS u JOIN ex|')).toEqual(['exchanges']);
    expect(names('SELECT 1 FROM chancery.us|')).toEqual([]);
    expect(names('describe us|')).toEqual(['usage']);
  });

  it('offers columns of the tables in the query first, then words and functions', () => {
    expect(names('SELECT st| FROM exchanges')).toEqual(['status', 'stddevPop']);
    expect(names('SELECT us| FROM usage')).toEqual(['user_path', 'usage', 'USING']);
    expect(names('SELECT us| FROM exchanges')).toEqual(['usage', 'USING']);
    expect(names('SELECT req|')).toEqual(['requests']);
  });

  it('knows the columns of an alias, and writes names with dots in quotes', () => {
    expect(names('SELECT u.| FROM usage AS u')).toEqual(['u.user_path', 'u.requests']);
    expect(names('SELECT u.req| FROM usage u WHERE 1')).toEqual(['u.requests']);
    expect(at('SELECT attempts.s| FROM exchanges')?.found).toMatchObject([
      { name: 'attempts.status', insert: '`attempts.status`' },
    ]);
  });

  it('replaces the begun word, and opens the bracket of a function', () => {
    expect(at('SELECT sum|(requests)')).toMatchObject({ start: 7, end: 10 });
    expect(at('SELECT toS|')?.found[0]).toEqual({
      ...{ kind: 'function', name: 'toStartOfHour', detail: 'function', insert: 'toStartOfHour(' },
    });
  });

  it('finds parts of names from three letters on', () => {
    expect(names('SELECT path| FROM usage')).toEqual(['user_path']);
    expect(names('SELECT pa| FROM usage')).toEqual(['PARTITION']);
  });

  it('offers nothing in a string, a comment or a number', () => {
    expect(at("SELECT 'us|")).toBeUndefined();
    expect(at("SELECT 'it''s us|")).toBeUndefined();
    expect(at('SELECT 1 -- us|')).toBeUndefined();
    expect(at('SELECT /* us| */ 1')).toBeUndefined();
    expect(at('SELECT 12|')).toBeUndefined();
    expect(names("SELECT 'x', us| FROM usage")).toContain('user_path');
  });
});
