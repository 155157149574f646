/** Taking more time, memory or depth than there is. Each must be refused or answered soon. */
import { type Attempt, harmless, refused } from './attempt.ts';

const nested = (depth: number) =>
  `WITH a0 AS (SELECT 1 AS n)${Array.from({ length: depth }, (_, i) => `, a${i + 1} AS (SELECT l.n AS n FROM a${i} AS l CROSS JOIN a${i} AS r)`).join('')} SELECT count() FROM a${depth}`;

const doubled = (depth: number) =>
  `WITH 1 AS x0${Array.from({ length: depth }, (_, i) => `, x${i} + x${i} AS x${i + 1}`).join('')} SELECT x${depth}`;

/** Of the engine's limits for each query: the two interfaces have them in common, so one of them is enough. */
const onePort = (attempts: readonly Attempt[]): Attempt[] => attempts.map((attempt) => ({ ...attempt, url: {} }));

export const exhaustion: readonly Attempt[] = [
  ...refused(
    'SELECT count() FROM numbers(100000000000)',
    'SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1',
    'SELECT count() FROM generate_series(0, 1000000000000000000)',
    'SELECT * FROM primes(1000000000000, 1)',
    'SELECT prime FROM system.primes LIMIT 1 OFFSET 1000000000000',
    'SELECT number FROM numbers(3000000) FORMAT JSON',
    'WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT count() FROM t',
    nested(14),
    nested(60),
    doubled(40),
    doubled(200),
    `SELECT ${'('.repeat(2000)}1${')'.repeat(2000)}`,
    `SELECT ${'['.repeat(2000)}${']'.repeat(2000)}`,
    `SELECT ${'not '.repeat(20_000)}1`,
    `SELECT 1${'+1'.repeat(60_000)}`,
    `SELECT ${'/*'.repeat(60_000)}`,
    `SELECT ${'file/*'.repeat(16_000)}`,
    `SELECT '${'\\'.repeat(100_001)}'`,
    `SELECT ${'`'.repeat(100_001)}`,
    `SELECT 1 ${'UNION ALL SELECT 1 '.repeat(2)}FROM numbers(1000000000000)`,
    `${'SELECT * FROM ('.repeat(300)}SELECT 1${')'.repeat(300)}`,
    `SELECT '${'é'.repeat(128 * 1024)}'`,
  ),
  ...onePort(
    refused(
      'SELECT groupArray(toString(number)) FROM numbers(50000000)',
      "SELECT groupConcat(repeat('a', 1000)) FROM numbers(1000000)",
      "SELECT length(repeat('x', 1000000000))",
      'SELECT randomString(1000000000)',
      'SELECT arrayWithConstant(1000000000, 1)',
      'SELECT range(1000000000)',
      'SELECT arrayFold((acc, x) -> acc + x, range(300000), toUInt64(0))',
      'SELECT arraySum(arrayAutocorrelation(range(1000000)))',
      'SELECT geohashesInBox(-180.0, -90.0, 180.0, 90.0, 9)',
      'SELECT mapPopulateSeries(map(1, 1, 1000000000, 1))',
      'SELECT sumResample(0, 1000000000, 1)(number, number) FROM numbers(10)',
      'SELECT sparkBar(1000000000)(number, number) FROM numbers(10)',
      'SELECT topK(100000000)(number) FROM numbers(10)',
      "SELECT length(ngrams(repeat('a', 1000000), 1000))",
      "SELECT prettyPrintJSON(repeat('[', 200000))",
      "SELECT CAST(repeat('[', 200000) AS JSON)",
      "SELECT readWKT(repeat('GEOMETRYCOLLECTION(', 50000))",
      "SELECT formatQuery(repeat('(', 200000))",
      "SELECT defaultValueOfTypeName(repeat('Array(', 100000))",
      "SELECT JSON_QUERY('{}', repeat('$[0]', 50000))",
      "SELECT kolmogorovSmirnovTest('two-sided', 'exact')(number, number % 2) FROM numbers(200000)",
    ),
  ),
  ...onePort(
    harmless(
      "SELECT JSONExtract(repeat('[', 200000), 'Array(Array(Int8))')",
      "SELECT length(toString(CAST(repeat('[', 200000) AS Dynamic)))",
      "SELECT JSON_VALUE(repeat('[', 200000), '$.a')",
      "SELECT match(repeat('a', 100000), '(a|aa|aaa)*(b|c){100}$')",
      "SELECT replaceRegexpAll(repeat('a', 100000), '(a+)+b', 'x')",
      "SELECT position(repeat('a', 1000000), concat(repeat('a', 1000), 'b'))",
      "SELECT sequenceMatch('(?1).*(?1).*(?1).*(?1).*(?2)')(toDateTime(number), number >= 0, number < 0) FROM numbers(100000)",
      'SELECT 1 FROM numbers(1) ORDER BY 1 WITH FILL FROM 0 TO 100000',
      'SELECT count() FROM numbers(1) GROUP BY CUBE(number, number + 1, number + 2, number + 3)',
      `SELECT 1 WHERE 1 IN (${Array.from({ length: 20_000 }, (_, i) => i).join(',')})`,
      `SELECT 1${' '.repeat(256 * 1024)}`,
      `SELECT ${'\n'.repeat(100_000)}1`,
      `SELECT 1 ${'/* a */'.repeat(20_000)}`,
    ),
  ),
];
