/**
 * One of several writers at a time, where gateways share a ClickHouse. Each writer has an epoch, and inputs of its own: tables
 * without data, whose rows a materialized view passes on to the table. A writer notes its epoch, then removes
 * the inputs of all others, and waits for inserts that are running. So an insert of an earlier writer is found as running, or fails
 * because its table is gone, however long that writer was paused.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import { costColumns, savedColumns, type Table, type TableKey, tokenColumns } from './tables.ts';

/** Views over the tables, for frequent queries. */
export interface View {
  readonly name: string;
  readonly about: string;
  /** `$db` stands for the database. */
  readonly select: string;
  /** Type and description of columns that are not those of a table. */
  readonly computed?: Readonly<Record<string, { readonly type: string; readonly about: string }>>;
}

const summed = [...tokenColumns.slice(0, 7), ...costColumns, ...savedColumns].map(
  (column) => `sum(u.${column.name}) AS ${column.name}`,
);

export const views: readonly View[] = [
  {
    name: 'usage_by_quarter_hour',
    about:
      'Usage summed by quarter of an hour (time zone offsets are multiples of it), user path, key, provider, model, ' +
      'endpoint and cache. Answered from the aggregate that is kept inside the parts of `usage`.',
    select: `SELECT toStartOfFifteenMinutes(u.at) AS quarter_hour, u.user_path AS user_path, u.auth_key_id AS auth_key_id,
      u.provider AS provider, u.provider_type AS provider_type, u.model AS model, u.endpoint AS endpoint,
      u.cache_type AS cache_type, sum(u.requests) AS requests, ${summed.join(', ')}
      FROM $db.usage AS u
      GROUP BY quarter_hour, user_path, auth_key_id, provider, provider_type, model, endpoint, cache_type`,
  },
  {
    name: 'attempts',
    about: 'One row for each call to a provider.',
    select: `SELECT e.id AS exchange_id, e.at AS at, e.request_id AS request_id, e.user_path AS user_path,
      e.auth_key_id AS auth_key_id, e.requested_model AS requested_model, e.outcome AS outcome,
      \`attempts.number\` AS number, \`attempts.kind\` AS kind, \`attempts.provider\` AS provider,
      \`attempts.provider_type\` AS provider_type, \`attempts.model\` AS model, \`attempts.dialect\` AS dialect,
      \`attempts.started_ms\` AS started_ms, \`attempts.failed\` AS failed, \`attempts.status\` AS status,
      \`attempts.code\` AS code, \`attempts.message\` AS message
      FROM $db.exchanges AS e
      ARRAY JOIN \`attempts.number\`, \`attempts.kind\`, \`attempts.provider\`, \`attempts.provider_type\`,
      \`attempts.model\`, \`attempts.dialect\`, \`attempts.started_ms\`, \`attempts.failed\`, \`attempts.status\`,
      \`attempts.code\`, \`attempts.message\``,
  },
  {
    name: 'tool_calls',
    about:
      'One row for each call of a tool at an MCP server, written when it has ended. Refused calls that the log counts in one ' +
      'event are only in `exchanges`.',
    computed: {
      server: { type: 'String', about: 'slug of the MCP server' },
      tool: { type: 'String', about: 'name of the tool at its server' },
      status: {
        type: 'String',
        about:
          '`ok`; `tool_error` when the tool or its server answered with an error; else the outcome: `failed`, `refused` or ' +
          '`disconnected`, with the reason in `error_code`',
      },
    },
    // The requested model of a call is `<slug>/<tool>`.
    select: `SELECT e.at AS at, e.id AS exchange_id, substringIndex(e.requested_model, '/', 1) AS server,
      substring(e.requested_model, length(substringIndex(e.requested_model, '/', 1)) + 2) AS tool,
      multiIf(e.outcome = 'completed' AND e.tool_error = 0, 'ok',
        e.outcome = 'completed' OR e.error_code = 'tool_error', 'tool_error', e.outcome) AS status,
      e.status AS http_status, e.error_code AS error_code, e.error_message AS error_message, e.request_id AS request_id,
      e.actor AS actor, e.auth_key_id AS auth_key_id, e.user_path AS user_path, e.session_id AS session_id,
      e.labels AS labels, e.duration_ms AS duration_ms, e.tool_ms AS tool_ms, e.recorded_cost AS recorded_cost,
      e.tool_argument_bytes AS argument_bytes, e.tool_result_bytes AS result_bytes,
      e.guardrail_verdict AS guardrail_verdict, e.causation_id AS causation_id, e.tool_item_id AS item_id
      FROM $db.exchanges AS e WHERE e.dialect = 'mcp'`,
  },
];

/** Another writer has taken over: it has a higher epoch. */
export class NewerWriter extends Error {
  readonly code = 'analytics_newer_writer';
  constructor(database: string, epoch: number, newest: number) {
    super(`database ${database} has a newer writer: epoch ${newest}, this one has ${epoch}`);
  }
}

/** A table that writers insert into, with the columns that they send. */
export type FencedTable = Pick<Table, 'name' | 'columns'>;

const PREFIXES = { input: '_input_', pass: '_pass_' } as const;

export class WriterFence {
  readonly #client: ClickHouseClient;
  readonly #database: string;
  readonly #epoch: number;

  /** @param epoch higher than those of all earlier writers */
  constructor(client: ClickHouseClient, database: string, epoch: number) {
    this.#client = client;
    this.#database = database;
    this.#epoch = epoch;
  }

  /** Name of the table into which this writer inserts the rows of `table`. */
  inputOf(table: string): string {
    return `${PREFIXES.input}${this.#epoch}_${table}`;
  }

  /**
   * Afterwards inserts of other writers fail, except those that are running.
   * @throws NewerWriter
   */
  async take(tables: readonly FencedTable[]): Promise<void> {
    const epoch = this.#epoch;
    const database = this.#database;
    await this.#run(`CREATE TABLE IF NOT EXISTS ${database}._writers (
  epoch UInt64 COMMENT 'position in the log of the event with which a gateway took the job of writing',
  at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = MergeTree
ORDER BY epoch
SETTINGS fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Gateways that have written these tables, one after another.'`);
    await this.#client.insert({ table: `${database}._writers`, values: [{ epoch }], format: 'JSONEachRow' });
    for (const table of tables) await this.#makeInput(table);
    // Only now: a newer writer that has noted its epoch after this one was read will find these inputs.
    const newest = await this.#newestEpoch();
    if (newest > epoch) {
      await removeInputs(this.#client, database, (of) => of === epoch);
      throw new NewerWriter(database, epoch, newest);
    }
    await removeInputs(this.#client, database, (of) => of !== epoch);
  }

  async #makeInput(table: FencedTable): Promise<void> {
    const sent = table.columns.filter(({ madeOf }) => madeOf === undefined);
    const columns = sent.map(({ name, type }) => `\`${name}\` ${type}`);
    const input = `${this.#database}.${this.inputOf(table.name)}`;
    const pass = `${this.#database}.${PREFIXES.pass}${this.#epoch}_${table.name}`;
    await this.#run(`CREATE TABLE IF NOT EXISTS ${input} (${columns.join(', ')}) ENGINE = Null`);
    const select = sent.map(({ name }) => `\`${name}\``).join(', ');
    await this.#run(
      `CREATE MATERIALIZED VIEW IF NOT EXISTS ${pass} TO ${this.#database}.${table.name} AS SELECT ${select} FROM ${input}`,
    );
  }

  async #newestEpoch(): Promise<number> {
    const query = `SELECT max(epoch) AS epoch FROM ${this.#database}._writers`;
    const [row] = await rowsOf<{ epoch: string }>(this.#client, query);
    return Number(row?.epoch ?? 0);
  }

  async #run(query: string): Promise<void> {
    await this.#client.command({ query });
  }
}

/** Inserts of the writers with these epochs fail afterwards, except those that are running. Default: of all. */
export async function removeInputs(
  client: ClickHouseClient,
  database: string,
  isRemoved: (epoch: number) => boolean = () => true,
): Promise<void> {
  const query = `SELECT name FROM system.tables
    WHERE database = '${database}' AND match(name, '^_(input|pass)_[0-9]+_') ORDER BY name`;
  // Inputs come first: an insert must fail, rather than be passed on to nothing.
  for (const { name } of await rowsOf<{ name: string }>(client, query)) {
    const epoch = Number(/^_[a-z]+_([0-9]+)_/.exec(name)?.[1]);
    if (isRemoved(epoch)) await client.command({ query: `DROP TABLE IF EXISTS ${database}.${name}` });
  }
}

async function rowsOf<Row>(client: ClickHouseClient, query: string): Promise<Row[]> {
  return (await client.query({ query, format: 'JSONEachRow' })).json<Row>();
}

/**
 * Statements that convert tables of earlier versions to the present content of rows, each run once.
 * Columns that are only added need none (see batch-store.ts). `$table` stands for the table with its database.
 */
type TableChange = readonly [table: TableKey, statement: string];

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
  ['exchanges', rootForEmpty],
  ['usage', rootForEmpty],
  ['guardrailVerdicts', rootForEmpty],
  ['events', nullable],
  ['events', nullForEmpty],
  ['adminChanges', nullable],
  ['adminChanges', nullForEmpty],
  ['guardrailVerdicts', dropReason],
  ['guardrailVerdicts', dropData],
  ['guardrailVerdicts', typeOfGuardrail],
  ['usage', dropSums],
  ['usage', makeSums],
];
