/** The gateway's analytics queries: SQL over HTTP to another process, so that no query delays a request. */
import type { ClickHouseClient } from '@clickhouse/client';

export interface AnalyticsAddress {
  readonly url: string;
  readonly username: string;
  readonly password: string;
  readonly database: string;
}

export interface AnalyticsDb {
  /**
   * The rows of a query, in which `$db` stands for the database and `{name: Type}` for parameters. Numbers of 64 bits
   * come as text: they may not fit into a JSON number.
   * @throws AnalyticsUnavailable when it is off, not reachable, or too slow; QueryFailed when the query has an error
   */
  rows<Row>(query: string, parameters?: Readonly<Record<string, unknown>>, signal?: AbortSignal): Promise<Row[]>;
  close(): Promise<void>;
}

/** The rows of a query, until the one who asks has left: `rows` with its signal. */
export type Ask = <Row>(query: string, parameters?: Readonly<Record<string, unknown>>) => Promise<Row[]>;

/** Results as files that ClickHouse writes. */
export interface AnalyticsFiles {
  /** The bytes of a result in that format of ClickHouse. @throws as `rows`, before the first byte */
  file(
    query: string,
    parameters: Readonly<Record<string, unknown>>,
    format: 'Parquet',
    signal: AbortSignal,
  ): Promise<AsyncIterable<Buffer>>;
}

export class AnalyticsUnavailable extends Error {
  readonly code = 'analytics_unavailable';
}

export class QueryFailed extends Error {
  /** ClickHouse's number for it, such as `60` for a table that is not there. */
  readonly code: string;
  constructor(code: string, cause: Error) {
    super(cause.message, { cause });
    this.code = code;
  }
}

export interface AnalyticsDbOptions {
  /** Its present address; undefined while it has none. */
  readonly address: () => AnalyticsAddress | undefined;
  /** Default 20 s. */
  readonly timeoutMs?: number;
}

/** For each query: a user waits for the answer. */
const MOST_SECONDS = 15;

/** ClickHouse's error codes for a query that exceeds its limits. */
const tooMuch = new Set(['158', '159', '241', '307', '396']);

/** Loaded by the first query: many gateways run without any. */
const clickhouse = () => import('@clickhouse/client');

export function createAnalyticsDb({ address, timeoutMs = 20_000 }: AnalyticsDbOptions): AnalyticsDb & AnalyticsFiles {
  let client: ClickHouseClient | undefined;
  let at: string | undefined;

  /** After a restart analytics may listen on another port. */
  async function clientOf(where: AnalyticsAddress): Promise<ClickHouseClient> {
    if (client !== undefined && at === where.url) return client;
    const { ClickHouseLogLevel, createClient } = await clickhouse();
    if (client !== undefined && at === where.url) return client;
    const before = client;
    at = where.url;
    client = createClient({
      url: where.url,
      username: where.username,
      password: where.password,
      request_timeout: timeoutMs,
      application: 'chancery-gateway',
      log: { level: ClickHouseLogLevel.OFF },
      clickhouse_settings: { output_format_json_quote_64bit_integers: 1, max_execution_time: MOST_SECONDS },
    });
    const opened = client;
    await before?.close();
    return opened;
  }

  /** The result of the query. @throws AnalyticsUnavailable, QueryFailed */
  async function answered<Answer>(
    ask: (opened: ClickHouseClient, where: AnalyticsAddress) => Promise<Answer>,
    signal: AbortSignal | undefined,
  ): Promise<Answer> {
    const where = address();
    if (where === undefined) throw new AnalyticsUnavailable('analytics is off, or has not started yet');
    const opened = await clientOf(where);
    try {
      return await ask(opened, where);
    } catch (error) {
      const { ClickHouseError } = await clickhouse();
      if (error instanceof ClickHouseError && !tooMuch.has(error.code)) throw new QueryFailed(error.code, error);
      signal?.throwIfAborted();
      const why = error instanceof Error ? error.message : String(error);
      throw new AnalyticsUnavailable(`analytics did not answer: ${why}`, { cause: error });
    }
  }

  return {
    rows<Row>(query: string, parameters: Readonly<Record<string, unknown>> = {}, signal?: AbortSignal) {
      return answered(async (opened, where) => {
        const result = await opened.query({
          query: query.replaceAll('$db', where.database),
          query_params: { ...parameters },
          format: 'JSONEachRow',
          abort_signal: signal,
        });
        return result.json<Row>();
      }, signal);
    },
    file(query, parameters, format, signal) {
      return answered(async (opened, where) => {
        const { stream } = await opened.exec({
          query: `${query.replaceAll('$db', where.database)} FORMAT ${format}`,
          query_params: { ...parameters },
          abort_signal: signal,
        });
        return stream;
      }, signal);
    },
    async close() {
      await client?.close();
    },
  };
}
