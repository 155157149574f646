import { describe, expect, it } from 'vitest';
import { queriesIn, withQuery } from '../../../dashboard/src/pages/sql/query-list.ts';
import {
  codeOf,
  errorOffset,
  fragmentOf,
  placeOf,
  queryIn,
  withLimit,
} from '../../../dashboard/src/pages/sql/query-text.ts';

describe('the code of a query', () => {
  it('has spaces in the place of strings, names in quotes and comments', () => {
    const text = "a 'it''s -- x' -- y\nb /* z\n*/ `c.d` \"e\" 'open";
    expect(codeOf(text)).toHaveLength(text.length);
    expect(codeOf(text).split(/\s+/)).toEqual(['a', 'b', '']);
  });
});

describe('the limit of rows', () => {
  it('is a setting after the query', () => {
    expect(withLimit('SELECT 1', 5)).toBe('SELECT 1\nSETTINGS limit = 5');
    expect(withLimit('WITH 1 AS x SELECT x ; \n', 5)).toBe('WITH 1 AS x SELECT x\nSETTINGS limit = 5');
    expect(withLimit('SELECT 1 -- one', 5)).toBe('SELECT 1\nSETTINGS limit = 5');
    expect(withLimit("SELECT 'format'", 5)).toBe("SELECT 'format'\nSETTINGS limit = 5");
  });

  it('is left out where the query has settings or a format, or is no SELECT', () => {
    for (const query of ['SHOW TABLES', 'SELECT 1 FORMAT CSV', 'SELECT 1 SETTINGS limit = 2', 'DESCRIBE usage', '']) {
      expect(withLimit(query, 5)).toBe(query);
    }
  });
});

describe('the place of an error', () => {
  it('is read from its message', () => {
    const query = 'SELECT a\nFRM usage';
    expect(errorOffset('Syntax error: failed at position 10 (usage) (line 2, col 5): usage.', query)).toBe(13);
    expect(errorOffset('Syntax error: failed at position 10 (FRM): FRM usage', query)).toBe(9);
    expect(errorOffset('Syntax error: failed at position 99 (end of query)', query)).toBe(query.length);
    expect(placeOf(13, query)).toEqual({ line: 2, column: 5 });
  });

  it('is that of an unknown name', () => {
    expect(
      errorOffset(
        'Unknown expression or function identifier `colour` in scope SELECT colour',
        "SELECT 'colour', colour",
      ),
    ).toBe(17);
    expect(errorOffset('Unknown table expression identifier chancery.usages in scope', 'SELECT 1 FROM usages')).toBe(
      14,
    );
    expect(errorOffset('in readonly mode: foo(…) is not among the functions for readers.', 'SELECT foo(1)')).toBe(7);
    expect(errorOffset('Timeout exceeded', 'SELECT 1')).toBeUndefined();
  });
});

describe('the address of a query', () => {
  it('is a fragment, unless the query is long', () => {
    const query = 'SELECT \'#&=%\' AS "ä"\nFROM usage';
    expect(fragmentOf(query)).toMatch(/^#query=[\w%'.!~*()-]+$/);
    expect(queryIn(fragmentOf(query))).toBe(query);
    expect(fragmentOf('x'.repeat(1999))).toHaveLength(1999 + '#query='.length);
    expect(fragmentOf('x'.repeat(2000))).toBe('');
    expect(fragmentOf('  ')).toBe('');
  });

  it('is nothing for other fragments', () => {
    expect(queryIn('#content')).toBeUndefined();
    expect(queryIn('#query=%E0%A4%A')).toBeUndefined();
    expect(queryIn('')).toBeUndefined();
  });
});

describe('the queries of this browser', () => {
  const at = '2026-03-01T00:00:00.000Z';
  it('has each once, the newest first, and at most 50', () => {
    const many = Array.from({ length: 60 }, (_, n) => ({ query: `SELECT ${n}`, at }));
    const list = many.reduce<ReturnType<typeof withQuery>>((queries, ran) => withQuery(queries, ran), []);
    expect(list).toHaveLength(50);
    expect(list[0]?.query).toBe('SELECT 59');
    expect(withQuery(list, { query: 'SELECT 30', at, rows: 1 })[0]).toEqual({ query: 'SELECT 30', at, rows: 1 });
    expect(withQuery(list, { query: 'SELECT 30', at })).toHaveLength(50);
  });

  it('drops stored entries of another form', () => {
    expect(queriesIn('x')).toBeUndefined();
    expect(
      queriesIn([{ query: 'a', at }, { query: 1, at }, null, { query: 'b', at: 'noon' }, { query: 'c', at, rows: 2 }]),
    ).toEqual([
      { query: 'a', at },
      { query: 'c', at, rows: 2 },
    ]);
  });
});
