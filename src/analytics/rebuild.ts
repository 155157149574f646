/** `chancery views rebuild analytics`: makes new tables from the log, which then replace the present ones. */
import type { Config } from '../config/config.ts';
import { formatPosition, parsePosition } from '../events/event.ts';
import { openLog } from '../events/open-log.ts';
import { createBatchStore } from '../projections/analytics/batch-store.ts';
import { copyTables } from '../projections/analytics/copy-tables.ts';
import { startProjector } from '../projections/analytics/projector.ts';
import { views } from '../projections/analytics/views.ts';
import { removeInputs } from '../projections/analytics/writer-fence.ts';
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
