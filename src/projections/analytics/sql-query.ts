/** Sends an analyst's query over ClickHouse's own interface, with limits that the query cannot raise. */
import type { AnalyticsAddress } from './analytics-db.ts';

export interface SqlLimits {
  readonly seconds: number;
  readonly rows: number;
  readonly bytes: number;
}

export interface SqlAnswer {
  readonly contentType: string;
  readonly bytes: Buffer;
}

/** ClickHouse refused the query, or gave up on it. The message is its own. */
export class SqlRefused extends Error {
  /** ClickHouse's error code; 0 when the answer has none. */
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** Added to the query's time limit, how long the gateway waits for the answer. */
const GRACE_MS = 5_000;

export interface SqlQuestion {
  readonly query: string;
  /** One of ClickHouse's formats, unless the query names its own. */
  readonly format: string;
  readonly limits: SqlLimits;
  /** Added to the settings of the limits; they override these. */
  readonly settings?: Readonly<Record<string, string>>;
}

/**
 * Returns the whole answer: its size is bounded, and errors are known before any of it is passed on.
 * @throws SqlRefused, or the error of `fetch` when ClickHouse cannot be reached
 */
export async function askSql(
  { url, username, password, database }: AnalyticsAddress,
  { query, format, limits: { seconds, rows, bytes }, settings = {} }: SqlQuestion,
  signal: AbortSignal,
): Promise<SqlAnswer> {
  const requestUrl = new URL(url);
  const parameters = {
    database,
    default_format: format,
    max_execution_time: String(seconds),
    max_result_rows: String(rows),
    max_result_bytes: String(bytes),
    result_overflow_mode: 'throw',
    wait_end_of_query: '1',
    ...settings,
  };
  for (const [name, value] of Object.entries(parameters)) requestUrl.searchParams.set(name, value);
  const answer = await fetch(requestUrl, {
    method: 'POST',
    body: query,
    redirect: 'error',
    headers: {
      authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`,
      'content-type': 'text/plain',
    },
    signal: AbortSignal.any([signal, AbortSignal.timeout(seconds * 1000 + GRACE_MS)]),
  });
  const answerBytes = Buffer.from(await answer.arrayBuffer());
  if (!answer.ok) {
    throw new SqlRefused(Number(answer.headers.get('x-clickhouse-exception-code') ?? 0), answerBytes.toString().trim());
  }
  return { contentType: answer.headers.get('content-type') ?? 'text/plain; charset=utf-8', bytes: answerBytes };
}
