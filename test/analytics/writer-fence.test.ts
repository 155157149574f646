/** Gateways that write into one ClickHouse, one after another: what an earlier writer still sends is stored once or not at all. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parsePosition } from '../../src/events/event.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { type BatchStore, createBatchStore } from '../../src/projections/analytics/batch-store.ts';
import { type Projector, startProjector } from '../../src/projections/analytics/projector.ts';
import { NewerWriter } from '../../src/projections/analytics/writer-fence.ts';
import { logIdOf } from '../../src/projections/snapshot-basis.ts';
import { countOf } from '../support/seed.ts';
import { type Embedded, hasChdb, startEmbedded } from './embedded.ts';
import { writeHistory } from './generated-history.ts';
import { figuresOfLog } from './log-figures.ts';
import { figuresInSql } from './sql-figures.ts';

describe.skipIf(!hasChdb)('writers into one ClickHouse', () => {
  let embedded: Embedded;
  beforeAll(async () => {
    embedded = await startEmbedded({ databases: ['one', 'two', 'three'] });
  });
  afterAll(() => embedded?.close());

  const storeOf = (database: string, epoch: number) =>
    createBatchStore(embedded.clientOf('projector'), database, epoch);

  function project(log: MemoryLog, store: BatchStore): Projector {
    return startProjector({ log, store, retention: { audit: 0, usage: 0 }, batchEvents: 100, liveMs: 1, retryMs: 1 });
  }

  async function storedWhole(log: MemoryLog, projector: Projector): Promise<void> {
    await projector.whenStored(parsePosition(await log.head()));
  }

  test('a writer that is replaced between the announcement of a batch and its rows stores nothing', async () => {
    const log = new MemoryLog();
    await writeHistory(log, { exchanges: 60, seed: 7 });
    const logId = (await logIdOf(log)) ?? '';
    const first = storeOf('one', 10);
    const paused = Promise.withResolvers<void>();
    const resumed = Promise.withResolvers<void>();
    let batches = 0;
    const failures: string[] = [];
    const earlier = startProjector({
      log,
      retention: { audit: 0, usage: 0 },
      batchEvents: 100,
      liveMs: 1,
      retryMs: 1,
      onError: ({ message }) => failures.push(message),
      store: {
        ...first,
        async write(...args) {
          if (++batches === 2) {
            paused.resolve();
            await resumed.promise;
          }
          await first.write(...args);
        },
      },
    });
    await paused.promise;
    const later = project(log, storeOf('one', 20));
    await storedWhole(log, later);
    resumed.resolve();
    await expect.poll(async () => (await earlier.status()).state).toBe('stopped');
    expect(failures.at(-1)).toContain('a newer writer');
    await writeHistory(log, { exchanges: 10, seed: 8 });
    await storedWhole(log, later);
    await Promise.all([earlier.close(), later.close()]);
    const gateway = embedded.clientOf('gateway');
    expect(await figuresInSql(gateway, 'one')).toEqual(await figuresOfLog(log));
    expect(await figuresInSql(gateway, 'one', 'usage_by_quarter_hour')).toEqual(await figuresOfLog(log));
    await expect(first.announce({ ...(await emptyBatch(first)), events: 0 }, logId)).rejects.toThrow(/_input_10_/);
  }, 60_000);

  async function emptyBatch(store: BatchStore) {
    const last = await store.lastAnnouncedBatch();
    if (last === undefined) throw new Error('no batch is announced');
    return { ...last, rows: {} } as never as Parameters<BatchStore['announce']>[0];
  }

  test('a writer with a lower epoch does not begin, and leaves the other one alone', async () => {
    const log = new MemoryLog();
    await writeHistory(log, { exchanges: 20, seed: 3 });
    const logId = (await logIdOf(log)) ?? '';
    const later = project(log, storeOf('two', 30));
    await storedWhole(log, later);
    await expect(storeOf('two', 29).prepare(logId)).rejects.toThrow(NewerWriter);
    await writeHistory(log, { exchanges: 20, seed: 4 });
    await storedWhole(log, later);
    await later.close();
    expect(await figuresInSql(embedded.clientOf('gateway'), 'two')).toEqual(await figuresOfLog(log));
  }, 60_000);

  test('many handovers at any time leave each row once', async () => {
    const log = new MemoryLog();
    const all: Projector[] = [];
    for (let epoch = 1; epoch <= countOf(3, 6); epoch++) {
      await writeHistory(log, { exchanges: 40, seed: epoch });
      // The earlier ones are not told.
      all.push(project(log, storeOf('three', epoch)));
    }
    const last = all.at(-1) as Projector;
    await storedWhole(log, last);
    for (const one of all) await one.close();
    expect(await figuresInSql(embedded.clientOf('gateway'), 'three')).toEqual(await figuresOfLog(log));
  }, 120_000);
});
