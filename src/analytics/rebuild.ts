/** `chancery views rebuild analytics`: makes new tables from the log, which then replace the present ones. */
import type { ClickHouseClient } from '@clickhouse/client';
import type { Config } from '../config/config.ts';
import { formatPosition, parsePosition } from '../events/event.ts';
import { openLog } from '../events/open-log.ts';
import { type BatchStore, batchColumns, createBatchStore } from '../projections/analytics/batch-store.ts';
import { startProjector } from '../projections/analytics/projector.ts';
import { tableKeys, tables, valueColumns } from '../projections/analytics/tables.ts';
import { removeInputs, views } from '../projections/analytics/writer-fence.ts';
import { logIdOf } from '../projections/snapshot-basis.ts';
import { analyticsFolder } from './launch.ts';
import { lockForAnalytics, writingAccess } from './writing-access.ts';

export interface RebuildOptions {
  /** Rows made of the events up to this position are kept. Default: none. */
  readonly from?: number | undefined;
  readonly signal: AbortSignal;
  /** Called with each batch that is stored. */
  readonly onProgress: (position: string, head: string) => void;
}

/**
 * Resolves to the position up to which the new tables go. Until they are whole, the old ones are unchanged; if the
 * process ends between the two renamings, the next analytics process begins with no tables and makes them.
 * @throws NothingToKeep, or Error when an analytics process runs on this data folder, ClickHouse cannot be reached, or an event is poisoned
 */
export async function rebuildAnalytics(config: Config, { from, signal, onProgress }: RebuildOptions): Promise<string> {
  const { analytics, log: where } = config;
  const { database } = analytics.clickhouse;
  const beside = `${database}_rebuild`;
  const before = `${database}_before`;
  const folder = analyticsFolder(config);
  const lock = lockForAnalytics(folder);
  try {
    const { client, close } = await writingAccess(config, folder, {
      databases: [database, beside, before],
      drop: true,
    });
    const sourceLog = await openLog(where.readUrl, { readOnly: true });
    try {
      const head = await sourceLog.head();
      const logId = await logIdOf(sourceLog);
      if (logId === undefined) throw new Error('the log is empty: no tables can be built');
      const say = async (query: string) => void (await client.command({ query }));
      await say(`DROP DATABASE IF EXISTS ${beside}`);
      const failed = Promise.withResolvers<never>();
      failed.promise.catch(() => {});
      signal.throwIfAborted();
      signal.addEventListener('abort', () => failed.reject(signal.reason), { once: true });
      if (from !== undefined) {
        for (const each of [database, beside]) await createBatchStore(client, each).prepare(logId);
        const store = createBatchStore(client, database);
        await copyTables(client, { store, from: database, into: beside, upTo: from });
      }
      const projector = startProjector({
        log: sourceLog,
        store: createBatchStore(client, beside),
        retention: analytics.retention,
        onStored: ({ to }) => onProgress(formatPosition(to), head),
        onError: failed.reject,
      });
      try {
        await Promise.race([projector.whenStored(parsePosition(head)), failed.promise]);
      } finally {
        await projector.close();
      }
      // Views name the database they were made in.
      for (const { name } of views) await say(`DROP VIEW ${beside}.${name}`);
      await removeInputs(client, database);
      await say(`DROP DATABASE IF EXISTS ${before}`);
      await say(`CREATE DATABASE IF NOT EXISTS ${database}`);
      await say(`RENAME DATABASE ${database} TO ${before}`);
      await say(`RENAME DATABASE ${beside} TO ${database}`);
      await createBatchStore(client, database).prepare(logId);
      await say(`DROP DATABASE ${before}`);
      return head;
    } finally {
      await sourceLog.close();
      await close();
    }
  } finally {
    lock.release();
  }
}

/** No batch that is stored whole ends at or before the requested position. */
export class NothingToKeep extends Error {
  readonly code = 'analytics_nothing_to_keep';
}

/**
 * Copies all rows of one database up to the end of the last whole batch at or before the position.
 * @param into where there are no rows yet, its tables made by `prepare`
 * @returns the position up to which there are rows
 * @throws NothingToKeep
 */
export async function copyTables(
  client: ClickHouseClient,
  { store, from, into, upTo }: { store: BatchStore; from: string; into: string; upTo: number },
): Promise<number> {
  const end = await store.wholeUpTo(upTo);
  if (end === undefined) {
    throw new NothingToKeep(`database ${from} has no whole batch that ends at or before position ${upTo}`);
  }
  const copy = (table: string, columns: readonly string[], position: string) =>
    client.command({
      query: `INSERT INTO ${into}.${table} (${columns.join(', ')})
        SELECT ${columns.join(', ')} FROM ${from}.${table} WHERE ${position} <= {end: UInt64}`,
      query_params: { end },
    });
  for (const key of tableKeys) {
    const columns = valueColumns(tables[key]).map((name) => `\`${name}\``);
    await copy(tables[key].name, columns, 'position');
  }
  await copy('_batches', batchColumns, 'to');
  return end;
}
