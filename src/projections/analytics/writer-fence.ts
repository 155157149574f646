/**
 * One of several writers at a time, where gateways share a ClickHouse. Each writer has an epoch, and inputs of its own: tables
 * without data, whose rows a materialized view passes on to the table. A writer notes its epoch, then removes
 * the inputs of all others, and waits for inserts that are running. So an insert of an earlier writer is found as running, or fails
 * because its table is gone, however long that writer was paused.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import type { Table } from './tables.ts';

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
