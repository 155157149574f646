/** clickhouse-connect, unchanged, against the embedded ClickHouse: `python/clickhouse_client.py`. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Embedded, hasChdb, startEmbedded } from '../analytics/embedded.ts';
import { describeScenarios } from '../support/python-scenarios.ts';

let embedded: Embedded;

const program = {
  program: 'clickhouse_client.py',
  variables: () => ({ CLICKHOUSE_ADDRESS: new URL(embedded.url).host, CLICKHOUSE_PASSWORD: "wo'nders:é" }),
};

describe.skipIf(!hasChdb)('the embedded ClickHouse', () => {
  beforeAll(async () => {
    embedded = await startEmbedded();
    const writer = embedded.clientOf('projector');
    await writer.command({ query: 'CREATE DATABASE shop' });
    await writer.command({
      query: 'CREATE TABLE shop.items (id UInt32, name String, at DateTime) ENGINE = MergeTree ORDER BY id',
    });
    await writer.insert({
      table: 'shop.items',
      values: [
        { id: 1, name: "it's\ta tab", at: '2026-01-02 03:04:05' },
        { id: 2, name: 'ünïcödé', at: '2026-01-02 03:04:06' },
      ],
      format: 'JSONEachRow',
    });
  });
  afterAll(() => embedded?.close());

  describeScenarios('clickhouse-connect', program, (seen) => {
    it('queries, with types and parameters', () => {
      expect(seen('query')).toEqual({
        columns: ['id', 'name', 'at'],
        rows: [
          [1, "it's\ta tab", '2026-01-02T03:04:05'],
          [2, 'ünïcödé', '2026-01-02T03:04:06'],
        ],
      });
      expect(seen('parameters')).toEqual(['ünïcödé']);
      expect(seen('command')).toBe(2);
      expect(seen('raw')).toBe('1\n2\n');
    });

    it('queries at once without a session', () => {
      expect(seen('at_once')).toEqual([0, 1, 2, 3]);
    });

    it('returns the number of rows of a result', () => {
      expect(seen('counted')).toEqual({ rows: 7, told: '7' });
    });

    it('streams rows', () => {
      expect(seen('streamed')).toBe((100_000 * 99_999) / 2);
    });

    it.each(['lz4', 'zstd', 'gzip', 'none'])('reads results compressed with %s', (method) => {
      expect(seen('compressed', method)).toBe(20_000);
    });

    it('raises the errors of the engine', () => {
      const refused = (words: string) => ({ error: 'DatabaseError', message: expect.stringContaining(words) });
      expect(seen('errors')).toMatchObject({
        syntax: refused('SYNTAX_ERROR'),
        table: refused('UNKNOWN_TABLE'),
        insert: { error: expect.stringMatching(/Error$/) },
        drop: { error: 'DatabaseError' },
        password: refused('AUTHENTICATION_FAILED'),
      });
    });
  });
});
