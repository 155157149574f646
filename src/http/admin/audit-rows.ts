/** Rows of requests with what belongs to them in other tables. */
import type { AnalyticsDb } from '../../projections/analytics/analytics-db.ts';
import { usageOfRequests } from '../../projections/analytics/audit-queries.ts';
import type { ExchangeRow } from '../../projections/analytics/exchange-row.ts';
import { verdictsOfRequests } from '../../projections/analytics/verdict-queries.ts';
import { slimEntry } from './audit-entry.ts';

/** The entries of lists, in the order of the rows. @throws AnalyticsUnavailable */
export async function slimEntries(
  db: AnalyticsDb,
  rows: readonly ExchangeRow[],
  signal: AbortSignal,
): Promise<Record<string, unknown>[]> {
  const [usage, verdicts] = await Promise.all([
    usageOfRequests(db, rows, signal),
    verdictsOfRequests(db, rows, signal),
  ]);
  return rows.map((row) => slimEntry(row, { usage: usage.get(row.id), verdicts: verdicts.get(row.id) }));
}
