/** User paths in the tables, and in tables of earlier versions with other values. */
import type { ClickHouseClient } from '@clickhouse/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parsePosition } from '../../src/events/event.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { createBatchStore } from '../../src/projections/analytics/batch-store.ts';
import { startProjector } from '../../src/projections/analytics/projector.ts';
import { logIdOf } from '../../src/projections/snapshot-basis.ts';
import { type Embedded, hasChdb, startEmbedded } from './embedded.ts';
import { writeHistory } from './generated-history.ts';

describe.skipIf(!hasChdb)('user paths in the tables', () => {
  const log = new MemoryLog();
  let embedded: Embedded;
  let writer: ClickHouseClient;

  beforeAll(async () => {
    await writeHistory(log, { exchanges: 120, seed: 3 });
    embedded = await startEmbedded();
    writer = embedded.clientOf('projector');
    const store = createBatchStore(writer, 'chancery');
    const projector = startProjector({ log, store, retention: { audit: 0, usage: 0 }, liveMs: 1 });
    await projector.whenStored(parsePosition(await log.head()));
    await projector.close();
  }, 60_000);
  afterAll(() => embedded?.close());

  async function rows(query: string): Promise<Record<string, unknown>[]> {
    return (await writer.query({ query, format: 'JSONEachRow' })).json();
  }

  /** How many rows each table has of each path. */
  async function paths(): Promise<unknown> {
    const counted = ['exchanges', 'usage', 'guardrail_verdicts', 'events', 'admin_changes'].map(async (table) => [
      table,
      await rows(`SELECT user_path, count() AS n FROM chancery.${table} GROUP BY user_path ORDER BY user_path, n`),
    ]);
    const rollup = 'SELECT user_path, sum(requests) AS n FROM chancery.usage_by_quarter_hour GROUP BY 1 ORDER BY 1';
    return Object.fromEntries([...(await Promise.all(counted)), ['rollup', await rows(rollup)]]);
  }

  test('are / for requests without one, and NULL for events that were recorded without one', async () => {
    const empty = (table: string) => rows(`SELECT count() AS n FROM chancery.${table} WHERE user_path = ''`);
    for (const table of ['exchanges', 'usage', 'events', 'admin_changes']) {
      expect(Number((await empty(table))[0]?.['n']), table).toBe(0);
    }
    const ofRoot = (table: string) => rows(`SELECT count() AS n FROM chancery.${table} WHERE user_path = '/'`);
    for (const table of ['exchanges', 'usage'])
      expect(Number((await ofRoot(table))[0]?.['n']), table).toBeGreaterThan(0);
    for (const table of ['events', 'admin_changes']) {
      const unrecorded = await rows(`SELECT count() AS n FROM chancery.${table} WHERE user_path IS NULL`);
      expect(Number(unrecorded[0]?.['n']), table).toBeGreaterThan(0);
    }
  });

  test('become the same in tables of an earlier version, once', { timeout: 60_000 }, async () => {
    const before = await paths();
    const say = (query: string) => writer.command({ query, clickhouse_settings: { mutations_sync: '1' } });
    for (const table of ['exchanges', 'usage']) {
      await say(`ALTER TABLE chancery.${table} UPDATE user_path = '' WHERE user_path = '/'`);
    }
    for (const table of ['events', 'admin_changes']) {
      await say(`ALTER TABLE chancery.${table} UPDATE user_path = '' WHERE user_path IS NULL`);
      await say(`ALTER TABLE chancery.${table} MODIFY COLUMN user_path LowCardinality(String) DEFAULT ''`);
      await say(`ALTER TABLE chancery.${table} MODIFY COLUMN user_path REMOVE DEFAULT`);
    }
    await say('ALTER TABLE chancery.usage DROP COLUMN provider_id');
    await say('ALTER TABLE chancery._migrations DELETE WHERE 1');
    expect(await paths()).not.toEqual(before);

    const logId = (await logIdOf(log)) ?? '';
    await createBatchStore(writer, 'chancery').prepare(logId);
    expect(await paths()).toEqual(before);
    const statements = () => rows('SELECT statement FROM chancery._migrations ORDER BY at, statement');
    const done = await statements();
    expect(done.length).toBeGreaterThan(5);
    await createBatchStore(writer, 'chancery').prepare(logId);
    expect(await statements()).toEqual(done);
  });

  test('guardrail verdicts have the same columns in a table of an earlier version', { timeout: 60_000 }, async () => {
    const columns = () =>
      rows(`SELECT name, type, comment FROM system.columns
        WHERE database = 'chancery' AND table = 'guardrail_verdicts' AND name != 'position' ORDER BY name`);
    const before = await columns();
    const say = (query: string) => writer.command({ query, clickhouse_settings: { mutations_sync: '1' } });
    await say('DROP TABLE chancery.guardrail_verdicts');
    const few = 'LowCardinality(String)';
    await say(`CREATE TABLE chancery.guardrail_verdicts (position UInt64, at DateTime64(6, 'UTC'),
      type ${few} COMMENT 'of the event', exchange_id String, request_id String, actor ${few}, auth_key_id ${few},
      user_path ${few}, guardrail ${few}, phase ${few}, verdict ${few}, reason String, data String, _retention_days UInt16)
      ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY (at, position)`);
    await say("ALTER TABLE chancery._migrations DELETE WHERE statement LIKE '%guardrail_verdicts%'");

    const store = createBatchStore(writer, 'chancery');
    await store.prepare((await logIdOf(log)) ?? '');
    const named = (all: Record<string, unknown>[]) => all.map(({ name, type }) => ({ name, type }));
    expect(named(await columns())).toEqual(named(before));
    expect((await columns()).find(({ name }) => name === 'type')).toEqual(before.find(({ name }) => name === 'type'));
  });
});
