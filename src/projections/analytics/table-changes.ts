/**
 * Statements that convert tables of earlier versions to the present content of rows, each run once.
 * Columns that are only added need none (see table-statements.ts).
 */
import type { TableKey } from './tables.ts';

export interface TableChange {
  readonly table: TableKey;
  /** `$table` stands for the table with its database. */
  readonly statement: string;
}

/** Requests of callers without a user path were stored with an empty one. */
const rootForEmpty = "ALTER TABLE $table UPDATE user_path = '/' WHERE user_path = ''";
/** So were events and changes without a user path. */
const nullable = 'ALTER TABLE $table MODIFY COLUMN user_path LowCardinality(Nullable(String))';
const nullForEmpty = "ALTER TABLE $table UPDATE user_path = NULL WHERE user_path = ''";

/** Columns from the time before guardrails ran, when the table had no rows. */
const dropReason = 'ALTER TABLE $table DROP COLUMN IF EXISTS reason';
const typeOfGuardrail = "ALTER TABLE $table COMMENT COLUMN type 'type of the guardrail, such as `pii`'";
const dropData = 'ALTER TABLE $table DROP COLUMN IF EXISTS data';

/** Replaced by `sums_by_quarter_hour`, which also sums what cached answers saved. */
const dropSums = 'ALTER TABLE $table DROP PROJECTION IF EXISTS by_quarter_hour';
const makeSums = 'ALTER TABLE $table MATERIALIZE PROJECTION sums_by_quarter_hour';

/** In the order in which they are run; only ever added to, at the end. */
export const tableChanges: readonly TableChange[] = [
  { table: 'exchanges', statement: rootForEmpty },
  { table: 'usage', statement: rootForEmpty },
  { table: 'guardrailVerdicts', statement: rootForEmpty },
  { table: 'events', statement: nullable },
  { table: 'events', statement: nullForEmpty },
  { table: 'adminChanges', statement: nullable },
  { table: 'adminChanges', statement: nullForEmpty },
  { table: 'guardrailVerdicts', statement: dropReason },
  { table: 'guardrailVerdicts', statement: dropData },
  { table: 'guardrailVerdicts', statement: typeOfGuardrail },
  { table: 'usage', statement: dropSums },
  { table: 'usage', statement: makeSums },
];
