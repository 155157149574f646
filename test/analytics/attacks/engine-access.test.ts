/** Refusals of the engine itself, without the check before it: its connections are used directly. */
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { allowedFunctions } from '../../../src/http/clickhouse/allowed-functions.ts';
import {
  type EmbeddedClickHouse,
  exceptionOf,
  openEmbeddedClickHouse,
} from '../../../src/http/clickhouse/embedded-clickhouse.ts';
import { usersConfig } from '../../../src/http/clickhouse/engine-access.ts';
import { hasChdb } from '../embedded.ts';

const folder = mkdtempSync(join(tmpdir(), 'chancery-engine-'));
const file = join(folder, 'canary.txt');
const canary = `canary-${randomUUID()}`;
let engine: EmbeddedClickHouse;

type Role = 'reader' | 'writer';

async function run(role: Role, ...statements: readonly string[]): Promise<string> {
  const connection = engine.connect({ role, readOnly: false });
  try {
    let last = '';
    for (const statement of statements) {
      last = Buffer.from((await connection.query(statement, 'TabSeparated')).bytes).toString();
    }
    return last;
  } finally {
    connection.close();
  }
}

async function codeOf(role: Role, ...statements: readonly string[]): Promise<number> {
  return run(role, ...statements).then(
    () => 0,
    (error: unknown) => exceptionOf(error).code,
  );
}

describe.skipIf(!hasChdb)('the engine itself', () => {
  beforeAll(async () => {
    writeFileSync(file, `${canary}\n`);
    engine = await openEmbeddedClickHouse({ folder: join(folder, 'data'), access: { databases: ['chancery'] } });
    await run(
      'writer',
      'CREATE DATABASE chancery',
      'CREATE TABLE chancery.items (id UInt32) ENGINE = MergeTree ORDER BY id',
      'INSERT INTO chancery.items SELECT number + 1 FROM numbers(2)',
    );
  });
  afterAll(async () => {
    await engine?.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });

  describe.each<Role>(['reader', 'writer'])('refuses the %s', (role) => {
    test.each([
      `SELECT * FROM file('${file}', 'LineAsString')`,
      `SELECT * FROM filesystem('${folder}')`,
      "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString', 'a String')",
      "SELECT * FROM remote('127.0.0.1:1', system.one)",
      "SELECT * FROM remoteSecure('127.0.0.1:1', system.one)",
      "SELECT * FROM s3('http://127.0.0.1:1/bucket/x.tsv', 'TSV', 'a String')",
      "SELECT * FROM hdfs('hdfs://127.0.0.1:1/x', 'TSV', 'a String')",
      "SELECT * FROM azureBlobStorage('http://127.0.0.1:1', 'c', 'b', 'a', 'k')",
      "SELECT * FROM mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
      "SELECT * FROM postgresql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
      "SELECT * FROM mongodb('127.0.0.1:1', 'a', 'b', 'c', 'd', 'x Int')",
      "SELECT * FROM redis('127.0.0.1:1', 'k', 'k String, v String')",
      `SELECT * FROM sqlite('${folder}/x.db', 'x')`,
      "SELECT * FROM odbc('x', 'y', 'z')",
      "SELECT * FROM jdbc('x', 'y', 'z')",
      `SELECT * FROM icebergLocal('${folder}')`,
      `SELECT * FROM deltaLakeLocal('${folder}')`,
      `SELECT * FROM default.\`${file}\``,
      `DESCRIBE TABLE default.\`${file}\``,
      `EXISTS TABLE default.\`${file}\``,
      'EXISTS TABLE default.`/nothing/here`',
      `CREATE TABLE chancery.f (a String) ENGINE = File(LineAsString, '${file}')`,
      "CREATE TABLE chancery.f (a String) ENGINE = URL('http://127.0.0.1:1/', LineAsString)",
      "CREATE TABLE chancery.f (a String) ENGINE = S3('http://127.0.0.1:1/b/x.tsv', 'TSV')",
      "CREATE TABLE chancery.f (a String) ENGINE = MySQL('127.0.0.1:1', 'a', 'b', 'c', 'd')",
      `CREATE DICTIONARY chancery.d (a String) PRIMARY KEY a SOURCE(FILE(PATH '${file}' FORMAT LineAsString)) LAYOUT(FLAT()) LIFETIME(0)`,
      'CREATE DATABASE other',
      'CREATE USER other',
      'CREATE FUNCTION other AS x -> x',
      'CREATE NAMED COLLECTION other AS a = 1',
      'GRANT SELECT ON *.* TO default',
      'DROP DATABASE chancery',
      'SYSTEM FLUSH LOGS',
      `BACKUP TABLE chancery.items TO File('${folder}/backup')`,
    ])('%s', async (statement) => {
      expect(await codeOf(role, statement)).toBe(497);
    });

    test.each([
      `SET format_template_row = '${file}'`,
      `SET format_schema = '${file}:X'`,
      `SET output_format_schema = '${folder}/written.proto'`,
      `SET input_format_record_errors_file_path = '${folder}/errors'`,
      "SET dialect = 'kusto'",
      "SET url_base = 'http://127.0.0.1:1/'",
      `SELECT 1 AS a FORMAT Template SETTINGS format_template_row = '${file}'`,
    ])('%s', async (statement) => {
      expect(await codeOf(role, statement)).toBe(452);
    });
  });

  test.each([
    'SET max_execution_time = 0',
    'SET max_execution_time = 0.0000001',
    'SET max_execution_time = 61',
    'SELECT 1 SETTINGS max_execution_time = 0.0000001',
    'SELECT 1 SETTINGS max_execution_time = 0',
    'SET max_memory_usage = 0',
    'SET max_memory_usage = 400000000',
    'SET max_rows_to_read = 0',
    'SET max_result_rows = 0',
    'SET max_result_bytes = 100000000',
  ])('keeps the limits of a reader: %s', async (statement) => {
    expect(await codeOf('reader', statement)).toBe(452);
  });

  test('gives the writer no limits', async () => {
    expect(await run('writer', "SELECT getSetting('max_execution_time'), getSetting('max_memory_usage')")).toBe(
      '0\t0\n',
    );
  });

  test('lets a reader read the tables, and change none', async () => {
    expect(await run('reader', 'SELECT sum(id) FROM chancery.items')).toBe('3\n');
    for (const statement of [
      'INSERT INTO chancery.items SELECT 3',
      'CREATE TABLE chancery.other (a Int8) ENGINE = Memory',
      'DROP TABLE chancery.items',
      'ALTER TABLE chancery.items ADD COLUMN a Int8',
      'TRUNCATE TABLE chancery.items',
      'OPTIMIZE TABLE chancery.items',
    ]) {
      expect(await codeOf('reader', statement), statement).toBe(497);
    }
    expect(await run('reader', 'SELECT sum(id) FROM chancery.items')).toBe('3\n');
  });

  test('has every allowed function, and others that are not allowed', () => {
    expect([...allowedFunctions].filter((name) => !engine.functions.has(name))).toEqual([]);
    for (const name of ['file', 'dictget', 'joinget', 'aigenerate', 'catboostevaluate', 'formatrow', 'hostname']) {
      expect([name, engine.functions.has(name), allowedFunctions.has(name)]).toEqual([name, true, false]);
    }
  });
});

test('a database whose name is not plain gets no grants', () => {
  expect(() => usersConfig({ databases: ['a.b'] })).toThrow(/is not a plain name/);
  expect(() => usersConfig({ databases: ['a</query>'] })).toThrow(/is not a plain name/);
});
