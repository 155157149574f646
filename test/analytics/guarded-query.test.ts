import { describe, expect, test } from 'vitest';
import { firstWord, reasonToRefuse } from '../../src/http/clickhouse/guarded-query.ts';
import { formatIn, insertIn, trimmed } from '../../src/http/clickhouse/query-text.ts';

const outward = new Set(['file', 'url', 's3', 'remote', 'eval', 'aigenerate']);
const refused = (sql: string) => reasonToRefuse(sql, outward);

describe('what strangers may ask', () => {
  test.each([
    'SELECT count() FROM chancery.usage',
    'with 1 as x select x',
    '  -- a comment\n/* and another */ (SELECT 1)',
    'SHOW TABLES FROM chancery',
    'DESCRIBE TABLE chancery.usage',
    "SELECT * FROM t WHERE body LIKE '%a file about (urls)%'",
    "SELECT format('{} {}', a, b), url FROM t",
    "SELECT splitByChar(';', x) FROM t",
    'SELECT "user_path" AS "path", (1 + 1) FROM t',
    'SELECT file, kill FROM t WHERE url IN (1)',
  ])('%j is answered', (sql) => {
    expect(refused(sql)).toBeUndefined();
  });

  test.each([
    ["SELECT file('/etc/passwd')", /file\(…\) reaches outside/],
    ["select FILE /* why not */ ('/etc/passwd')", /FILE\(…\) reaches outside/],
    ["SELECT file -- hidden\n ('/etc/passwd')", /reaches outside/],
    ["SELECT file # hidden\n ('/etc/passwd')", /reaches outside/],
    ["SELECT file // hidden\n ('/etc/passwd')", /reaches outside/],
    ["SELECT file\u00a0\u200b\u3000('/etc/passwd')", /reaches outside/],
    ["SELECT `file`('/etc/passwd')", /reaches outside/],
    ['SELECT "f\\x69le"(\'/etc/passwd\')', /quoted name before a parenthesis/],
    ['SELECT `f\\x69le` /* x */ (1)', /quoted name before a parenthesis/],
    ["SELECT “f\\x69le”('/etc/passwd')", /quoted name before a parenthesis/],
    ["SELECT '/*', file('/etc/passwd'), '*/'", /reaches outside/],
    ["SELECT $$ ' $$, file('/etc/passwd'), $$ ' $$", /reaches outside/],
    ["SELECT ‘'’, file('/etc/passwd'), ‘'’", /reaches outside/],
    ["DESCRIBE TABLE file('/etc/passwd')", /reaches outside/],
    ["SELECT * FROM eval('SELECT 1')", /reaches outside/],
    ["SELECT aiGenerate('x')", /aiGenerate\(…\) reaches outside/],
    ["SELECT 1 INTO OUTFILE '/tmp/x'", /OUTFILE is not for readers/],
    ['KILL QUERY WHERE 1', /KILL is not for readers/],
    ['SELECT 1; KILL QUERY WHERE 1', /KILL is not for readers/],
    ['SELECT 1; kill /* x */ mutation where 1', /KILL is not for readers/],
    ['SET readonly = 0', /SET is not for readers/],
    ['DROP TABLE t', /DROP is not for readers/],
    ['INSERT INTO t VALUES (1)', /INSERT is not for readers/],
    ['SYSTEM SHUTDOWN', /SYSTEM is not for readers/],
    ['', /an empty query is not for readers/],
    ['-- nothing', /an empty query/],
  ])('%j is refused', (sql, why) => {
    expect(refused(sql)).toMatch(why);
  });

  test('a long run of comments and blanks costs no time', () => {
    const began = performance.now();
    expect(refused(`SELECT file ${'/**/ '.repeat(50_000)}x`)).toBeUndefined();
    expect(performance.now() - began).toBeLessThan(2000);
  });
});

describe('what is read from a query', () => {
  test.each([
    ['  select 1', 'select'],
    ['((SELECT 1))', 'select'],
    ['/* a */ -- b\nWITH x AS (SELECT 1) SELECT * FROM x', 'with'],
    ['', ''],
  ])('the first word of %j is %j', (sql, word) => {
    expect(firstWord(sql)).toBe(word);
  });

  test.each([
    ['SELECT 1 FORMAT JSON', 'JSON'],
    ['select 1\nformat CSVWithNames ;', 'CSVWithNames'],
    ['SELECT 1 FORMAT TSV SETTINGS a = 1', 'TSV'],
    ["SELECT format('{}', 1)", undefined],
    ['SELECT 1', undefined],
  ])('the format of %j is %j', (sql, format) => {
    expect(formatIn(sql)).toBe(format);
  });

  test.each([
    ['INSERT INTO t FORMAT JSONEachRow', { table: 't', columns: undefined, format: 'JSONEachRow' }],
    ['insert into a.b (x, `y z`)\nFORMAT TSV;', { table: 'a.b', columns: ['x', 'y z'], format: 'TSV' }],
    ['INSERT INTO `a`.`b` (x) FORMAT CSV', { table: 'a.b', columns: ['x'], format: 'CSV' }],
    ['INSERT INTO t SELECT 1', undefined],
    ['INSERT INTO t VALUES (1)', undefined],
    ['SELECT 1 FORMAT JSON', undefined],
  ])('%j is told apart', (sql, insert) => {
    expect(insertIn(sql)).toEqual(insert);
  });

  test('semicolons and blanks at the end are nothing', () => {
    expect(trimmed('SELECT 1 ; \n;')).toBe('SELECT 1');
  });
});
