/**
 * ClickHouse inside this process (chDB), over one folder. Each request gets a connection of its own, with its settings,
 * parameters and database, and nobody else's: opening one takes about a millisecond, and all share the same data.
 *
 * One process has one folder, for as long as it lives; a second process on the same folder is refused.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RawInsertFormat, Session } from 'chdb';

export interface EmbeddedClickHouse {
  readonly version: string;
  /** Functions and table functions that reach beyond the tables: files, networks, other servers. Lower case. */
  readonly outward: ReadonlySet<string>;
  /** Opens a connection on which these settings are in force. @throws ClickHouseException */
  connect(options: ConnectOptions): EmbeddedConnection;
  /** Resolves when nothing runs in it any more. */
  close(): Promise<void>;
}

export interface ConnectOptions {
  readonly settings?: ReadonlyMap<string, string>;
  /** Values of `{name: Type}` in the query, as HTTP clients write them. */
  readonly parameters?: ReadonlyMap<string, string>;
  readonly database?: string;
  /** Whether nothing may be changed, neither data nor settings. Put in force last. */
  readonly readOnly: boolean;
}

export interface EmbeddedConnection {
  /** @throws ClickHouseException */
  query(sql: string, format: string): Promise<QueryResult>;
  /**
   * The result as it comes, piece by piece: each piece is a whole document of the format, so only formats without a
   * head and a tail can be put together again. @throws ClickHouseException, also in the middle
   */
  stream(sql: string, format: string): AsyncIterable<Uint8Array>;
  /** @throws ClickHouseException */
  insert(into: InsertInto): Promise<InsertResult>;
  /** Ends what is running on it as soon as ClickHouse can, and closes it once it has ended. */
  close(): void;
}

export interface QueryResult {
  readonly bytes: Uint8Array;
  readonly rowsRead: number;
  readonly bytesRead: number;
  readonly elapsedSeconds: number;
}

export interface InsertInto {
  readonly table: string;
  readonly columns: readonly string[] | undefined;
  readonly format: RawFormat;
  readonly values: Buffer;
}

export interface InsertResult {
  readonly rowsWritten: number;
  readonly bytesWritten: number;
  readonly elapsedSeconds: number;
}

export type RawFormat = RawInsertFormat;

/** What ClickHouse says when it refuses, in the form in which it says it. */
export class ClickHouseException extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** chDB cannot be loaded here. The message says why. */
export class EmbeddedUnavailable extends Error {
  readonly code = 'chdb_unavailable';
}

export interface EmbeddedOptions {
  /** Made when missing. */
  readonly folder: string;
  /** Bytes that all queries together may use. Default 400 MiB. */
  readonly memoryBytes?: number;
}

const MIB = 1024 * 1024;

/** Caches are small: the process is to stay small beside a gateway. */
function serverSettings(memoryBytes: number): Readonly<Record<string, number>> {
  return {
    max_server_memory_usage: memoryBytes + 250 * MIB,
    mark_cache_size: 32 * MIB,
    index_mark_cache_size: 8 * MIB,
    uncompressed_cache_size: 0,
    index_uncompressed_cache_size: 0,
    primary_index_cache_size: 16 * MIB,
    mmap_cache_size: 100,
    compiled_expression_cache_size: 16 * MIB,
    query_condition_cache_size: 8 * MIB,
    background_pool_size: 2,
    background_merges_mutations_concurrency_ratio: 1,
    background_schedule_pool_size: 4,
  };
}

/** Of the table functions, those that only make rows up or read the tables there are. */
const harmless = new Set([
  'generate_series',
  'generateseries',
  'merge',
  'mergetreeindex',
  'mergetreeprojection',
  'null',
  'numbers',
  'numbers_mt',
  'primes',
  'sqlstandardvalues',
  'values',
  'view',
  'zeros',
  'zeros_mt',
]);

/** @throws EmbeddedUnavailable when chDB is not installed, does not run here, or the folder is in use */
export async function openEmbeddedClickHouse(options: EmbeddedOptions): Promise<EmbeddedClickHouse> {
  const { folder, memoryBytes = 400 * MIB } = options;
  const chdb = await import('chdb').catch((error: unknown) => {
    throw new EmbeddedUnavailable(`chDB could not be loaded: ${firstLine(error)}`);
  });
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const config = join(folder, 'server.xml');
  writeFileSync(config, xml(serverSettings(memoryBytes)), { mode: 0o600 });

  const open = new Set<Session>();
  function session(): Session {
    const opened = new chdb.Session(folder, { connectionArgs: [`--config-file=${config}`] });
    open.add(opened);
    return opened;
  }

  let keeper: Session;
  let version: string;
  let outward: ReadonlySet<string>;
  try {
    // Kept open: with the last connection, chDB would let go of the folder.
    keeper = session();
    version = keeper.query('SELECT version()', 'TabSeparated').trim();
    outward = outwardNames(keeper.query(outwardQuery, 'TabSeparated').split('\n'));
  } catch (error) {
    throw new EmbeddedUnavailable(`chDB could not open ${folder}: ${firstLine(error)}`);
  }

  return {
    version,
    outward,
    connect({ settings = new Map(), parameters = new Map(), database, readOnly }) {
      const connection = session();
      try {
        for (const statement of prelude(settings, parameters, database, readOnly)) connection.query(statement);
      } catch (error) {
        open.delete(connection);
        connection.close();
        throw exceptionOf(error);
      }
      return new Connection(connection, {
        closed: () => open.delete(connection),
        kill: (tag) => {
          // Its own text must not match.
          const [head, tail] = [tag.slice(0, 8), tag.slice(8)];
          const which = `position(query, concat('${head}', '${tail}')) > 0`;
          keeper.queryAsync(`KILL QUERY WHERE ${which} ASYNC FORMAT Null`).catch(() => {});
        },
      });
    },
    async close() {
      for (const one of open) one.close();
      await chdb.drainPending();
    },
  };
}

function* prelude(
  settings: ReadonlyMap<string, string>,
  parameters: ReadonlyMap<string, string>,
  database: string | undefined,
  readOnly: boolean,
): Iterable<string> {
  if (database !== undefined && database !== '') yield `USE ${identifier(database)}`;
  const sets = [...settings].map(([name, value]) => `${plainName(name)} = ${literal(value)}`);
  if (sets.length > 0) yield `SET ${sets.join(', ')}`;
  for (const [name, value] of parameters) yield `SET param_${plainName(name)} = ${literal(value)}`;
  if (readOnly) yield 'SET readonly = 1';
}

interface Surroundings {
  closed(): void;
  /** Asks ClickHouse to stop the query whose text holds this tag, if it still runs. */
  kill(tag: string): void;
}

class Connection implements EmbeddedConnection {
  readonly #session: Session;
  readonly #around: Surroundings;
  /** By which a query that is running can be found. */
  readonly #tag = randomUUID();
  #running = false;
  #stream: { cancel(): void } | undefined;

  constructor(session: Session, around: Surroundings) {
    this.#session = session;
    this.#around = around;
  }

  async query(sql: string, format: string): Promise<QueryResult> {
    this.#running = true;
    try {
      const result = await this.#session.queryAsync(this.#tagged(sql), { format });
      const { rowsRead, bytesRead, elapsed } = result;
      return { bytes: result.bytes(), rowsRead, bytesRead, elapsedSeconds: elapsed };
    } catch (error) {
      throw exceptionOf(error);
    } finally {
      this.#running = false;
    }
  }

  async *stream(sql: string, format: string): AsyncIterable<Uint8Array> {
    this.#running = true;
    try {
      const stream = this.#session.queryStream(this.#tagged(sql), { format });
      this.#stream = stream;
      for await (const chunk of stream) yield chunk.raw();
    } catch (error) {
      throw exceptionOf(error);
    } finally {
      this.#running = false;
    }
  }

  #tagged(sql: string): string {
    return `${sql}\n/* ${this.#tag} */`;
  }

  async insert({ table, columns, format, values }: InsertInto): Promise<InsertResult> {
    try {
      const done = await this.#session.insert({ table, columns, format, values });
      return { rowsWritten: done.rowsWritten, bytesWritten: done.bytesWritten, elapsedSeconds: done.elapsed };
    } catch (error) {
      throw exceptionOf(error);
    }
  }

  close(): void {
    this.#stream?.cancel();
    if (this.#running) this.#around.kill(this.#tag);
    this.#around.closed();
    this.#session.close();
  }
}

const outwardQuery = `SELECT lower(name) FROM system.table_functions UNION ALL
  SELECT lower(name) FROM system.functions WHERE name IN ('file', 'catboostEvaluate') OR match(name, '^(?i)ai[A-Z]')`;

/** Names that are harmless as functions too (`format('{}', x)`) are refused as table functions by `readonly` itself. */
function outwardNames(names: readonly string[]): ReadonlySet<string> {
  return new Set(names.filter((name) => name !== '' && name !== 'format' && !harmless.has(name)));
}

export function exceptionOf(error: unknown): ClickHouseException {
  if (error instanceof ClickHouseException) return error;
  const message = error instanceof Error ? error.message : String(error);
  const code = Number(/Code: (\d+)/.exec(message)?.[1] ?? 1002);
  return new ClickHouseException(code, message);
}

function firstLine(error: unknown): string {
  return String(error instanceof Error ? error.message : error).split('\n', 1)[0] ?? '';
}

function plainName(name: string): string {
  if (/^\w+$/.test(name)) return name;
  throw new ClickHouseException(
    115,
    `Code: 115. DB::Exception: ${JSON.stringify(name)} is no name of a setting. (UNKNOWN_SETTING)`,
  );
}

function identifier(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

function literal(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

function xml(settings: Readonly<Record<string, number>>): string {
  const members = Object.entries(settings).map(([name, value]) => `  <${name}>${value}</${name}>\n`);
  return `<clickhouse>\n${members.join('')}</clickhouse>\n`;
}
