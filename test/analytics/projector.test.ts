import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { copyTables, NothingToKeep } from '../../src/analytics/rebuild.ts';
import { parsePosition } from '../../src/events/event.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { type BatchStore, createBatchStore } from '../../src/projections/analytics/batch-store.ts';
import { type Projector, startProjector } from '../../src/projections/analytics/projector.ts';
import { tableChanges } from '../../src/projections/analytics/writer-fence.ts';
import { logIdOf } from '../../src/projections/snapshot-basis.ts';
import { countOf } from '../support/seed.ts';
import { type Embedded, hasChdb, startEmbedded } from './embedded.ts';
import { writeHistory } from './generated-history.ts';
import { figuresOfLog } from './log-figures.ts';
import { figuresInSql } from './sql-figures.ts';

const retention = { audit: 0, usage: 0 };
let embedded: Embedded;
let databases = 0;
const newDatabase = () => `analytics_${++databases}`;

describe.skipIf(!hasChdb)('the projector', () => {
  beforeAll(async () => {
    embedded = await startEmbedded({ databases: Array.from({ length: 99 }, (_, index) => `analytics_${index + 1}`) });
  });
  afterAll(() => embedded?.close());

  const storeIn = (database: string) => createBatchStore(embedded.clientOf('projector'), database);

  function project(log: MemoryLog, store: BatchStore, batchEvents: number): Projector {
    return startProjector({ log, store, retention, batchEvents, liveMs: 1, retryMs: 1 });
  }

  async function storedWhole(log: MemoryLog, projector: Projector): Promise<void> {
    await projector.whenStored(parsePosition(await log.head()));
  }

  const figures = (database: string, table?: 'usage' | 'usage_by_quarter_hour') =>
    figuresInSql(embedded.clientOf('gateway'), database, table);

  test('stores in SQL what the log holds, in the tables and in their rollup', { timeout: 60_000 }, async () => {
    const histories = fc.record({
      exchanges: fc.integer({ min: 1, max: 80 }),
      seed: fc.integer({ min: 0 }),
      batchEvents: fc.integer({ min: 20, max: 300 }),
    });
    await fc.assert(
      fc.asyncProperty(histories, async ({ batchEvents, ...history }) => {
        const database = newDatabase();
        const log = new MemoryLog();
        await writeHistory(log, history);
        const projector = project(log, storeIn(database), batchEvents);
        await storedWhole(log, projector);
        await projector.close();
        const expected = await figuresOfLog(log);
        expect(await figures(database)).toEqual(expected);
        expect(await figures(database, 'usage_by_quarter_hour')).toEqual(expected);
      }),
      { numRuns: countOf(2, 6) },
    );
  });

  test('continues from the stored batches, whatever was lost of the last one', { timeout: 60_000 }, async () => {
    const losses = fc.array(fc.constantFrom('before', 'after', 'announced', 'half'), { minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(losses, fc.integer({ min: 0 }), async (kinds, seed) => {
        const database = newDatabase();
        const log = new MemoryLog();
        await writeHistory(log, { exchanges: 100, seed });
        const failing = failingStore(storeIn(database), kinds);
        const projector = project(log, failing.store, 100);
        await storedWhole(log, projector);
        await projector.close();
        expect(failing.failed).toBe(kinds.length);
        expect(await figures(database)).toEqual(await figuresOfLog(log));
      }),
      { numRuns: countOf(1, 5) },
    );
  });

  test('stores appended events live, soon and once', { timeout: 60_000 }, async () => {
    const database = newDatabase();
    const log = new MemoryLog();
    const projector = project(log, storeIn(database), 1000);
    for (let seed = 1; seed <= 5; seed++) {
      await writeHistory(log, { exchanges: 3, seed });
      await storedWhole(log, projector);
      expect(await figures(database)).toEqual(await figuresOfLog(log));
    }
    expect(await projector.status()).toMatchObject({ lagEvents: 0, lagMs: 0 });
    await projector.close();
  });

  test('stores with all threads of ClickHouse until everything is stored, and with one from then on', async () => {
    const log = new MemoryLog();
    await writeHistory(log, { exchanges: 20, seed: 3 });
    const store = storeIn(newDatabase());
    const threads: unknown[] = [];
    const watched: BatchStore = {
      ...store,
      write(batch, logId, requested) {
        threads.push(requested);
        return store.write(batch, logId, requested);
      },
    };
    const projector = project(log, watched, 10_000);
    await expect.poll(async () => (await projector.status()).state).toBe('live');
    await writeHistory(log, { exchanges: 5, seed: 4 });
    await storedWhole(log, projector);
    await projector.close();
    expect(threads[0]).toBe('all');
    expect(threads.slice(1)).toContain('one');
    expect(threads.slice(1)).not.toContain('all');
  });

  test('is made anew from a position on: what goes before is copied, the rest comes from the log', {
    timeout: 60_000,
  }, async () => {
    const [database, beside] = [newDatabase(), newDatabase()];
    const log = new MemoryLog();
    await writeHistory(log, { exchanges: 100, seed: 5 });
    const first = project(log, storeIn(database), 100);
    await storedWhole(log, first);
    await first.close();
    const client = embedded.clientOf('projector');
    const expected = await figuresOfLog(log);
    // Both are wrong from here on: the first is copied, the second is computed again.
    const middle = Math.floor(parsePosition(await log.head()) / 2);
    const positions = await client.query({
      query: `SELECT min(position) AS early, max(position) AS late FROM ${database}.usage WHERE kind = 'recorded'`,
      format: 'JSONEachRow',
    });
    const [found] = await positions.json<{ early: number; late: number }>();
    const spoilt = [found?.early, found?.late].map(Number);
    const add = (where: string, tokens: number, positions: readonly number[]) =>
      client.command({
        query: `ALTER TABLE ${where}.usage UPDATE input_tokens = input_tokens + ${tokens}
          WHERE position IN (${positions.join(', ')}) SETTINGS mutations_sync = 2`,
      });
    await add(database, 1, spoilt);
    expect(await figures(database)).not.toEqual(expected);

    await storeIn(beside).prepare((await logIdOf(log)) ?? '');
    const source = { store: storeIn(database), from: database, into: beside };
    await expect(copyTables(client, { ...source, upTo: 3 })).rejects.toThrow(NothingToKeep);
    const kept = await copyTables(client, { ...source, upTo: middle });
    expect(kept).toBeGreaterThan(middle - 200);
    expect(kept).toBeLessThanOrEqual(middle);
    const stored: number[] = [];
    const onStored = ({ after }: { after: number }) => stored.push(after);
    const second = startProjector({ log, store: storeIn(beside), retention, batchEvents: 100, liveMs: 1, onStored });
    await storedWhole(log, second);
    await second.close();
    // The last of the batches that were kept is compared with the log, as after any start.
    expect(stored[1]).toBe(kept);
    expect(await figures(beside)).not.toEqual(expected);
    await add(beside, -1, spoilt.slice(0, 1));
    expect(await figures(beside)).toEqual(expected);
  });

  test('refuses a database that holds another log, with advice', async () => {
    const database = newDatabase();
    const first = new MemoryLog();
    await writeHistory(first, { exchanges: 2, seed: 1 });
    const one = project(first, storeIn(database), 10);
    await storedWhole(first, one);
    await one.close();
    const second = new MemoryLog();
    await writeHistory(second, { exchanges: 2, seed: 2 });
    const other = project(second, storeIn(database), 10);
    await expect(storedWhole(second, other)).rejects.toThrow(/holds another log; use a separate database for this log/);
    expect(await other.status()).toMatchObject({ state: 'stopped', position: 0 });
    await other.close();
  });

  test('has the state waiting while ClickHouse is down, and catches up', async () => {
    const database = newDatabase();
    const log = new MemoryLog();
    await writeHistory(log, { exchanges: 5, seed: 3 });
    const real = storeIn(database);
    const back = Promise.withResolvers<void>();
    const refusedOnce = Promise.withResolvers<void>();
    let isThere = false;
    back.promise.then(() => {
      isThere = true;
    });
    const store: BatchStore = {
      ...real,
      prepare: (logId) => {
        if (isThere) return real.prepare(logId);
        refusedOnce.resolve();
        return Promise.reject(new Error('connect ECONNREFUSED'));
      },
    };
    const projector = project(log, store, 10);
    await refusedOnce.promise;
    await expect.poll(() => projector.status()).toMatchObject({ state: 'waiting', error: 'connect ECONNREFUSED' });
    expect((await projector.status()).lagEvents).toBeGreaterThan(0);
    back.resolve();
    await storedWhole(log, projector);
    expect((await projector.status()).error).toBeUndefined();
    await projector.close();
    expect(await figures(database)).toEqual(await figuresOfLog(log));
  });

  test('adds the missing columns of a table of an older version, and leaves the rest alone', async () => {
    const database = newDatabase();
    const client = embedded.clientOf('projector');
    await client.command({ query: `CREATE DATABASE ${database}` });
    await client.command({
      query: `CREATE TABLE ${database}.admin_changes (position UInt64, id UUID, at DateTime64(6, 'UTC'), mine String,
        _retention_days UInt16) ENGINE = MergeTree ORDER BY (at, position)`,
    });
    const log = new MemoryLog();
    await writeHistory(log, { exchanges: 120, seed: 4 });
    const projector = project(log, storeIn(database), 50);
    await storedWhole(log, projector);
    await projector.close();
    expect(await figures(database)).toEqual(await figuresOfLog(log));
    const result = await client.query({
      query: `SELECT statement FROM ${database}._migrations`,
      format: 'JSONEachRow',
    });
    const statements = (await result.json<{ statement: string }>()).map(({ statement }) => statement);
    expect(statements).toContainEqual(expect.stringMatching(/^ALTER TABLE \S+\.admin_changes ADD COLUMN `subject`/));
    const changes = tableChanges.filter(([table]) => table === 'adminChanges').map(([, statement]) => statement);
    const changing = statements.filter((statement) => /^ALTER.*(DROP|MODIFY|UPDATE)/.test(statement));
    const known = changes.map((statement) => statement.replace('$table', 'admin_changes'));
    expect(changing.toSorted()).toEqual(known.toSorted());
  });

  test('removes what is older than the retention, in the rollup too', async () => {
    const database = newDatabase();
    const day = 24 * 3600_000;
    const log = new MemoryLog();
    await writeHistory(log, { exchanges: 60, seed: 6, from: Date.now() - 10 * day });
    const old = parsePosition(await log.head());
    await writeHistory(log, { exchanges: 40, seed: 8, from: Date.now() - day / 2 });
    const store = storeIn(database);
    const projector = startProjector({ log, store, retention: { audit: 5, usage: 5 }, liveMs: 1 });
    await storedWhole(log, projector);
    await projector.close();
    const client = embedded.clientOf('projector');
    for (const table of ['events', 'exchanges', 'usage', 'admin_changes', 'guardrail_verdicts']) {
      await client.command({ query: `OPTIMIZE TABLE ${database}.${table} FINAL` });
    }
    const query = `SELECT countIf(position <= ${old}) AS old, count() > 0 AS some FROM $ UNION ALL `;
    const expiring = ['events', 'exchanges', 'usage', 'guardrail_verdicts'];
    const kept = expiring.map((table) => query.replace('$', `${database}.${table}`)).join('');
    const rows = await client.query({ query: kept.replace(/ UNION ALL $/, ''), format: 'TabSeparated' });
    expect(await rows.text()).toBe('0\t1\n'.repeat(expiring.length));
    expect((await figures(database, 'usage_by_quarter_hour')).usage).toEqual((await figures(database)).usage);
    expect((await figures(database)).adminChanges).toBe((await figuresOfLog(log)).adminChanges);
  });

  test('keeps neither hashes of keys nor sealed secrets', async () => {
    const database = newDatabase();
    const log = new MemoryLog();
    await writeHistory(log, { exchanges: 150, seed: 5 });
    const projector = project(log, storeIn(database), 500);
    await storedWhole(log, projector);
    await projector.close();
    const query = `SELECT count() AS made, countIf(data LIKE '%f00d%') AS withSecret FROM ${database}.admin_changes
      WHERE type = 'key.created' UNION ALL SELECT count(), countIf(data LIKE '%f00d%') FROM ${database}.events WHERE type = 'key.created'`;
    const rows = await (await embedded.clientOf('gateway').query({ query, format: 'JSONEachRow' })).json<{
      made: number;
      withSecret: number;
    }>();
    expect(rows).toHaveLength(2);
    for (const row of rows)
      expect(row).toEqual({
        made: expect.toSatisfy((n) => Number(n) > 0),
        withSecret: expect.toSatisfy((n) => Number(n) === 0),
      });
  });
});

/** Fails once for each kind, at that moment of a batch, as if the process had died there. */
function failingStore(store: BatchStore, kinds: readonly string[]) {
  const left = [...kinds];
  let failed = 0;
  const failing: BatchStore = {
    ...store,
    async announce(batch, logId) {
      const kind = left[0];
      if (kind === 'before') fail();
      await store.announce(batch, logId);
      if (kind === 'announced') fail();
    },
    async write(batch, logId) {
      const kind = left[0];
      if (kind === 'half') {
        const rows = { ...batch.rows, usage: Object.create(batch.rows.usage, { count: { value: 0 } }) };
        await store.write({ ...batch, rows }, logId);
        fail();
      }
      await store.write(batch, logId);
      if (kind === 'after') fail();
    },
  };
  function fail(): never {
    left.shift();
    failed += 1;
    throw new Error('it died here');
  }
  return {
    store: failing,
    get failed() {
      return failed;
    },
  };
}
