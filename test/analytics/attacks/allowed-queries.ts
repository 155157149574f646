/**
 * Queries of real readers: people at a terminal, BI tools, dashboards and client libraries. `holds`: part of the
 * answer.
 */
export interface AllowedQuery {
  readonly query: string;
  readonly holds?: string;
  /** In the URL of the ClickHouse port. Without it, the query is sent to both interfaces. */
  readonly url?: Readonly<Record<string, string>>;
}

const plain = (...queries: readonly string[]): AllowedQuery[] => queries.map((query) => ({ query }));

export const allowedQueries: readonly AllowedQuery[] = [
  // Queries with which tools connect and find tables.
  { query: 'SELECT 1', holds: '1' },
  { query: 'select version()', holds: '.' },
  { query: 'SELECT timezone()' },
  { query: 'SELECT currentDatabase()' },
  { query: 'SELECT database(), currentUser(), user()' },
  { query: 'SHOW DATABASES', holds: 'chancery' },
  { query: 'SHOW TABLES', holds: 'items', url: { database: 'chancery' } },
  { query: 'SHOW TABLES FROM chancery', holds: 'items' },
  { query: "SHOW TABLES FROM chancery LIKE 'it%'", holds: 'items' },
  { query: "SHOW TABLES IN chancery NOT LIKE 'x%' LIMIT 5", holds: 'items' },
  { query: 'SHOW FULL TABLES FROM chancery', holds: 'items' },
  { query: 'SHOW COLUMNS FROM chancery.items', holds: 'name' },
  { query: 'SHOW FULL COLUMNS FROM items FROM chancery', holds: 'name' },
  { query: 'SHOW INDEXES FROM chancery.items' },
  { query: 'SHOW CREATE TABLE chancery.items', holds: 'MergeTree' },
  { query: 'SHOW CREATE DATABASE chancery', holds: 'chancery' },
  { query: "SHOW FUNCTIONS LIKE 'toStartOf%'", holds: 'toStartOfDay' },
  { query: "SHOW SETTINGS LIKE 'max_threads'", holds: 'max_threads' },
  { query: "SHOW CHANGED SETTINGS LIKE 'max_%'", holds: 'max_execution_time' },
  { query: 'DESCRIBE TABLE chancery.items', holds: 'UInt32' },
  { query: 'DESC chancery.items', holds: 'UInt32' },
  { query: 'DESCRIBE (SELECT id + 1 AS next FROM chancery.items)', holds: 'next' },
  { query: 'EXISTS TABLE chancery.items', holds: '1' },
  { query: 'EXISTS chancery.nothing', holds: '0' },
  { query: 'EXISTS DATABASE chancery', holds: '1' },
  {
    query: "SELECT name, type, position FROM system.columns WHERE database = 'chancery' AND table = 'items'",
    holds: 'UInt32',
  },
  {
    query: "SELECT database, name, engine, total_rows, comment FROM system.tables WHERE database = 'chancery'",
    holds: 'MergeTree',
  },
  {
    query: "SELECT name FROM system.databases WHERE name NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema')",
    holds: 'chancery',
  },
  { query: "SELECT name, is_aggregate FROM system.functions WHERE name = 'sum'", holds: 'sum' },
  { query: 'SELECT name, alias_to FROM system.data_type_families ORDER BY name LIMIT 5' },
  { query: "SELECT name, value FROM system.settings WHERE name = 'readonly'", holds: '1' },
  { query: "SELECT name FROM system.formats WHERE is_output AND name = 'JSON'", holds: 'JSON' },
  { query: 'SELECT time_zone FROM system.time_zones LIMIT 3' },
  { query: 'SELECT * FROM system.one', holds: '0' },
  { query: 'SELECT number FROM system.numbers LIMIT 3', holds: '2' },
  { query: "SELECT table_name FROM information_schema.tables WHERE table_schema = 'chancery'", holds: 'items' },
  {
    query: "SELECT column_name, data_type FROM INFORMATION_SCHEMA.COLUMNS WHERE table_name = 'items'",
    holds: 'UInt32',
  },
  { query: 'SELECT schema_name FROM information_schema.schemata', holds: 'chancery' },
  { query: "SELECT * FROM information_schema.views WHERE table_schema = 'chancery'" },
  { query: 'SELECT * FROM information_schema.key_column_usage LIMIT 1' },
  // EXPLAIN.
  ...plain(
    'EXPLAIN SELECT count() FROM chancery.items',
    'EXPLAIN PLAN SELECT count() FROM chancery.items',
    'EXPLAIN PLAN indexes = 1, actions = 1 SELECT * FROM chancery.items WHERE id = 3',
    'EXPLAIN AST SELECT 1',
    'EXPLAIN SYNTAX SELECT * FROM chancery.items',
    'EXPLAIN QUERY TREE SELECT * FROM chancery.items',
    'EXPLAIN PIPELINE SELECT sum(id) FROM chancery.items',
    'EXPLAIN ESTIMATE SELECT * FROM chancery.items',
  ),
  // The language.
  { query: 'WITH a AS (SELECT id FROM chancery.items WHERE id < 3) SELECT count() FROM a', holds: '3' },
  { query: 'WITH (SELECT max(id) FROM chancery.items) AS highest SELECT highest', holds: '9' },
  {
    query: 'WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT sum(n) FROM t',
    holds: '15',
  },
  { query: "WITH 'x' AS letter SELECT concat(letter, 'y')", holds: 'xy' },
  { query: 'SELECT id, row_number() OVER (PARTITION BY id % 2 ORDER BY id) AS n FROM chancery.items' },
  {
    query:
      'SELECT id, lagInFrame(id) OVER w, sum(id) OVER w FROM chancery.items WINDOW w AS (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)',
  },
  {
    query:
      'SELECT rank() OVER (ORDER BY name), dense_rank() OVER (ORDER BY name), ntile(2) OVER (ORDER BY name) FROM chancery.items',
  },
  {
    query:
      'SELECT id % 2 AS even, count(), avg(id), quantile(0.9)(id), uniq(name), argMax(name, id) FROM chancery.items GROUP BY even WITH TOTALS ORDER BY even',
  },
  { query: 'SELECT id % 2 AS a, id % 3 AS b, count() FROM chancery.items GROUP BY ROLLUP(a, b) ORDER BY a, b' },
  { query: 'SELECT id % 2 AS a, count() FROM chancery.items GROUP BY GROUPING SETS ((a), ()) ORDER BY a' },
  {
    query:
      'SELECT sumIf(id, id > 3), countIf(id > 3), sumOrNull(id), uniqExactIf(name, id > 1), groupArrayDistinct(id % 2) FROM chancery.items',
  },
  { query: 'SELECT quantilesExact(0.5, 0.9)(id), topK(3)(name), histogram(3)(id) FROM chancery.items' },
  { query: 'SELECT sumState(id) AS s FROM chancery.items FORMAT Null' },
  { query: 'SELECT sumMerge(s) FROM (SELECT sumState(id) AS s FROM chancery.items)', holds: '45' },
  {
    query:
      'SELECT l.id, r.name FROM chancery.items AS l INNER JOIN chancery.items AS r ON l.id = r.id ORDER BY l.id LIMIT 2',
  },
  {
    query:
      'SELECT * FROM chancery.items AS a LEFT JOIN (SELECT id, 1 AS x FROM chancery.items) AS b USING (id) ORDER BY id LIMIT 1',
  },
  { query: 'SELECT count() FROM chancery.items AS a, chancery.items AS b', holds: '100' },
  { query: 'SELECT count() FROM chancery.items AS a CROSS JOIN numbers(3) AS b', holds: '30' },
  {
    query:
      'SELECT a.id FROM chancery.items AS a ASOF JOIN chancery.items AS b ON a.name = b.name AND a.id >= b.id LIMIT 1',
  },
  { query: 'SELECT id, x FROM chancery.items ARRAY JOIN [1, 2] AS x ORDER BY id, x LIMIT 4' },
  { query: 'SELECT arrayJoin([1, 2, 3]) AS x', holds: '3' },
  {
    query:
      "SELECT arrayMap(x -> x * 2, [1, 2]), arrayFilter(x -> x > 1, [1, 2]), arraySort([3, 1]), mapKeys(map('a', 1))",
    holds: '[2,4]',
  },
  { query: 'SELECT * EXCEPT (name) FROM chancery.items LIMIT 1' },
  { query: 'SELECT * REPLACE (id + 1 AS id) FROM chancery.items LIMIT 1' },
  { query: 'SELECT * APPLY (toString) FROM chancery.items LIMIT 1' },
  { query: "SELECT COLUMNS('na.*') FROM chancery.items LIMIT 1" },
  { query: 'SELECT DISTINCT id % 3 FROM chancery.items' },
  { query: 'SELECT DISTINCT ON (id % 3) id FROM chancery.items' },
  { query: 'SELECT id FROM chancery.items ORDER BY id DESC LIMIT 2 OFFSET 1', holds: '8' },
  { query: 'SELECT id FROM chancery.items ORDER BY id LIMIT 1 BY id % 2' },
  { query: 'SELECT id FROM chancery.items ORDER BY id LIMIT 3 WITH TIES' },
  { query: 'SELECT toDate(number) AS d FROM numbers(0, 10, 5) ORDER BY d WITH FILL STEP 1' },
  { query: 'SELECT id FROM chancery.items PREWHERE id > 1 WHERE id < 5 ORDER BY id', holds: '4' },
  { query: 'SELECT id AS x, sum(x) OVER () AS s FROM chancery.items QUALIFY s > 3 LIMIT 1' },
  { query: 'SELECT 1 UNION ALL SELECT 2 UNION DISTINCT SELECT 2' },
  { query: '(SELECT 1) INTERSECT (SELECT 1)', holds: '1' },
  { query: 'SELECT id FROM chancery.items EXCEPT SELECT 3' },
  {
    query:
      'SELECT id IN (SELECT id FROM chancery.items WHERE id > 5) AS there, count() FROM chancery.items GROUP BY there',
  },
  { query: 'SELECT id GLOBAL IN (1, 2) FROM chancery.items LIMIT 1' },
  { query: 'SELECT EXISTS(SELECT 1 FROM chancery.items WHERE id = 3)', holds: '1' },
  { query: "SELECT CASE WHEN id > 3 THEN 'a' ELSE 'b' END AS c, count() FROM chancery.items GROUP BY c" },
  {
    query:
      "SELECT CAST('1' AS UInt8), '2'::UInt8, toInt32OrNull('x'), toDateTime64('2026-01-02 03:04:05.678', 3, 'UTC')",
  },
  {
    query:
      "SELECT toStartOfInterval(toDateTime('2026-01-02 03:04:05', 'UTC'), INTERVAL 15 MINUTE), now() - INTERVAL 1 DAY < now(), dateDiff('day', today() - 3, today())",
  },
  {
    query: "SELECT formatDateTime(toDateTime(0, 'UTC'), '%Y-%m-%d'), toTimeZone(now(), 'Europe/Berlin') > 0",
    holds: '1970-01-01',
  },
  {
    query:
      "SELECT 'a' LIKE 'A', 'a' ILIKE 'A', match('abc', 'b.'), extract('x=12', '\\\\d+'), splitByChar('/', '/a/b')[2]",
    holds: 'a',
  },
  {
    query: `SELECT JSONExtractString('{"a":"b"}', 'a'), JSONHas('{"a":1}', 'a'), simpleJSONExtractInt('{"a":3}', 'a')`,
    holds: 'b',
  },
  { query: "SELECT tuple(1, 'a').2, (1, 2) = (1, 2), [1, 2][1], map('k', 'v')['k']", holds: 'v' },
  { query: 'SELECT `id` AS "Überschrift", "name" FROM "chancery"."items" LIMIT 1' },
  { query: "SELECT 'ünï 😀' AS `naïve`", holds: '😀' },
  { query: "SELECT 'DROP TABLE x; file(y) /* url */ -- system.processes' AS text", holds: 'DROP TABLE' },
  { query: "SELECT count() FROM values('a UInt8, b String', (1, 'x'), (2, 'y'))", holds: '2' },
  { query: 'SELECT sum(number) FROM numbers(10) SETTINGS max_threads = 1, max_block_size = 3', holds: '45' },
  { query: '-- a comment\nSELECT /* another */ 1 # and a third\n', holds: '1' },
  { query: 'SELECT 1;', holds: '1' },
  { query: 'FROM chancery.items SELECT count()', holds: '10' },
  // Names that are words of the language, or of functions.
  { query: 'SELECT id AS format, name AS settings FROM chancery.items ORDER BY format, settings LIMIT 1' },
  { query: 'SELECT 1 AS user, 2 AS table, 3 AS system_, 4 AS "from"' },
  // Parameters.
  { query: 'SELECT {n:UInt8} + 1', url: { param_n: '41' }, holds: '42' },
  { query: 'SELECT {s:String}', url: { param_s: "it's -- /* file('x') */" }, holds: 'it' },
  { query: 'SELECT {a:Array(String)}', url: { param_a: "['x','y']" }, holds: "['x','y']" },
  { query: "SELECT {d:DateTime64(3, 'UTC')}", url: { param_d: '2026-01-02 03:04:05.678' }, holds: '.678' },
  { query: 'SELECT {n:Nullable(String)} IS NULL', url: { param_n: '\\N' }, holds: '1' },
  {
    query: 'SELECT count() FROM {db:Identifier}.{t:Identifier}',
    url: { param_db: 'chancery', param_t: 'items' },
    holds: '10',
  },
  { query: 'SELECT max({c:Identifier}) FROM items', url: { param_c: 'id', database: 'chancery' }, holds: '9' },
  {
    query: 'SELECT count() FROM items',
    url: { database: 'chancery', default_format: 'JSONEachRow' },
    holds: '{"count()":',
  },
  {
    query: 'SELECT 1 AS a',
    url: { max_execution_time: '5', max_result_rows: '10', readonly: '1', extremes: '1' },
    holds: '1',
  },
  { query: 'SELECT 1 AS a', url: { output_format_json_quote_64bit_integers: '0', session_timezone: 'Europe/Berlin' } },
  { query: 'SELECT 1 AS a', url: { query_id: 'mine', log_comment: 'a dashboard', client_protocol_version: '54460' } },
  // Formats.
  ...[
    'JSON',
    'JSONCompact',
    'JSONEachRow',
    'JSONCompactEachRow',
    'JSONStrings',
    'JSONColumns',
    'JSONCompactEachRowWithNamesAndTypes',
    'JSONObjectEachRow',
    'CSV',
    'CSVWithNames',
    'CSVWithNamesAndTypes',
    'TSV',
    'TSVWithNames',
    'TabSeparated',
    'TabSeparatedRaw',
    'TabSeparatedWithNamesAndTypes',
    'TSKV',
    'Values',
    'SQLInsert',
    'Pretty',
    'PrettyCompact',
    'PrettySpace',
    'PrettyJSONEachRow',
    'Vertical',
    'Markdown',
    'XML',
    'CustomSeparated',
    'LineAsString',
    'Null',
    'RowBinary',
    'RowBinaryWithNamesAndTypes',
    'Native',
    'Parquet',
    'Arrow',
    'ArrowStream',
    'Avro',
    'MsgPack',
    'BSONEachRow',
  ].map((format) => ({ query: `SELECT toString(id) AS id FROM chancery.items ORDER BY id FORMAT ${format}` })),
];
