/** Spending up to a past time, from usage reports: the recorded state of that time has limits only. */
import { type Answer, getAnswer } from '../../api/client.ts';
import type { BudgetRow } from './budget-row.ts';
import { rowKey } from './rule-name.ts';
import { type SpentBy, spentOn } from './spent-on.ts';

/** Rows that a report has at most: with so many, some may be missing. */
const MOST_ROWS = 5000;

/**
 * The spending of each budget from the beginning of its period to `stateAt`, by `rowKey`. Two reports for each beginning,
 * independent of the number of budgets. A budget is missing where a report is cut.
 */
export async function readPastSpending(
  rows: readonly BudgetRow[],
  stateAt: string,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, number>> {
  const spent = new Map<string, number>();
  for (const [from, ofStart] of Map.groupBy(rows, ({ period_start: start }) => start)) {
    const usage = from < stateAt ? await usageOf(ofStart, { from, to: stateAt }, signal) : [];
    for (const row of ofStart) if (usage !== undefined) spent.set(rowKey(row), spentOn(row, usage));
  }
  return spent;
}

async function usageOf(
  rows: readonly BudgetRow[],
  query: { readonly from: string; readonly to: string },
  signal: AbortSignal,
): Promise<SpentBy[] | undefined> {
  const has = (wanted: SpentBy['scope']) => rows.some(({ scope }) => scope === wanted);
  const noRows: Answer<'/admin/usage/user-paths'> & Answer<'/admin/usage/labels'> = [];
  const [paths, labels] = await Promise.all([
    has('user_path') ? getAnswer('/admin/usage/user-paths', { query, signal }) : noRows,
    has('label') ? getAnswer('/admin/usage/labels', { query, signal }) : noRows,
  ]);
  if (paths.length >= MOST_ROWS || labels.length >= MOST_ROWS) return undefined;
  return [
    ...paths.map((row) => ({ scope: 'user_path', subject: row.user_path, cost: row.total_cost }) as const),
    ...labels.map((row) => ({ scope: 'label', subject: row.label, cost: row.total_cost }) as const),
  ];
}
