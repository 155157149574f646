/**
 * ClickHouse inside this process (chDB), on one folder. Each request gets its own connection with its settings,
 * parameters, database and role: opening one takes about a millisecond, and all share the same data.
 *
 * A process uses one folder during its whole lifetime; a second process on the same folder is refused.
 */
import { randomUUID } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RawInsertFormat, Session } from 'chdb';
import { becomeReader, type EngineAccess, queryLimits, quotedIdentifier, usersConfig } from './engine-access.ts';
import { LONGEST_TEXT, literal, normalFormQuery, withoutScope } from './normal-form.ts';

export interface EmbeddedClickHouse {
  readonly version: string;
  /** Databases that a connection can use. */
  readonly databases: ReadonlySet<string>;
  /** Names of all its functions, in lower case. */
  readonly functions: ReadonlySet<string>;
  /**
   * The query in ClickHouse's normal form, on one line, without comments, one character per byte. Executes nothing.
   * @throws ClickHouseException for a query that it cannot parse
   */
  normalForm(sql: string): Promise<string>;
  /** Opens a connection with these settings. @throws ClickHouseException */
  connect(options: ConnectOptions): EmbeddedConnection;
  /** Resolves when no query is active any more. */
  close(): Promise<void>;
}

export interface ConnectOptions {
  readonly settings?: ReadonlyMap<string, string>;
  /** Values of `{name: Type}` in the query, as HTTP clients send them. */
  readonly parameters?: ReadonlyMap<string, string>;
  readonly database?: string;
  /** `reader`: the engine allows reading the tables of its databases, and nothing else. */
  readonly role: 'reader' | 'writer';
  /** Whether changes to data and settings are forbidden. Applied last. */
  readonly readOnly: boolean;
}

export interface EmbeddedConnection {
  /** @throws ClickHouseException */
  query(sql: string, format: string): Promise<QueryResult>;
  /**
   * The result in pieces: each piece is a complete document of the format, so pieces can be concatenated only in
   * formats without a head and a tail. @throws ClickHouseException, also after the first piece
   */
  stream(sql: string, format: string): AsyncIterable<Uint8Array>;
  /** @throws ClickHouseException */
  insert(into: InsertInto): Promise<InsertResult>;
  /** Ends its active query as soon as ClickHouse can, and then closes the connection. */
  close(): void;
}

export interface QueryResult {
  readonly bytes: Uint8Array;
  /** Rows of the result. chDB does not report the rows it read. */
  readonly rows: number;
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

/** An error of ClickHouse, with its own message. */
export class ClickHouseException extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** An error in ClickHouse's form. @param name of the code */
export function clickHouseError(code: number, name: string, message: string): ClickHouseException {
  return new ClickHouseException(code, `Code: ${code}. DB::Exception: ${message}. (${name})`);
}

/** chDB cannot be loaded. The message states the reason. */
export class EmbeddedUnavailable extends Error {
  readonly code = 'chdb_unavailable';
}

export interface EmbeddedOptions {
  /** Created when missing. */
  readonly folder: string;
  readonly access: EngineAccess;
  /** Of all queries of readers together, in bytes, which their own limits ensure. Default 400 MiB. */
  readonly memoryBytes?: number;
}

const MIB = 1024 * 1024;

/** Small caches, since the process shares the machine with a gateway. */
function serverSettings(memoryBytes: number): Readonly<Record<string, number>> {
  return {
    // The rest is for the writer, merges and caches. A query that meets this limit is not always the one that took the memory.
    max_server_memory_usage: memoryBytes + 350 * MIB,
    // A container's memory has that of the gateway in it.
    memory_worker_use_cgroup: 0,
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

/** @throws EmbeddedUnavailable when chDB is not installed, does not work here, or the folder is in use */
export async function openEmbeddedClickHouse(options: EmbeddedOptions): Promise<EmbeddedClickHouse> {
  const { folder, access, memoryBytes = 400 * MIB } = options;
  const chdb = await import('chdb').catch((error: unknown) => {
    throw new EmbeddedUnavailable(`chDB could not be loaded: ${firstLine(error)}`);
  });
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const config = join(folder, 'server.xml');
  const users = join(folder, 'users.xml');
  writeFileSync(users, usersConfig(access), { mode: 0o600 });
  writeFileSync(config, xml({ ...serverSettings(memoryBytes), users_config: users }), { mode: 0o600 });

  const open = new Set<Session>();
  function session(): Session {
    const opened = new chdb.Session(folder, { connectionArgs: [`--config-file=${config}`] });
    open.add(opened);
    return opened;
  }

  let adminSession: Session;
  let version: string;
  let functions: ReadonlySet<string>;
  try {
    // Kept open: chDB releases the folder with the last connection.
    adminSession = session();
    version = adminSession.query('SELECT version()', 'TabSeparated').trim();
    functions = new Set(
      adminSession.query('SELECT lower(name) FROM system.functions', 'TabSeparated').trim().split('\n'),
    );
  } catch (error) {
    throw new EmbeddedUnavailable(`chDB could not open ${folder}: ${firstLine(error)}`);
  }

  return {
    version,
    databases: new Set(access.databases),
    functions,
    normalForm: normalFormIn(session),
    connect(options) {
      const connection = session();
      try {
        for (const statement of prelude(options)) connection.query(statement);
      } catch (error) {
        open.delete(connection);
        connection.close();
        throw exceptionOf(error);
      }
      return new Connection(connection, {
        closed: () => open.delete(connection),
        kill: (tag) => {
          // The text of this query must not match.
          const [head, tail] = [tag.slice(0, 8), tag.slice(8)];
          const which = `position(query, concat('${head}', '${tail}')) > 0`;
          adminSession.queryAsync(`KILL QUERY WHERE ${which} ASYNC FORMAT Null`).catch(() => {});
        },
      });
    },
    async close() {
      for (const one of open) one.close();
      await chdb.drainPending();
    },
  };
}

function* prelude(options: ConnectOptions): Iterable<string> {
  const { settings = new Map(), parameters = new Map(), database, role, readOnly } = options;
  if (role === 'reader') {
    // A setting that has the requested value already is not compared with its bounds.
    const limits = Object.entries(queryLimits).map(([name, most]) => `${name} = ${most}`);
    yield `SET ${limits.join(', ')}`;
    yield becomeReader;
  }
  if (database !== undefined && database !== '') yield `USE ${quotedIdentifier(database)}`;
  const sets = [...settings].map(([name, value]) => `${plainName(name)} = ${literal(value)}`);
  if (sets.length > 0) yield `SET ${sets.join(', ')}`;
  for (const [name, value] of parameters) yield `SET param_${plainName(name)} = ${literal(value)}`;
  if (readOnly) yield 'SET readonly = 1';
}

/** Each call uses its own connection while calls overlap; connections are kept for later calls. */
function normalFormIn(open: () => Session): (sql: string) => Promise<string> {
  const idle: Session[] = [];
  function opened(): Session {
    const session = open();
    for (const statement of [becomeReader, `SET max_query_size = ${LONGEST_TEXT}`, 'SET readonly = 1']) {
      session.query(statement);
    }
    return session;
  }
  return async (sql) => {
    const session = idle.pop() ?? opened();
    try {
      const result = await session.queryAsync(normalFormQuery(sql), { format: 'RawBLOB' });
      return Buffer.from(result.bytes()).toString('latin1');
    } catch (error) {
      throw exceptionOf(error, withoutScope);
    } finally {
      idle.push(session);
    }
  };
}

interface ConnectionContext {
  closed(): void;
  /** Requests that ClickHouse stops the query whose text contains this tag, if it is still active. */
  kill(tag: string): void;
}

class Connection implements EmbeddedConnection {
  readonly #session: Session;
  readonly #context: ConnectionContext;
  /** Identifies an active query in the list of processes. */
  readonly #tag = randomUUID();
  #running = false;
  #stream: { cancel(): void } | undefined;

  constructor(session: Session, context: ConnectionContext) {
    this.#session = session;
    this.#context = context;
  }

  async query(sql: string, format: string): Promise<QueryResult> {
    this.#running = true;
    try {
      const result = await this.#session.queryAsync(this.#tagged(sql), { format });
      // Despite its name, `rowsRead` counts the rows of the result.
      const { rowsRead: rows, elapsed } = result;
      return { bytes: result.bytes(), rows, elapsedSeconds: elapsed };
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
    if (this.#running) this.#context.kill(this.#tag);
    this.#context.closed();
    this.#session.close();
  }
}

export function exceptionOf(error: unknown, tell = (message: string) => message): ClickHouseException {
  if (error instanceof ClickHouseException) return error;
  const message = tell(error instanceof Error ? error.message : String(error));
  const code = Number(/Code: (\d+)/.exec(message)?.[1] ?? 1002);
  return new ClickHouseException(code, message);
}

function firstLine(error: unknown): string {
  return String(error instanceof Error ? error.message : error).split('\n', 1)[0] ?? '';
}

function plainName(name: string): string {
  if (/^\w+$/.test(name)) return name;
  throw clickHouseError(115, 'UNKNOWN_SETTING', `${JSON.stringify(name)} is not a setting`);
}

function xml(settings: Readonly<Record<string, number | string>>): string {
  const members = Object.entries(settings).map(([name, value]) => `  <${name}>${escaped(String(value))}</${name}>\n`);
  return `<clickhouse>\n${members.join('')}</clickhouse>\n`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
}
