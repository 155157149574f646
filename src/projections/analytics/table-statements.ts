/** The statements that create a table, and that add its missing parts. They never remove or change anything. */
import { quoted } from './sql-literal.ts';
import type { Column, Table } from './tables.ts';
import type { View } from './views.ts';

/** The existing parts of a table, by name. */
export interface Existing {
  readonly columns: ReadonlySet<string>;
  readonly indexes: ReadonlySet<string>;
  readonly projections: ReadonlySet<string>;
}

/**
 * ClickHouse recognises a batch that is sent twice by its token (see `batch-store.ts`); a single server remembers
 * tokens only with `non_replicated_deduplication_window`. Parts are synced when they are written: a batch that the
 * batch table lists as stored is on disk.
 */
const settings = [
  'non_replicated_deduplication_window = 1000',
  'fsync_after_insert = 1',
  'fsync_part_directory = 1',
  'ttl_only_drop_parts = 0',
  'min_bytes_for_wide_part = 67108864',
  'min_columns_to_activate_adaptive_write_buffer = 1',
];

export function createTable(database: string, table: Table): string {
  const parts = [
    ...table.columns.map(declaration),
    ...Object.entries(table.indexes ?? {}).map(([name, index]) => `INDEX ${name} ${index}`),
    ...Object.entries(table.projections ?? {}).map(([name, select]) => `PROJECTION ${name} (${select})`),
  ];
  return `CREATE TABLE IF NOT EXISTS ${database}.${table.name} (\n  ${parts.join(',\n  ')}\n)
ENGINE = MergeTree
PARTITION BY toYYYYMM(${table.time})
ORDER BY (${table.orderBy})
TTL toDateTime(${table.time}) + toIntervalDay(_retention_days) DELETE WHERE _retention_days > 0
SETTINGS ${settings.join(', ')}
COMMENT ${quoted(table.about)}`;
}

/** One statement for each thing that the table lacks. */
export function additions(database: string, table: Table, existing: Existing): string[] {
  const alter = `ALTER TABLE ${database}.${table.name} ADD`;
  const lacking = (has: ReadonlySet<string>, wanted: Readonly<Record<string, string>> | undefined) =>
    Object.entries(wanted ?? {}).filter(([name]) => !has.has(name));
  return [
    ...table.columns
      .filter(({ name }) => !existing.columns.has(name))
      .map((column) => `${alter} COLUMN ${declaration(column)}`),
    ...lacking(existing.indexes, table.indexes).map(([name, index]) => `${alter} INDEX ${name} ${index}`),
    ...lacking(existing.projections, table.projections).map(
      ([name, select]) => `${alter} PROJECTION ${name} (${select})`,
    ),
  ];
}

export function createView(database: string, view: View): string {
  const select = view.select.replaceAll('$db', database);
  return `CREATE OR REPLACE VIEW ${database}.${view.name} AS ${select} COMMENT ${quoted(view.about)}`;
}

function declaration({ name, type, codec, madeOf, before, about }: Column): string {
  const made = madeOf === undefined ? '' : ` MATERIALIZED ${madeOf}`;
  const otherwise = before === undefined ? '' : ` DEFAULT ${before}`;
  return `\`${name}\` ${type}${made}${otherwise} COMMENT ${quoted(about)}${codec === undefined ? '' : ` CODEC(${codec})`}`;
}
