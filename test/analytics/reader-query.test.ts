/** Readers' queries in ClickHouse's normal form: refusals by the check alone, without an engine behind it. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { allowedFunctions } from '../../src/http/clickhouse/allowed-functions.ts';
import { firstWord, formatIn, insertIn, trimmed } from '../../src/http/clickhouse/clickhouse-request.ts';
import { NotNormal, tokensOf } from '../../src/http/clickhouse/normal-form.ts';
import { readerQuery } from '../../src/http/clickhouse/reader-query.ts';
import { tables } from '../../src/projections/analytics/tables.ts';
import { views } from '../../src/projections/analytics/writer-fence.ts';

const engineFunctions = new Set([...allowedFunctions, 'file', 'dictget', 'aigenerate', 'joinget', 'hostname']);
const databases = new Set(['chancery']);

function check(form: string, parameters: Readonly<Record<string, string>> = {}) {
  return readerQuery(form, { parameters: new Map(Object.entries(parameters)), databases, engineFunctions });
}

describe('readerQuery', () => {
  test.each([
    'SELECT count() FROM chancery.usage',
    'WITH 1 AS x SELECT x',
    '(SELECT 1) UNION ALL (SELECT 2)',
    'SHOW TABLES FROM chancery',
    'SHOW CREATE TABLE chancery.usage',
    'DESCRIBE TABLE chancery.usage',
    'DESCRIBE TABLE (SELECT 1)',
    'EXISTS TABLE chancery.usage',
    'EXPLAIN indexes = 1, json = 1 SELECT 1',
    'EXPLAIN QUERY TREE SELECT 1',
    "SELECT * FROM t WHERE body LIKE '%a file about (urls)%'",
    "SELECT format('{} {}', a, b), url FROM t",
    'SELECT countIf(a), sumMapState(b), quantilesExactOrNullIf(0.5, 0.9)(c, d), COUNTDistinct(e) FROM t',
    'SELECT x -> (x + 1), `a b`.c, t.`values`, INTERVAL FROM t AS `from`',
    'SELECT name FROM system.tables AS t INNER JOIN system.columns AS c ON c.table = t.name',
    'SELECT 1 FROM INFORMATION_SCHEMA.TABLES',
    'SELECT a FROM t ORDER BY format ASC, settings DESC',
    'SELECT a FROM t ORDER BY a ASC WITH FILL FROM 1 TO 2, b.c ASC',
    'SELECT a IS DISTINCT FROM b.x FROM t',
    'SELECT * FROM t ARRAY JOIN t.a AS b, t.c AS d',
  ])('answers %j', (form) => {
    expect(check(form).text).toBe(form);
  });

  test.each([
    ["SELECT file('/etc/passwd')", /file is not among/],
    ["SELECT FILE('/etc/passwd')", /FILE is not among/],
    ["SELECT `file`('/etc/passwd')", /file is not among/],
    ["SELECT arrayMap(file, ['/etc/passwd'])", /file is not among/],
    ['SELECT * APPLY file FROM t', /file is not among/],
    ["WITH file AS f SELECT arrayMap(f, ['/etc/passwd'])", /file is not among/],
    ['SELECT x -> file(x)', /file is not among/],
    ['SELECT t.file FROM t', /file is not among/],
    ["SELECT dictGet('a', 'b', 1)", /dictGet is not among/],
    ["SELECT fileIf('/etc/passwd', 1)", /fileIf\(…\) is not among/],
    ['SELECT nonsense(1)', /nonsense\(…\) is not among/],
    ["SELECT * FROM url('http://127.0.0.1')", /url\(…\) is not among/],
    ["SELECT * FROM `url`('http://127.0.0.1')", /url\(…\) is not among/],
    ["DESCRIBE TABLE s3('http://127.0.0.1')", /s3\(…\) is not among/],
    ["SELECT * FROM merge('system', '.*')", /merge\(…\) is not among/],
    ['SELECT * FROM loop(chancery.usage)', /loop\(…\) is not among/],
    ["SELECT * FROM viewExplain('EXPLAIN', '', (SELECT 1))", /viewExplain\(…\) is not among/],
    ['SELECT * FROM system.processes', /system\.processes is not/],
    ['SELECT * FROM `system`.`processes`', /system\.processes is not/],
    ['SELECT * FROM `system.processes`', /system\.processes is not/],
    ['SELECT system FROM t', /system is not/],
    ['SHOW TABLES FROM system', /system is not/],
    ['SELECT a FROM t, system.query_log', /system\.query_log is not/],
    ['SELECT a IN (system.processes)', /system\.processes is not/],
    ['SELECT * FROM other.t', /database other is not/],
    ['SELECT * FROM chancery.a, other.t', /database other is not/],
    ['SELECT * FROM chancery.a INNER JOIN b USING (i), other.t', /database other is not/],
    ['SELECT * FROM chancery.a AS where, other.t', /database other is not/],
    ['SELECT * FROM chancery.a AS as INNER JOIN other.t ON 1', /database other is not/],
    ['DESCRIBE TABLE default.`/etc/passwd`', /database default is not/],
    ['EXISTS TABLE default.`/etc/passwd`', /database default is not/],
    ['SHOW CREATE TABLE other.t', /database other is not/],
    ["SELECT 1 INTO OUTFILE '/tmp/x'", /OUTFILE is not/],
    ['INSERT INTO t SELECT 1', /INSERT is not/],
    ['SELECT 1 PARALLEL WITH DROP TABLE t', /PARALLEL WITH is not/],
    ['KILL QUERY WHERE 1', /KILL QUERY WHERE is not/],
    ['SYSTEM STOP MERGES', /SYSTEM STOP MERGES is not/],
    ['SET readonly = 0', /SET readonly is not/],
    ['USE system', /USE system is not/],
    ['SHOW PROCESSLIST', /SHOW PROCESSLIST is not/],
    ['SHOW GRANTS', /SHOW GRANTS is not/],
    ['SHOW CREATE USER x', /SHOW CREATE USER is not/],
    ['EXPLAIN AST DROP TABLE t', /EXPLAIN AST DROP is not/],
    ['EXPLAIN indexes = 1 INSERT INTO t SELECT 1', /INSERT is not/],
    ["EXPLAIN TABLE OVERRIDE mysql('x')", /EXPLAIN TABLE OVERRIDE is not/],
    ['EXECUTE AS x SELECT 1', /EXECUTE AS x is not/],
    ['', /is not for readers/],
    ['SELECT 1 FORMAT Template', /format Template is not/],
    ['SELECT 1 AS as FORMAT Protobuf', /format Protobuf is not/],
    ['SELECT 1 FORMAT AvroConfluent SETTINGS limit = 1', /format AvroConfluent is not/],
    ['SELECT * FROM (SELECT 1 SETTINGS limit = 1)', /SETTINGS is allowed only at the end/],
    ['SELECT 1 SETTINGS limit = 1 UNION ALL SELECT 2', /SETTINGS is allowed only at the end/],
    ["SELECT 1 SETTINGS session_timezone = 'a\\'b'", /not a plain number or text/],
    ['SELECT 1 SETTINGS limit = {p:UInt8}', /braces|not a plain number/],
    ['SELECT 1 -- 2', /not understood/],
    ['SELECT 1 /* 2 */', /not understood/],
    ['SELECT 1; SELECT 2', /not understood/],
    ["SELECT 'a", /not understood/],
    ['SELECT `f\\x69le`(1)', /not understood/],
    ['SELECT \xa0 1', /not understood/],
    ['SELECT 1file', /not understood/],
  ])('refuses %j', (form, why) => {
    expect(() => check(form)).toThrow(why);
  });

  test.each([
    [{ f: 'file' }, 'SELECT arrayMap({f:Identifier}, [1])', /file is not among/],
    [{ d: 'system', t: 'processes' }, 'SELECT * FROM {d:Identifier}.{t:Identifier}', /system\.processes is not/],
    [{ t: 'system.processes' }, 'SELECT * FROM {t:Identifier}', /system\.processes is not/],
    [{ d: 'other' }, 'SELECT * FROM {d:Identifier}.t', /database other is not/],
    [{ t: '`system`.processes' }, 'SELECT * FROM {t:Identifier}', /not a plain name/],
    [{ t: '' }, 'SELECT * FROM {t:Identifier}', /not a plain name/],
    [{}, 'SELECT * FROM {t:Identifier}', /has no value/],
    [{}, 'SELECT {t', /braces|does not end/],
  ])('with %j refuses %j', (parameters, form, why) => {
    expect(() => check(form, parameters)).toThrow(why);
  });

  test('takes parameters of other types as values', () => {
    expect(
      check("SELECT {a:Array(String)}, {b:DateTime64(3, 'UTC')} FROM t", { a: "['file']" }).format,
    ).toBeUndefined();
  });

  test('returns the format, the settings, and whether rows are selected', () => {
    const form = "SELECT 1 FORMAT json SETTINGS max_threads = 2, session_timezone = 'UTC', join_use_nulls = true";
    expect(check(form)).toEqual({
      text: form,
      format: 'JSON',
      settings: new Map([
        ['max_threads', '2'],
        ['session_timezone', 'UTC'],
        ['join_use_nulls', '1'],
      ]),
    });
    expect(check('SHOW TABLES')).toMatchObject({ format: undefined });
  });

  test('writes bytes that are no ASCII as escapes, so that the checked query is the one that runs', () => {
    expect(check("SELECT 'é' AS `ü`".replaceAll('é', '\xc3\xa9').replaceAll('ü', '\xc3\xbc')).text).toBe(
      "SELECT '\\xc3\\xa9' AS `\\xc3\\xbc`",
    );
  });

  test('no column of the tables has the name of a function that is not allowed', () => {
    const names = Object.values(tables).flatMap(({ name, columns }) => [name, ...columns.map((column) => column.name)]);
    for (const name of [...names, ...views.map((view) => view.name)]) {
      expect(() => check(`SELECT \`${name}\` FROM t`)).not.toThrow();
    }
  });

  test('takes time in proportion to the length', () => {
    const long = 512 * 1024 - 16;
    for (const unit of ['a ', 'f(', '(', ',', "'' ", '`a` ', '1 ', 'a.', 'if', 'SETTINGS a = 1, ', 'FORMAT x ']) {
      const form = `SELECT ${unit.repeat(long / unit.length)}`;
      const before = process.cpuUsage();
      try {
        check(form);
      } catch {
        // Refused or not: only the time is measured.
      }
      const { user, system } = process.cpuUsage(before);
      expect((user + system) / 1000, `${unit}: ms of processor`).toBeLessThan(2000);
    }
  });
});

describe('tokensOf', () => {
  test('joins its tokens to the same text', () => {
    const piece = fc.oneof(
      fc.stringMatching(/^[a-zA-Z_]\w{0,8}$/),
      fc.stringMatching(/^'([^'\\]|\\['\\n]|''){0,8}'$/),
      fc.stringMatching(/^`([^`\\]|\\[`\\]|``){0,8}`$/),
      fc.stringMatching(/^\d{1,4}(\.\d{1,3})?(e[+-]?\d)?$/),
      fc.constantFrom(...'()[]{},.:+-*/%=!<>^'),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        const tokens = tokensOf(pieces.join(' '));
        expect(
          tokens.map((token) => (token.kind === 'name' && token.quoted ? `\`${token.text}\`` : token.text)),
        ).toEqual(pieces);
      }),
    );
  });

  test('throws only NotNormal, for any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 50 }), (text) => {
        try {
          tokensOf(text);
        } catch (error) {
          expect(error).toBeInstanceOf(NotNormal);
        }
      }),
    );
  });
});

describe('the text of a query', () => {
  test.each([
    ['  select 1', 'select'],
    ['WITH x AS (SELECT 1) SELECT * FROM x', 'with'],
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
  ])('the insert in %j is found', (sql, insert) => {
    expect(insertIn(sql)).toEqual(insert);
  });

  test('semicolons and blanks at the end are ignored', () => {
    expect(trimmed('SELECT 1 ; \n;')).toBe('SELECT 1');
    expect(trimmed(`SELECT 1${' '.repeat(1_000_000)}x`)).toMatch(/x$/);
  });
});
