/** Turns a reader's request into the query to execute and a connection with only the rights it needs. */
import { type ClickHouseRequest, trimmed } from './clickhouse-request.ts';
import {
  type ClickHouseException,
  type ConnectOptions,
  clickHouseError,
  type EmbeddedClickHouse,
} from './embedded-clickhouse.ts';
import { readerFormat } from './formats.ts';
import { LONGEST_QUERY } from './normal-form.ts';
import { NotForReaders, type ReaderQuery, readerQuery } from './reader-query.ts';
import type { TurnLimits } from './turns.ts';
import { attemptsOf, type ReaderAttempt, type ReaderLimits, type User } from './users.ts';

/** A query as it is recorded. Bounded: the query by `LONGEST_QUERY`, the rest by the length of a URL. */
export interface RecordedQuery {
  /** The user of the ClickHouse interface. */
  readonly user: string;
  readonly query: string;
  readonly format: string | undefined;
  /** Values of `{name: Type}` in the query. */
  readonly parameters: Readonly<Record<string, string>>;
}

/** Resolves once the query is on disk in the log. Rejects when it cannot be recorded. */
export type RecordQuery = (query: RecordedQuery) => Promise<void>;

export interface RunnableQuery {
  readonly text: string;
  readonly format: string;
}

export interface ReaderRequest {
  readonly query: RunnableQuery;
  readonly connect: ConnectOptions;
  /** The settings of each attempt: a later one follows one that needed more memory. */
  readonly attempts: readonly ReaderAttempt[];
}

/** The query in the URL followed by the body. */
export function wholeQuery({ query }: ClickHouseRequest, body: Buffer): string {
  return trimmed(query === '' ? body.toString() : `${query}\n${body.toString()}`);
}

/** @throws ClickHouseException for a query that is refused unread: too long, or with a byte that ends it early */
export function questionOf(clickHouseRequest: ClickHouseRequest, body: Buffer, user: User): string {
  const sql = wholeQuery(clickHouseRequest, body);
  if (Buffer.byteLength(sql) > LONGEST_QUERY) {
    throw clickHouseError(223, 'QUERY_IS_TOO_LARGE', `the query has more than ${LONGEST_QUERY} bytes`);
  }
  if (sql === '') throw refused(user, 'an empty query is not for readers');
  if (sql.includes('\0')) throw refused(user, 'the query has a byte that is zero');
  return sql;
}

/** Records the query, unless its sender does so. @throws ClickHouseException 439: the query must not be executed */
export async function recordQuery(
  record: RecordQuery,
  { name: user, recordedByCaller = false }: User,
  query: string,
  { defaultFormat: format, parameters }: ClickHouseRequest,
): Promise<void> {
  if (recordedByCaller) return;
  try {
    await record({ user, query, format, parameters: Object.fromEntries(parameters) });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw clickHouseError(
      439,
      'CANNOT_SCHEDULE_TASK',
      `the query was not run, because it could not be recorded in the log: ${why}`,
    );
  }
}

/** @throws ClickHouseException for a query, a setting, a database or a format that readers may not use */
export async function readerRequest(
  engine: EmbeddedClickHouse,
  sql: string,
  clickHouseRequest: ClickHouseRequest,
  user: User,
  limits: ReaderLimits,
): Promise<ReaderRequest> {
  const { parameters } = clickHouseRequest;
  const database = databaseOf(clickHouseRequest, engine);
  const context = { parameters, databases: engine.databases, engineFunctions: engine.functions };
  const { text, format, settings } = checked(await engine.normalForm(sql), context, user);
  return {
    query: { text, format: format ?? formatOf(clickHouseRequest) },
    connect: { parameters, database, role: 'reader', readOnly: true },
    attempts: attemptsOf(limits, new Map([...clickHouseRequest.settings, ...settings])),
  };
}

function checked(form: string, context: Parameters<typeof readerQuery>[1], user: User): ReaderQuery {
  try {
    return readerQuery(form, context);
  } catch (error) {
    if (!(error instanceof NotForReaders)) throw error;
    throw error.code === 73 ? unknownFormat(error.message) : refused(user, error.message);
  }
}

/** Clients that choose no database send `default`. */
function databaseOf({ database }: ClickHouseRequest, engine: EmbeddedClickHouse): string | undefined {
  if (database === undefined || database === '' || database === 'default' || engine.databases.has(database)) {
    return database;
  }
  throw clickHouseError(81, 'UNKNOWN_DATABASE', `Database ${database} does not exist`);
}

function formatOf({ defaultFormat = 'TabSeparated' }: ClickHouseRequest): string {
  const format = readerFormat(defaultFormat);
  if (format !== undefined) return format;
  throw unknownFormat(`the format ${defaultFormat} is not for readers`);
}

function unknownFormat(why: string): ClickHouseException {
  return clickHouseError(73, 'UNKNOWN_FORMAT', why);
}

function refused({ name }: User, reason: string): ClickHouseException {
  return clickHouseError(164, 'READONLY', `${name}: Cannot execute query in readonly mode: ${reason}`);
}

export function preempted(turns: TurnLimits): ClickHouseException {
  return clickHouseError(
    159,
    'TIMEOUT_EXCEEDED',
    `ended after more than ${turns.slowAfterMs / 1000} seconds, because others wait and ` +
      `${turns.slow} slow queries run already`,
  );
}
