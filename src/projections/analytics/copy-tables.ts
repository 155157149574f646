/** Copies the part of the tables that a rebuild keeps: whole batches, so that the projector continues after them. */
import type { ClickHouseClient } from '@clickhouse/client';
import { type BatchStore, batchColumns } from './batch-store.ts';
import { tableKeys, tables, valueColumns } from './tables.ts';

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
