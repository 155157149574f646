/** Queries for the audit log: requests in ClickHouse, newest first. */

import type { Ask } from './analytics-db.ts';
import { type AuditFilter, auditConditions } from './audit-filter.ts';
import { allOf, between, equal, inlineParameters } from './conditions.ts';
import { type ExchangeRow, exchangeColumns } from './exchange-row.ts';

/** The row after which a page begins. */
export interface AuditCursor {
  /** Microseconds since the epoch. */
  readonly at: string;
  readonly position: string;
}

export interface AuditPageOf {
  readonly limit: number;
  readonly offset: number;
  readonly after?: AuditCursor | undefined;
}

export const NEWEST_FIRST = 'ORDER BY at DESC, position DESC';

/**
 * One page. The rows are selected with the narrow columns alone; the other columns are read for these rows only.
 * With `after`, a page costs the same at any depth.
 */
export function auditPage(ask: Ask, filter: AuditFilter, page: AuditPageOf): Promise<ExchangeRow[]> {
  const { sql, parameters } = auditConditions(filter);
  const { limit, offset, after } = page;
  const behind =
    after === undefined
      ? ''
      : `AND at <= ${cursorTime} AND (at, position) < (${cursorTime}, {cursor_position: UInt64})`;
  return ask<ExchangeRow>(
    `SELECT ${exchangeColumns} FROM $db.exchanges
    WHERE at >= {from: DateTime64(6, 'UTC')} AND at < {until: DateTime64(6, 'UTC')} AND position IN (
      SELECT position FROM $db.exchanges WHERE ${sql} ${behind} ${NEWEST_FIRST} LIMIT {limit: UInt64} OFFSET {offset: UInt64}
    ) ${NEWEST_FIRST}`,
    { ...parameters, limit, offset, ...cursorParameters(after) },
  );
}

const cursorTime = 'fromUnixTimestamp64Micro({cursor_at: Int64})';

function cursorParameters(after: AuditCursor | undefined): Readonly<Record<string, unknown>> {
  return after === undefined ? {} : { cursor_at: after.at, cursor_position: after.position };
}

/** Behind this row. */
export function cursorOf({ at_us, position }: ExchangeRow): AuditCursor {
  return { at: at_us, position };
}

export async function auditTotal(ask: Ask, filter: AuditFilter): Promise<number> {
  const { sql, parameters } = auditConditions(filter);
  const [row] = await ask<{ total: string }>(`SELECT count() AS total FROM $db.exchanges WHERE ${sql}`, parameters);
  return Number(row?.total ?? 0);
}

export interface AuditThread {
  readonly latest: ExchangeRow;
  readonly requests: number;
  /** Of these, those that were refused or failed. */
  readonly failed: number;
  /** Microseconds since the epoch. */
  readonly firstAtUs: string;
  /** From the first request to the end of the last one. */
  readonly durationMs: number;
  readonly usage: Pick<RequestUsage, 'totalCost'> & { readonly totalTokens: number | null };
}

/** Of a session, which is not the same as one of equal name under another path. */
const THREAD = "user_path, session_id, if(session_id = '', position, 0)";

/**
 * Threads by their latest request, newest first. Requests of one session are one thread; a request without a session is
 * a thread of its own. The table is read from its newest row on, as far as the page needs.
 */
export async function auditThreads(
  ask: Ask,
  filter: AuditFilter,
  { limit, offset }: AuditPageOf,
): Promise<AuditThread[]> {
  const { sql, parameters } = auditConditions(filter);
  const found = await ask<{ place: string; thread: string; session: string }>(
    `SELECT toString(position) AS place, session_id AS session, toString(tuple(user_path, session_id)) AS thread FROM $db.exchanges
    WHERE ${sql} ${NEWEST_FIRST} LIMIT 1 BY ${THREAD} LIMIT {limit: UInt64} OFFSET {offset: UInt64}`,
    { ...parameters, limit, offset },
  );
  const sessions = [...new Set(found.map(({ session }) => session))].filter((session) => session !== '');
  const positions = found.map(({ place }) => place);
  const [rows, counts] = await Promise.all([rowsAt(ask, filter, positions), countsOf(sessions)]);
  const single = [...rows.values()].filter(({ session_id: session }) => session === '');
  const used = await usageOfRequests(ask, single);
  return found.flatMap(({ place, session, thread }) => {
    const latest = rows.get(place);
    if (latest === undefined) return [];
    const { requests, at_us: firstAtUs, duration_ms: durationMs } = latest;
    const { tokens, totalCost } = used.get(latest.id) ?? { tokens: null, totalCost: null };
    const usage = { totalTokens: tokens?.total ?? null, totalCost };
    const alone = { requests, failed: failedOf(latest), firstAtUs, durationMs, usage };
    return [{ latest, ...(session === '' ? alone : (counts.get(thread) ?? alone)) }];
  });

  async function countsOf(of: readonly string[]): Promise<Map<string, Omit<AuditThread, 'latest'>>> {
    if (of.length === 0) return new Map();
    const { from, until } = filter;
    const used = between('at', from, until + SESSION_REACH_MS, 'used_');
    const counted = await ask<
      Record<'thread' | 'total' | 'failed' | 'first' | 'reported' | 'tokens', string> & {
        took: number;
        cost: string | null;
      }
    >(
      `WITH found AS (SELECT id, user_path, session_id, at, status, duration_ms, requests FROM $db.exchanges
        WHERE ${sql} AND session_id IN {threads: Array(String)})
      SELECT toString(tuple(user_path, session_id)) AS thread, sum(e.requests) AS total,
        sumIf(e.requests, status = 0 OR status >= 400) AS failed, toUnixTimestamp64Micro(min(at)) AS first,
        max(toUnixTimestamp64Micro(at) / 1000 + duration_ms) - toUnixTimestamp64Micro(min(at)) / 1000 AS took,
        sum(u.reported) AS reported, sum(u.tokens) AS tokens, if(sum(u.priced) > 0, sum(u.cost), NULL) AS cost
      FROM found AS e LEFT JOIN (
        SELECT exchange_id, countIf(kind = 'recorded' AND source = 'provider') AS reported, sum(total_tokens) AS tokens,
          sum(usage.priced) AS priced, sum(total_cost) AS cost
        FROM $db.usage AS usage WHERE ${used[0]} AND exchange_id IN (SELECT id FROM found) GROUP BY exchange_id
      ) AS u ON u.exchange_id = e.id GROUP BY user_path, session_id`,
      { ...used[1], ...parameters, threads: of },
    );
    return new Map(
      counted.map(({ thread, total, failed, first, took, reported, tokens, cost }) => [
        thread,
        {
          ...{ requests: Number(total), failed: Number(failed), firstAtUs: first, durationMs: took },
          usage: { totalTokens: Number(reported) === 0 ? null : Number(tokens), totalCost: cost },
        },
      ]),
    );
  }
}

function failedOf({ status, requests }: ExchangeRow): number {
  return status === 0 || status >= 400 ? requests : 0;
}

/** The number of threads of the filter. */
export async function auditThreadTotal(ask: Ask, filter: AuditFilter): Promise<number> {
  const { sql, parameters } = auditConditions(filter);
  const [row] = await ask<{ total: string }>(
    `SELECT uniqExactIf((user_path, session_id), session_id != '') + countIf(session_id = '') AS total
    FROM $db.exchanges WHERE ${sql}`,
    parameters,
  );
  return Number(row?.total ?? 0);
}

async function rowsAt(
  ask: Ask,
  { from, until }: Pick<AuditFilter, 'from' | 'until'>,
  positions: readonly string[],
): Promise<Map<string, ExchangeRow>> {
  if (positions.length === 0) return new Map();
  const { sql, parameters } = allOf([between('at', from, until)]);
  const rows = await ask<ExchangeRow>(
    `SELECT ${exchangeColumns} FROM $db.exchanges WHERE ${sql} AND position IN {positions: Array(UInt64)}`,
    { ...parameters, positions: positions.map(Number) },
  );
  return new Map(rows.map((row) => [row.position, row]));
}

export interface AuditSession {
  readonly sessionId: string;
  /** Empty when the requests have no user path. */
  readonly userPath: string;
  /** Milliseconds since the epoch: the session is searched before and after it, see `SESSION_REACH_MS`. */
  readonly at: number;
}

/** How far before and after the given time the requests of a session are searched. */
const SESSION_REACH_MS = 31 * 86_400_000;

/** The ids of the session's requests nearest to a time, oldest first. @param limit at the most */
export async function idsOfSession(
  ask: Ask,
  { sessionId, userPath, at }: AuditSession,
  limit: number,
): Promise<string[]> {
  const { sql, parameters } = allOf([
    between('at', at - SESSION_REACH_MS, at + SESSION_REACH_MS),
    equal('session_id', 'session_id', sessionId),
    equal('user_path', 'user_path', userPath),
  ]);
  // Reads in the order of the table from that time in both directions: a session may be long.
  const toOneSide = (side: string, order: string) =>
    `SELECT id, position, toUnixTimestamp64Micro(at) AS at_us FROM $db.exchanges
    WHERE ${sql} AND at ${side} fromUnixTimestamp64Micro({near: Int64}) ORDER BY ${order} LIMIT {limit: UInt64}`;
  const rows = await ask<{ id: string; at_us: string }>(
    `SELECT id, at_us FROM (${toOneSide('<', 'at DESC, position DESC')} UNION ALL ${toOneSide('>=', 'at, position')})
    ORDER BY abs(at_us - {near: Int64}), position LIMIT {limit: UInt64}`,
    { ...parameters, near: Math.round(at * 1000), limit },
  );
  return rows.sort((one, other) => Number(one.at_us) - Number(other.at_us)).map(({ id }) => id);
}

/** The exchange that created a stored response, searched before the given time. */
export async function idOfResponse(
  ask: Ask,
  responseId: string,
  { before, userPath }: { readonly before: number; readonly userPath: string },
): Promise<string | undefined> {
  const { sql, parameters } = allOf([
    between('at', before - 3 * SESSION_REACH_MS, before),
    equal('response_id', 'response_id', responseId),
    equal('user_path', 'user_path', userPath),
  ]);
  const [row] = await ask<{ id: string }>(`SELECT id FROM $db.exchanges WHERE ${sql} ORDER BY at LIMIT 1`, parameters);
  return row?.id;
}

export interface StoredAfter {
  readonly exchange: string;
  readonly response: string;
  /** The response that it continues. */
  readonly previous: string;
}

/** Responses that are read in search of those that continue one another. */
const MOST_STORED = 20_000;

/** Responses of the user path that continue another one, stored in the month after the given time, oldest first. */
export async function storedAfter(
  ask: Ask,
  { at, userPath }: Pick<AuditSession, 'at' | 'userPath'>,
): Promise<StoredAfter[]> {
  const { sql, parameters } = allOf([
    between('at', at, at + SESSION_REACH_MS),
    ["ifNull(user_path, '/') = {user_path: String}", { user_path: userPath }],
  ]);
  return ask<StoredAfter>(
    `SELECT JSONExtractString(data, 'exchangeId') AS exchange, substring(stream, length('response-') + 1) AS response,
      JSONExtractString(data, 'previousResponseId') AS previous
    FROM $db.events WHERE type = 'response.stored' AND ${sql} AND previous != ''
    ORDER BY position LIMIT {limit: UInt64}`,
    { ...parameters, limit: MOST_STORED },
  );
}

/** The rows of these requests, searched some months before and a month after the given time. */
export function rowsOfRequests(ask: Ask, ids: readonly string[], at: number): Promise<ExchangeRow[]> {
  const { sql, parameters } = allOf([between('at', at - 3 * SESSION_REACH_MS, at + SESSION_REACH_MS)]);
  return ask<ExchangeRow>(
    `SELECT ${exchangeColumns} FROM $db.exchanges WHERE ${sql} AND id IN {ids: Array(String)} LIMIT {limit: UInt64}`,
    { ...parameters, ids, limit: ids.length },
  );
}

/** The sums of the usage that providers reported for a request. */
export interface RequestTokens {
  readonly input: number;
  readonly cachedInput: number;
  readonly cacheWriteInput: number;
  readonly output: number;
  readonly total: number;
}

/** The usage of a request, with later corrections. */
export interface RequestUsage {
  readonly entries: number;
  /** Null when no provider reported any. */
  readonly tokens: RequestTokens | null;
  /** Nano-dollars; null when no part of it has a price. */
  readonly totalCost: string | null;
}

/** Usage is recorded with the end of its exchange. */
const AFTER_END_MS = 60_000;

/** By the id of the exchange. */
export async function usageOfRequests(
  ask: Ask,
  rows: readonly Pick<ExchangeRow, 'id' | 'at_us' | 'duration_ms'>[],
): Promise<ReadonlyMap<string, RequestUsage>> {
  if (rows.length === 0) return new Map();
  const starts = rows.map(({ at_us }) => Number(at_us) / 1000);
  const ends = rows.map(({ at_us, duration_ms }) => Number(at_us) / 1000 + duration_ms);
  const { sql, parameters } = allOf([between('at', Math.min(...starts) - 1, Math.max(...ends) + AFTER_END_MS)]);
  type Row = Record<'id' | 'entries' | 'reported' | keyof RequestTokens, string> & { readonly cost: string | null };
  const found = await ask<Row>(
    `SELECT exchange_id AS id, countIf(kind = 'recorded') AS entries,
      countIf(kind = 'recorded' AND source = 'provider') AS reported, sum(input_tokens) AS input,
      sum(cached_input_tokens) AS cachedInput, sum(cache_write_input_tokens) AS cacheWriteInput,
      sum(output_tokens) AS output, sum(total_tokens) AS total, if(sum(priced) > 0, sum(total_cost), NULL) AS cost
    FROM $db.usage WHERE ${sql} AND exchange_id IN {ids: Array(String)} GROUP BY exchange_id`,
    { ...parameters, ids: rows.map(({ id }) => id) },
  );
  return new Map(
    found.map(({ id, entries, reported, cost, ...sums }) => {
      const tokens = {
        input: Number(sums.input),
        cachedInput: Number(sums.cachedInput),
        cacheWriteInput: Number(sums.cacheWriteInput),
        output: Number(sums.output),
        total: Number(sums.total),
      };
      return [id, { entries: Number(entries), tokens: Number(reported) === 0 ? null : tokens, totalCost: cost }];
    }),
  );
}

/** The rows of an export, newest first, fetched in parts as the consumer reads them. */
export async function* allOfAudit(
  ask: Ask,
  filter: AuditFilter,
  partRows: number,
): AsyncGenerator<readonly ExchangeRow[]> {
  let after: AuditCursor | undefined;
  for (;;) {
    const rows = await auditPage(ask, filter, { limit: partRows, offset: 0, after });
    if (rows.length > 0) yield rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < partRows) return;
    after = cursorOf(last);
  }
}

const columns = [
  'id, at, outcome, status, duration_ms, method, path, requested_model, provider, model, user_path, auth_key_id',
  'session_id, labels, request_id, error_code, error_message, input_tokens, output_tokens, cache_type',
  'guardrail_verdict, requests',
];
const MOST_ROWS = 1000;

/** Tables without their database: readers have it as their default. */
export function auditSql(filter: AuditFilter): string {
  const { conditions } = auditConditions(filter);
  const where = conditions.map((condition) => inlineParameters(condition).replaceAll('$db.', ''));
  return [
    `SELECT ${columns.join(',\n  ')}`,
    'FROM exchanges',
    `WHERE ${where.map((condition) => `(${condition})`).join('\n  AND ')}`,
    NEWEST_FIRST,
    `LIMIT ${MOST_ROWS}`,
  ].join('\n');
}
