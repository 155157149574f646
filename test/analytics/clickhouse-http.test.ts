import { execFile } from 'node:child_process';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import {
  brotliCompressSync,
  brotliDecompressSync,
  gunzipSync,
  gzipSync,
  zstdCompressSync,
  zstdDecompressSync,
} from 'node:zlib';
import { type ClickHouseClient, ClickHouseError, createClient } from '@clickhouse/client';
import * as undici from 'undici';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { compressedBlock, fromCompressedBlocks } from '../../src/http/clickhouse/compressed-blocks.ts';
import { lz4Decompress } from '../../src/http/clickhouse/content-encoding.ts';
import { type Embedded, hasChdb, startEmbedded } from './embedded.ts';

let embedded: Embedded;
let writer: ClickHouseClient;
let analyst: ClickHouseClient;
const password = "wo'nders:é";

interface ClickHouseQuery {
  readonly parameters?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer<ArrayBuffer>;
  readonly method?: string;
  readonly path?: string;
}

/** As the analyst unless `headers` says otherwise. */
function ask({ parameters = {}, headers, body, method, path = '/' }: ClickHouseQuery): Promise<Response> {
  const as = headers ?? { authorization: `Basic ${Buffer.from(`analyst:${password}`).toString('base64')}` };
  const url = `${embedded.url}${path}?${new URLSearchParams(parameters)}`;
  return fetch(url, { headers: as, body, method: method ?? (body === undefined ? 'GET' : 'POST') });
}

const numbers = Array.from({ length: 30_000 }, (_, n) => `${n}\n`).join('');

/** The contents of an LZ4 frame of `numbers`: blocks of 64 KiB and the rest. */
function unframed(frame: Buffer): Buffer {
  const pieces: Buffer[] = [];
  let left = numbers.length;
  for (let at = 7; ; ) {
    const size = frame.readUInt32LE(at);
    if (size === 0) return Buffer.concat(pieces);
    const isPlain = size >= 0x80000000;
    const block = frame.subarray(at + 4, at + 4 + (size % 0x80000000));
    at += 4 + block.length;
    const length = Math.min(left, 64 * 1024);
    left -= length;
    pieces.push(isPlain ? block : lz4Decompress(block, length));
  }
}

const asAnalyst = { authorization: `Basic ${Buffer.from(`analyst:${password}`).toString('base64')}` };

describe.skipIf(!hasChdb)("ClickHouse's HTTP interface over the embedded one", () => {
  beforeAll(async () => {
    embedded = await startEmbedded();
    writer = embedded.clientOf('projector');
    analyst = embedded.clientOf('analyst');
    await writer.command({ query: 'CREATE DATABASE shop' });
    await writer.command({ query: 'CREATE TABLE shop.items (id UInt32, name String) ENGINE = MergeTree ORDER BY id' });
    await writer.insert({
      table: 'shop.items',
      values: [
        { id: 1, name: "it's\ta tab" },
        { id: 2, name: 'ünïcödé' },
      ],
      format: 'JSONEachRow',
    });
  });
  afterAll(() => embedded?.close());

  describe('with its own client', () => {
    test('ping answers, with and without a query', async () => {
      expect(await analyst.ping()).toEqual({ success: true });
      expect(await analyst.ping({ select: true })).toMatchObject({ success: true });
    });

    test('query gives JSON with its meta data', async () => {
      const result = await analyst.query({ query: 'SELECT id, name FROM shop.items ORDER BY id' });
      const { data, meta, rows } = await result.json<{ id: number; name: string }>();
      expect(data.map(({ name }) => name)).toEqual(["it's\ta tab", 'ünïcödé']);
      expect(meta?.[0]).toEqual({ name: 'id', type: 'UInt32' });
      expect(rows).toBe(2);
    });

    test('query streams rows to the writer in portions', async () => {
      const result = await writer.query({ query: 'SELECT number FROM numbers(150000)', format: 'JSONEachRow' });
      let sum = 0;
      let portions = 0;
      for await (const rows of result.stream<{ number: string | number }>()) {
        portions += 1;
        for (const row of rows) sum += Number(row.json<{ number: number }>().number);
      }
      expect(sum).toBe((150_000 * 149_999) / 2);
      expect(portions).toBeGreaterThan(1);
    });

    test('parameters of a query are bound, and never become part of it', async () => {
      const result = await analyst.query({
        query:
          'SELECT {name: String} AS name, {ids: Array(UInt8)} AS ids, count() AS n FROM {db: Identifier}.items WHERE id IN {ids: Array(UInt8)}',
        query_params: { name: "'; DROP TABLE x -- \\ \t\n ü", ids: [1, 2, 3], db: 'shop' },
        format: 'JSONEachRow',
      });
      expect(await result.json()).toEqual([
        { name: "'; DROP TABLE x -- \\ \t\n ü", ids: [1, 2, 3], n: expect.anything() },
      ]);
    });

    test('parameters of requests at the same time do not mix', async () => {
      const answers = await Promise.all(
        Array.from({ length: 24 }, async (_, n) => {
          const query = 'SELECT {n: UInt32} AS n, sum(number) AS s FROM numbers({n: UInt32} * 1000)';
          const result = await analyst.query({ query, query_params: { n }, format: 'JSONEachRow' });
          return (await result.json<{ n: number }>())[0]?.n;
        }),
      );
      expect(answers).toEqual(Array.from({ length: 24 }, (_, n) => n));
    });

    test('insert takes rows, a stream of bytes, and bytes that are no text', async () => {
      await writer.command({ query: 'CREATE TABLE shop.raw (id UInt32, bytes String) ENGINE = MergeTree ORDER BY id' });
      const summary = await writer.insert({ table: 'shop.raw', values: [[1, 'one']], format: 'JSONCompactEachRow' });
      expect(summary.summary?.written_rows).toBe('1');
      const bytes = Buffer.from([0x32, 0x09, 0xff, 0xfe, 0x00, 0x0a]);
      await writer.insert({
        table: 'shop.raw',
        columns: ['id', 'bytes'],
        values: Readable.from([bytes], { objectMode: false }),
        format: 'TabSeparated',
      });
      const result = await analyst.query({
        query: 'SELECT id, hex(bytes) AS h FROM shop.raw ORDER BY id',
        format: 'JSONEachRow',
      });
      expect(await result.json()).toEqual([
        { id: 1, h: '6F6E65' },
        { id: 2, h: 'FFFE00' },
      ]);
    });

    test('an insert with a used token is not stored again', async () => {
      await writer.command({
        query: `CREATE TABLE shop.once (id UInt32) ENGINE = MergeTree ORDER BY id
          SETTINGS non_replicated_deduplication_window = 10`,
      });
      for (const id of [1, 2]) {
        await writer.insert({
          table: 'shop.once',
          values: [{ id }],
          format: 'JSONEachRow',
          clickhouse_settings: { insert_deduplication_token: 'token' },
        });
      }
      const result = await analyst.query({ query: 'SELECT id FROM shop.once', format: 'JSONEachRow' });
      expect(await result.json()).toEqual([{ id: 1 }]);
    });

    test("names are looked up in the client's database", async () => {
      const client = embedded.clientOf('analyst', 'shop');
      const result = await client.query({ query: 'SELECT max(id) AS id FROM items', format: 'JSONEachRow' });
      expect(await result.json()).toEqual([{ id: 2 }]);
    });

    test('exec gives the result of the query, compressed on request', async () => {
      const url = embedded.url;
      const compressed = createClient({ url, username: 'analyst', password, compression: { response: true } });
      const result = await compressed.query({ query: 'SELECT number FROM numbers(1000)', format: 'JSONEachRow' });
      expect(await result.json()).toHaveLength(1000);
      await compressed.close();
    });

    test.each([
      ['SELECT nonsense', '47', 'UNKNOWN_IDENTIFIER'],
      ['SELECT * FROM shop.nothing', '60', 'UNKNOWN_TABLE'],
      ['SELEC 1', '62', 'SYNTAX_ERROR'],
      ['CHECK TABLE shop.items', '164', 'READONLY'],
      ['SELECT (1', '62', 'SYNTAX_ERROR'],
    ])('%j fails with code %s', async (query, code, type) => {
      const failure = await analyst.query({ query, format: 'JSONEachRow' }).catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(ClickHouseError);
      expect(failure).toMatchObject({ code, type });
    });

    test('an error in the middle of a stream is an error, not an end', async () => {
      const query = 'SELECT throwIf(number = 120000) AS x, number FROM numbers(150000)';
      const result = await writer.query({
        query,
        format: 'JSONEachRow',
        clickhouse_settings: { max_block_size: '5000' },
      });
      const read = async () => {
        for await (const rows of result.stream()) void rows;
      };
      await expect(read()).rejects.toMatchObject({ code: '395' });
    });

    test("an error after the first rows of a reader's query is an error and no rows", async () => {
      const query = 'SELECT throwIf(number = 120000) AS x, number FROM numbers(150000)';
      await expect(analyst.query({ query, format: 'JSONEachRow' })).rejects.toMatchObject({ code: '395' });
    });
  });

  describe('for people at a terminal', () => {
    test.each([
      ['/ping', 200, 'Ok.\n'],
      ['/replicas_status', 200, 'Ok.\n'],
      ['/', 200, 'Ok.\n'],
      ['/nothing', 404, 'There is no handle /nothing\n'],
    ])('GET %s', async (path, status, text) => {
      const answer = await ask({ path, headers: {} });
      expect([answer.status, await answer.text()]).toEqual([status, text]);
    });

    test('curl gets tab-separated text, by GET and by POST', async () => {
      const run = promisify(execFile);
      const byGet = await run('curl', ['-sS', '-u', `analyst:${password}`, `${embedded.url}/?query=SELECT%201%2B1`]);
      const byPost = await run('curl', [
        '-sS',
        '-u',
        `analyst:${password}`,
        embedded.url,
        '--data-binary',
        'SELECT 2, 3;\n',
      ]);
      expect([byGet.stdout, byPost.stdout]).toEqual(['2\n', '2\t3\n']);
    });

    test('the headers are those of ClickHouse', async () => {
      const answer = await ask({ parameters: { query: 'SELECT 1 AS one', default_format: 'JSON', query_id: 'mine' } });
      expect(Object.fromEntries(answer.headers)).toMatchObject({
        'content-type': 'application/json; charset=UTF-8',
        'x-clickhouse-format': 'JSON',
        'x-clickhouse-query-id': 'mine',
        'x-clickhouse-timezone': 'UTC',
        'x-clickhouse-summary': expect.stringMatching(/"elapsed_ns":"\d+"/),
      });
      expect(await answer.json()).toMatchObject({ rows: 1, data: [{ one: 1 }] });
    });

    test('a query may be split between the URL and the body', async () => {
      const answer = await ask({ parameters: { query: 'SELECT count()' }, body: 'FROM shop.items' });
      expect(await answer.text()).toBe('2\n');
    });

    test('a query may be 256 KiB long, and no longer', async () => {
      const text = (bytes: number) => `SELECT length('${'é'.repeat(bytes / 2)}')`;
      expect(await (await ask({ body: text(262_000) })).text()).toBe('262000\n');
      const tooLong = await ask({ body: text(262_144) });
      expect([tooLong.status, tooLong.headers.get('x-clickhouse-exception-code')]).toEqual([413, '223']);
    });

    test.each([
      ['FORMAT in the query wins', { query: 'SELECT 1 FORMAT CSV', default_format: 'JSON' }, '1\n'],
      ['pretty text comes whole', { query: 'SELECT 1 AS a FORMAT PrettySpace' }, / a\n/],
      ['names come once', { query: 'SELECT number AS n FROM numbers(3) FORMAT CSVWithNames' }, '"n"\n0\n1\n2\n'],
      ['SHOW works', { query: "SHOW TABLES FROM shop LIKE 'items'" }, 'items\n'],
      ['DESCRIBE works', { query: 'DESCRIBE TABLE shop.items FORMAT TSV' }, /^id\tUInt32/],
      ['an empty result is empty', { query: 'SELECT 1 WHERE 0' }, ''],
    ])('%s', async (_, parameters: Record<string, string>, expected) => {
      const text = await (await ask({ parameters })).text();
      if (typeof expected === 'string') expect(text).toBe(expected);
      else expect(text).toMatch(expected);
    });

    test('gzip is taken and given', async () => {
      const answer = await ask({
        parameters: { enable_http_compression: '1' },
        headers: { ...asAnalyst, 'content-encoding': 'gzip', 'accept-encoding': 'gzip' },
        body: gzipSync('SELECT 7'),
      });
      expect([answer.headers.get('content-encoding'), await answer.text()]).toEqual(['gzip', '7\n']);
    });

    test.each([
      ['zstd', 'zstd, lz4, br, gzip', (bytes: Buffer) => zstdDecompressSync(bytes)],
      ['gzip', 'gzip;q=0.5, br, zstd;q=0', (bytes: Buffer) => gunzipSync(bytes)],
      ['br', 'br', (bytes: Buffer) => brotliDecompressSync(bytes)],
      ['lz4', 'lz4', unframed],
    ])('an answer is compressed with %s for a client that accepts %s', async (encoding, accepted, decode) => {
      const { statusCode, headers, body } = await undici.request(
        `${embedded.url}/?enable_http_compression=1&query=${encodeURIComponent('SELECT number FROM numbers(30000)')}`,
        { headers: { ...asAnalyst, 'accept-encoding': accepted } },
      );
      const bytes = Buffer.from(await body.arrayBuffer());
      expect([statusCode, headers['content-encoding']]).toEqual([200, encoding]);
      expect(decode(bytes).toString()).toBe(numbers);
    });

    test.each([
      ['zstd', zstdCompressSync],
      ['br', brotliCompressSync],
    ])('a body may be compressed with %s', async (encoding, encode) => {
      const body = Buffer.from(encode(Buffer.from('SELECT 7')));
      const answer = await ask({ headers: { ...asAnalyst, 'content-encoding': encoding }, body });
      expect(await answer.text()).toBe('7\n');
    });

    test("ClickHouse's own compression is taken and given", async () => {
      const body = compressedBlock(Buffer.from('SELECT number FROM numbers(30000)'));
      const answer = await ask({ parameters: { compress: '1', decompress: '1' }, body });
      const bytes = Buffer.from(await answer.arrayBuffer());
      expect(bytes.length).toBeLessThan(numbers.length * 0.8);
      expect(fromCompressedBlocks(bytes, 1_000_000).toString()).toBe(numbers);
      body[30] = (body[30] ?? 0) ^ 1;
      const damaged = await ask({ parameters: { decompress: '1' }, body });
      expect([damaged.status, damaged.headers.get('x-clickhouse-exception-code')]).toEqual([500, '40']);
    });

    test.each<Record<string, string>>([{}, { wait_end_of_query: '1' }])(
      'the summary tells how many rows there are: %j',
      async (parameters) => {
        const answer = await ask({
          parameters: { ...parameters, query: 'SELECT number FROM numbers(12) WHERE number % 2' },
        });
        const summary = JSON.parse(answer.headers.get('x-clickhouse-summary') ?? '{}');
        expect(summary).toMatchObject({ result_rows: '6', result_bytes: '13' });
      },
    );

    describe('in a session', () => {
      const inSession = (id: string, more: Record<string, string> = {}, query = 'SELECT 1') =>
        ask({ parameters: { query, session_id: id, ...more } });
      const codeOf = (answer: Response) => answer.headers.get('x-clickhouse-exception-code');

      test('queries run one after the other', async () => {
        for (const query of ['SELECT 1', 'SELECT 2']) {
          expect(await (await inSession('turns', { session_timeout: '5' }, query)).text()).toBe(`${query.at(-1)}\n`);
        }
        const answers = await Promise.all([inSession('both', {}, 'SELECT sleep(0.5)'), inSession('both')]);
        expect(answers.map(codeOf).toSorted()).toEqual(['373', null]);
        expect(codeOf(await inSession('both'))).toBeNull();
      });

      test('that must exist and do not are refused', async () => {
        expect(codeOf(await inSession('checked', { session_check: '1' }))).toBe('372');
        await inSession('checked');
        expect(codeOf(await inSession('checked', { session_check: '1' }))).toBeNull();
      });

      test.each(['0', '3601', 'soon', '1.5'])('for %s seconds are refused', async (session_timeout) => {
        expect(codeOf(await inSession('long', { session_timeout }))).toBe('374');
      });

      test('of the user for writing are refused', async () => {
        const client = embedded.clientOf('projector');
        const pendingAnswer = client.query({ query: 'SELECT 1', session_id: 'mine' });
        await expect(pendingAnswer).rejects.toMatchObject({ code: '48' });
      });
    });

    test.each([
      ['nobody', {}],
      ['a wrong password', { 'x-clickhouse-user': 'analyst', 'x-clickhouse-key': 'guess' }],
      ['a stranger', { 'x-clickhouse-user': 'root', 'x-clickhouse-key': password }],
    ])('%s is refused', async (_, headers) => {
      const answer = await ask({ headers, body: 'SELECT 1' });
      expect(answer.status).toBe(403);
      expect(answer.headers.get('x-clickhouse-exception-code')).toBe('516');
      expect(await answer.text()).toMatch(/AUTHENTICATION_FAILED/);
    });

    test.each([
      [
        'an unknown encoding',
        { headers: { ...asAnalyst, 'content-encoding': 'compress' }, body: 'SELECT 1' },
        500,
        '89',
      ],
      ['an unknown format', { parameters: { query: 'SELECT 1 FORMAT Nonsense' } }, 404, '73'],
      ['an unknown database', { parameters: { query: 'SELECT 1', database: 'nowhere' } }, 404, '81'],
      ['a bad setting name', { parameters: { query: 'SELECT 1', 'a b': '1' } }, 500, '452'],
    ])('%s is refused with its code', async (_, query: ClickHouseQuery, status, code) => {
      const answer = await ask(query);
      expect([answer.status, answer.headers.get('x-clickhouse-exception-code')]).toEqual([status, code]);
      expect(await answer.text()).toMatch(/DB::Exception/);
    });
  });

  describe('the analyst', () => {
    test.each([
      ["SELECT file('/etc/hostname')"],
      ["SELECT * FROM file('/etc/hostname', 'LineAsString')"],
      ["SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')"],
      ["SELECT 1 INTO OUTFILE '/tmp/never'"],
      ["INSERT INTO shop.items VALUES (9, 'x')"],
      ['DROP TABLE shop.items'],
      ['SET max_execution_time = 0'],
      ['SELECT 1 SETTINGS max_execution_time = 100'],
      ['SELECT 1; SET readonly = 0'],
      ['SELECT 1; DROP TABLE shop.items'],
      ['KILL QUERY WHERE 1'],
      ['SYSTEM FLUSH LOGS'],
      ['CREATE TEMPORARY TABLE x (a Int8)'],
    ])('may not %j', async (sql) => {
      const answer = await ask({ body: sql });
      expect(answer.headers.get('x-clickhouse-exception-code')).toMatch(/^(62|164|452)$/);
      expect(await (await ask({ body: 'SELECT count() FROM shop.items' })).text()).toBe('2\n');
    });

    test.each([
      ['more time', { max_execution_time: '1000' }],
      ['no limit of time', { max_execution_time: '0' }],
      ['a time that the engine stores as 0', { max_execution_time: '0.0000001' }],
      ['more memory', { max_memory_usage: '100000000000' }],
      ['to write', { readonly: '0' }],
      ['what changes more than looks', { allow_ddl: '1' }],
    ])('may not set %s', async (_, parameters: Record<string, string>) => {
      const answer = await ask({ parameters: { ...parameters, query: 'SELECT 1' } });
      expect(answer.headers.get('x-clickhouse-exception-code')).toBe('452');
    });

    test('may send settings of inserts, which change nothing', async () => {
      const answer = await ask({ parameters: { async_insert: '1', wait_for_async_insert: '0', query: 'SELECT 1' } });
      expect(await answer.text()).toBe('1\n');
    });

    test('may set lower limits and other formats', async () => {
      const parameters = { max_execution_time: '1', output_format_json_quote_64bit_integers: '1', readonly: '1' };
      const answer = await ask({ parameters: { ...parameters, query: 'SELECT toUInt64(1) AS n FORMAT JSONEachRow' } });
      expect(await answer.text()).toBe('{"n":"1"}\n');
      const slow = await ask({ parameters: { ...parameters, query: 'SELECT sleep(3)' } });
      expect([slow.status, slow.headers.get('x-clickhouse-exception-code')]).toEqual([408, '159']);
    });

    test.each([
      ['rows of a result', 'SELECT number FROM numbers(300000) FORMAT JSON', '396'],
      ['rows to read', 'SELECT count() FROM numbers(100000000000)', '158'],
      ['memory', 'SELECT groupArray(toString(number)) FROM numbers(50000000)', '241'],
    ])('meets the limit of %s', async (_, query, code) => {
      const answer = await ask({ body: query });
      expect([code, '159']).toContain(answer.headers.get('x-clickhouse-exception-code'));
    });

    test('a client that leaves ends its query', async () => {
      const leaving = new AbortController();
      const headers = asAnalyst;
      const query = 'SELECT count() FROM numbers(900000000) WHERE sipHash64(number) = 1';
      const pendingAnswer = fetch(embedded.url, { method: 'POST', headers, body: query, signal: leaving.signal });
      pendingAnswer.catch(() => {});
      const running = async () => {
        const sql =
          "SELECT count() AS n FROM system.processes WHERE query LIKE '%sipHash64%' AND query NOT LIKE '%processes%'";
        const result = await writer.query({ query: sql, format: 'JSONEachRow' });
        return Number((await result.json<{ n: number | string }>())[0]?.n);
      };
      await expect.poll(running, { timeout: 4000, interval: 20 }).toBe(1);
      leaving.abort();
      await expect.poll(running, { timeout: 4000, interval: 20 }).toBe(0);
    });
  });

  test.each([
    ['the health check', 'SELECT 1'],
    ['the version', 'SELECT version()'],
    ['databases', 'SELECT name FROM system.databases ORDER BY name'],
    ['tables', "SELECT name FROM system.tables WHERE database = 'shop' ORDER BY name"],
    ['columns', 'DESC TABLE "shop"."items"'],
    [
      'columns of a query',
      "SELECT name, type, comment FROM system.columns WHERE database = 'shop' AND \"table\" = 'items'",
    ],
    ['functions', 'SELECT name FROM system.functions LIMIT 10'],
    [
      'a time series',
      'SELECT toStartOfMinute(now()) AS "time", count() AS "value" FROM "shop"."items" WHERE ( "id" >= 1 ) GROUP BY time ORDER BY time ASC',
    ],
  ])("Grafana's data source: %s", async (_, query) => {
    const basic = await ask({
      parameters: {
        default_format: 'JSONCompactEachRowWithNamesAndTypes',
        max_execution_time: '5',
        client_protocol_version: '54460',
      },
      body: query,
    });
    expect([basic.status, (await basic.text()).startsWith('[')]).toEqual([200, true]);
  });
});
