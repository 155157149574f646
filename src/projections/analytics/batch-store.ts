/**
 * Stores batches in ClickHouse with `@clickhouse/client`: in a server, or in the embedded one behind its HTTP
 * interface.
 *
 * Each event is stored exactly once. A batch is announced in `_batches` (its range of the log) before its first row is
 * sent, and only after the batch before it has been stored whole. So at most the batch announced last is unfinished.
 * Its rows are identified by their place in the log (`rowId` of their table): rows that are stored already are kept, the others are sent.
 * The store first waits for rows that a lost connection may still deliver; as a second guard every insert carries a
 * deduplication token. Where gateways share the database, `writer-fence.ts` ends the inserts of the writer before.
 */
import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { ClickHouseClient, ClickHouseSettings } from '@clickhouse/client';
import type { FindAccounts, Range, RowBatch } from './batch.ts';
import { quoted } from './conditions.ts';
import { type Column, type Table, type TableKey, tableKeys, tables, valueColumns } from './tables.ts';
import type { TsvRows } from './tsv.ts';
import type { UsageRowAccount } from './usage-rows.ts';
import { type FencedTable, tableChanges, type View, views, WriterFence } from './writer-fence.ts';

/** The existing parts of a table, by name. */
interface Existing {
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

function createTable(database: string, table: Table): string {
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
function additions(database: string, table: Table, existing: Existing): string[] {
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

function createView(database: string, view: View): string {
  const select = view.select.replaceAll('$db', database);
  return `CREATE OR REPLACE VIEW ${database}.${view.name} AS ${select} COMMENT ${quoted(view.about)}`;
}

function declaration({ name, type, codec, madeOf, before, about }: Column): string {
  const made = madeOf === undefined ? '' : ` MATERIALIZED ${madeOf}`;
  const otherwise = before === undefined ? '' : ` DEFAULT ${before}`;
  return `\`${name}\` ${type}${made}${otherwise} COMMENT ${quoted(about)}${codec === undefined ? '' : ` CODEC(${codec})`}`;
}

/** Incremented when the same event makes other rows: the tables must then be rebuilt. */
export const projectionVersion = 1;

export interface BatchStore {
  /** Creates missing parts of the database, and waits for inserts that are still running. @throws OtherLog, NewerWriter */
  prepare(logId: string): Promise<void>;
  /**
   * The checkpoint of the tables: the batch announced last, which may be stored in part. Undefined when there is none.
   */
  lastAnnouncedBatch(): Promise<Range | undefined>;
  /** End of the last batch that is stored whole and ends at or before this position; undefined without one. */
  wholeUpTo(position: number): Promise<number | undefined>;
  announce(batch: RowBatch, logId: string): Promise<void>;
  /**
   * Stores all rows of a batch that was announced by this process and of which nothing was sent.
   * @param threads of ClickHouse that work on an insert at once. `all`, the default, takes less time on idle processors.
   */
  write(batch: RowBatch, logId: string, threads?: InsertThreads): Promise<void>;
  /** Stores those rows of an announced batch that are not stored yet. @returns their number */
  complete(batch: RowBatch): Promise<number>;
  readonly findAccounts: FindAccounts;
}

export type InsertThreads = 'one' | 'all';

const threadSettings: Readonly<Record<InsertThreads, ClickHouseSettings>> = {
  one: { max_threads: 1, max_insert_threads: '1', input_format_parallel_parsing: 0 },
  all: {},
};

export class OtherLog extends Error {
  readonly code = 'analytics_other_log';
  constructor(database: string, why: string) {
    super(
      `database ${database} ${why}; use a separate database for this log, or drop that database to have it rebuilt`,
    );
  }
}

/** Of `_batches`; when each was announced is set by ClickHouse. */
export const batchColumns = ['after', 'to', 'resume_after', 'events', 'log', 'version'] as const;

const idsPerQuery = 2000;
const inFlightPollMs = 500;
const inFlightPatienceMs = 120_000;

/**
 * @param database a plain name
 * @param epoch of this writer, where gateways share the database one after another. Without it, nothing else may write.
 */
export function createBatchStore(client: ClickHouseClient, database: string, epoch?: number): BatchStore {
  const batches = `${database}._batches`;
  const fence = epoch === undefined ? undefined : new WriterFence(client, database, epoch);

  async function rowsOf<Row>(query: string, parameters: Record<string, unknown> = {}): Promise<Row[]> {
    const result = await client.query({ query, format: 'JSONEachRow', query_params: parameters });
    return result.json<Row>();
  }

  async function insert(
    table: string,
    columns: readonly string[],
    values: Buffer,
    token: string,
    threads: InsertThreads = 'all',
  ): Promise<void> {
    await client.insert({
      table: `${database}.${fence?.inputOf(table) ?? table}`,
      columns: [columns[0] ?? '', ...columns.slice(1)],
      values: Readable.from([values], { objectMode: false }),
      format: 'TabSeparated',
      clickhouse_settings: {
        insert_deduplication_token: token,
        async_insert: 0,
        materialize_skip_indexes_on_insert: 0,
        ...threadSettings[threads],
      },
    });
  }

  async function send(key: TableKey, rows: Buffer, token: string, threads?: InsertThreads): Promise<void> {
    const table = tables[key];
    await insert(table.name, valueColumns(table), rows, `${token}:${table.name}`, threads);
  }

  async function createTables(): Promise<void> {
    await client.command({ query: `CREATE DATABASE IF NOT EXISTS ${database}` });
    await client.command({ query: createBatches(database) });
    await client.command({ query: createMigrations(database) });
    const existing = await existingTables();
    for (const key of tableKeys) {
      const table = tables[key];
      const there = existing.get(table.name);
      const statements = there === undefined ? [createTable(database, table)] : additions(database, table, there);
      for (const statement of statements) await migrate(statement);
      await applyChanges(key, there === undefined);
    }
    for (const view of views) await client.command({ query: createView(database, view) });
  }

  async function migrate(statement: string): Promise<void> {
    await client.command({ query: statement });
    await noteMigration(statement);
  }

  async function noteMigration(statement: string): Promise<void> {
    const row = { version: projectionVersion, statement };
    await client.insert({ table: `${database}._migrations`, values: [row], format: 'JSONEachRow' });
  }

  /** @param isNew the table needs none of the changes, now and later */
  async function applyChanges(key: TableKey, isNew: boolean): Promise<void> {
    const { name } = tables[key];
    for (const [table, statement] of tableChanges) {
      if (table !== key) continue;
      // Recorded under this name for every database name: a rebuild renames the database.
      const change = statement.replace('$table', name);
      const noted = [change, `-- not needed: ${change}`];
      const query = `SELECT count() AS n FROM ${database}._migrations WHERE has({noted: Array(String)}, statement)`;
      const [done] = await rowsOf<{ n: string | number }>(query, { noted });
      if (Number(done?.n ?? 0) > 0) continue;
      if (!isNew) {
        const sql = statement.replace('$table', `${database}.${name}`);
        // No query reads a table that is half changed.
        await client.command({ query: sql, clickhouse_settings: { mutations_sync: '1' } });
      }
      await noteMigration(isNew ? `-- not needed: ${change}` : change);
    }
  }

  async function existingTables(): Promise<ReadonlyMap<string, Existing>> {
    const found = new Map<string, { columns: Set<string>; indexes: Set<string>; projections: Set<string> }>();
    const sources = { columns: 'columns', indexes: 'data_skipping_indices', projections: 'projections' } as const;
    for (const [kind, source] of [
      ['columns', sources.columns],
      ['indexes', sources.indexes],
      ['projections', sources.projections],
    ] as const) {
      const query = `SELECT table, name FROM system.${source} WHERE database = {database: String}`;
      for (const { table, name } of await rowsOf<{ table: string; name: string }>(query, { database })) {
        const existing = found.get(table) ?? { columns: new Set(), indexes: new Set(), projections: new Set() };
        existing[kind].add(name);
        found.set(table, existing);
      }
    }
    return found;
  }

  /** An insert whose sender has died may still be running. */
  async function waitForInserts(): Promise<void> {
    const query = `SELECT count() AS n FROM system.processes
      WHERE query_kind = 'Insert' AND position(query, {prefix: String}) > 0`;
    const until = performance.now() + inFlightPatienceMs;
    for (;;) {
      const [row] = await rowsOf<{ n: string | number }>(query, { prefix: `${database}.` });
      if (Number(row?.n ?? 0) === 0) return;
      if (performance.now() > until) throw new Error(`an insert into ${database} is still running`);
      await delay(inFlightPollMs);
    }
  }

  return {
    async prepare(logId) {
      await createTables();
      const [other] = await rowsOf<{ log: string }>(`SELECT log FROM ${batches} WHERE log != {log: String} LIMIT 1`, {
        log: logId,
      });
      if (other !== undefined) throw new OtherLog(database, 'holds another log');
      await fence?.take([batchesTable, ...tableKeys.map((key) => tables[key])]);
      await waitForInserts();
    },
    async lastAnnouncedBatch() {
      type Row = { after: string; to: string; resume_after: string };
      const query = `SELECT after, to, resume_after FROM ${batches} ORDER BY after DESC, to DESC LIMIT 1`;
      const [row] = await rowsOf<Row>(query);
      if (row === undefined) return undefined;
      return { after: Number(row.after), to: Number(row.to), resumeAfter: Number(row.resume_after) };
    },
    async wholeUpTo(position) {
      // The batch announced last may be unfinished.
      const query = `SELECT max(to) AS end, count() AS n FROM ${batches}
        WHERE to <= {position: UInt64} AND after < (SELECT max(after) FROM ${batches})`;
      const [row] = await rowsOf<{ end: string | number; n: string | number }>(query, { position });
      return row === undefined || Number(row.n) === 0 ? undefined : Number(row.end);
    },
    async announce({ after, to, resumeAfter, events }, logId) {
      const row = `${after}\t${to}\t${resumeAfter}\t${events}\t${logId}\t${projectionVersion}\n`;
      // A new token each time: a token whose row was lost in a crash must not prevent a second announcement.
      await insert('_batches', batchColumns, Buffer.from(row), `chancery:announced:${randomUUID()}`);
    },
    async write(batch, logId, threads) {
      const token = `chancery:${projectionVersion}:${logId}:${batch.after}-${batch.to}`;
      // One after the other: in parallel they take as long, and more processor time.
      for (const key of tableKeys) {
        const rows = batch.rows[key];
        if (rows.count > 0) await send(key, rows.all(), token, threads);
      }
    },
    async complete(batch) {
      const token = `chancery:again:${randomUUID()}`;
      let sent = 0;
      for (const key of tableKeys) sent += await sendMissing(key, batch.rows[key], batch, token);
      return sent;
    },
    async findAccounts(usageIds, upTo) {
      const found = new Map<string, UsageRowAccount>();
      for (let at = 0; at < usageIds.length; at += idsPerQuery) {
        const ids = usageIds.slice(at, at + idsPerQuery);
        const rows = await rowsOf<AccountRow>(accountsQuery(database), { ids, upTo });
        for (const row of rows) found.set(row.id, accountOfRow(row));
      }
      return found;
    },
  };

  async function sendMissing(key: TableKey, rows: TsvRows, { after, to }: Range, token: string): Promise<number> {
    if (rows.count === 0) return 0;
    const { name, rowId = 'position' } = tables[key];
    const query = `SELECT ${rowId} AS id FROM ${database}.${name}
      WHERE position > {after: UInt64} AND position <= {to: UInt64}`;
    const there = await rowsOf<{ id: string | number }>(query, { after, to });
    const ids = new Set(there.map(({ id }) => Number(id)));
    const missing = rows.without(ids);
    if (missing.length > 0) await send(key, missing, token);
    return rows.count - ids.size;
  }
}

/** The columns of `_batches` that are sent. */
const batchesTable: FencedTable = {
  name: '_batches',
  columns: batchColumns.map((name) => {
    const type = name === 'log' ? 'String' : name === 'version' ? 'UInt32' : 'UInt64';
    return { name, type, about: '' };
  }),
};

function createBatches(database: string): string {
  return `CREATE TABLE IF NOT EXISTS ${database}._batches (
  after UInt64 COMMENT 'the batch is the events after this position',
  to UInt64 COMMENT 'up to and including this one',
  resume_after UInt64 COMMENT 'where reading the log begins again to know what was open at the start of the batch',
  events UInt64 COMMENT 'in the batch',
  log String COMMENT 'id of the first event of the log',
  version UInt32 COMMENT 'of the projection that made it',
  at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'when it was announced'
)
ENGINE = MergeTree
ORDER BY after
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Ranges of the log that were projected, each announced before its rows; all but the last are stored whole.'`;
}

function createMigrations(database: string): string {
  return `CREATE TABLE IF NOT EXISTS ${database}._migrations (
  at DateTime64(3, 'UTC') DEFAULT now64(3),
  version UInt32,
  statement String
)
ENGINE = MergeTree
ORDER BY at
COMMENT 'Statements that made these tables what they are.'`;
}

interface AccountRow extends Omit<UsageRowAccount, 'costs'> {
  readonly id: string;
  readonly input: string;
  readonly output: string;
  readonly total: string;
  readonly inputKnown: number | string;
  readonly outputKnown: number | string;
  readonly totalKnown: number | string;
}

/** Amounts as text: they may not fit into a JSON number. */
function accountsQuery(database: string): string {
  return `SELECT toString(usage_id) AS id,
  anyIf(u.request_id, u.kind = 'recorded') AS requestId, anyIf(u.actor, u.kind = 'recorded') AS actor,
  anyIf(u.auth_key_id, u.kind = 'recorded') AS keyId, anyIf(u.user_path, u.kind = 'recorded') AS userPath,
  anyIf(u.cache_type, u.kind = 'recorded') AS cacheType,
  toString(sum(u.input_cost)) AS input, toString(sum(u.output_cost)) AS output, toString(sum(u.total_cost)) AS total,
  sum(u.input_priced) AS inputKnown, sum(u.output_priced) AS outputKnown, sum(u.priced) AS totalKnown
FROM ${database}.usage AS u
WHERE u.usage_id IN {ids: Array(UUID)} AND u.position <= {upTo: UInt64}
GROUP BY usage_id
HAVING countIf(u.kind = 'recorded') > 0`;
}

function accountOfRow(row: AccountRow): UsageRowAccount {
  const { requestId, actor, keyId, userPath, cacheType } = row;
  const amount = (text: string, known: number | string) => (Number(known) === 0 ? null : BigInt(text));
  const costs = {
    input: amount(row.input, row.inputKnown),
    output: amount(row.output, row.outputKnown),
    total: amount(row.total, row.totalKnown),
  };
  return { requestId, actor, keyId, userPath, cacheType, costs };
}
