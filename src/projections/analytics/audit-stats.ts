/** Requests counted in buckets of time, and response times of providers. */

import type { UserPath } from '../../events/event.ts';
import type { AnalyticsFiles, Ask } from './analytics-db.ts';
import {
  type AuditFilter,
  auditConditions,
  type IdColumn,
  type IdMatches,
  idColumns,
  ofStatusClass,
} from './audit-filter.ts';
import { allOf, inSubtree, oneOfTexts } from './conditions.ts';

/** Most rows of one file. A file is held in memory before it is sent; clients fetch larger exports in parts. */
export const MOST_PARQUET_ROWS = 200_000;

/** The columns of every export. In Parquet they have types: times, numbers, a list of labels; unknown is NULL. */
export const exportColumns = {
  id: 'e.id',
  timestamp: 'e.at',
  duration_ms: 'e.duration_ms',
  method: 'toString(e.method)',
  path: 'e.path',
  status_code: 'e.status',
  outcome: 'toString(e.outcome)',
  requests: 'e.requests',
  requested_model: 'toString(e.requested_model)',
  provider: 'toString(e.provider_type)',
  provider_name: 'toString(e.provider)',
  model: 'toString(e.model)',
  user_path: "if(e.user_path = '', '/', toString(e.user_path))",
  auth_key_id: 'toString(e.auth_key_id)',
  auth_method: 'toString(e.auth_method)',
  client_ip: 'toString(e.client_ip)',
  user_agent: 'toString(e.user_agent)',
  request_id: 'e.request_id',
  session_id: 'toString(e.session_id)',
  labels: 'e.labels',
  stream: 'e.stream',
  attempts: 'length(e.attempts.number)',
  error_type: 'toString(e.error_type)',
  error_code: 'toString(e.error_code)',
  error_message: 'e.error_message',
  input_tokens: 'u.input',
  output_tokens: 'u.output',
  total_tokens: 'u.total',
  total_cost_usd: 'toDecimal128(u.cost, 9) / 1000000000',
  workflow_id: 'e.workflow_id',
  workflow_version: "if(e.workflow_id = '', NULL, e.workflow_version)",
  workflow_scope: 'toString(e.workflow_scope)',
  guardrail_verdict: 'toString(e.guardrail_verdict)',
  guardrail: 'toString(e.guardrail)',
  guardrail_code: 'toString(e.guardrail_code)',
  guardrails_edited: 'e.guardrails_edited',
} as const;

/**
 * Newest first. @param signal stops the query
 * @throws AnalyticsUnavailable, QueryFailed, before the first byte
 */
export function auditParquet(
  files: AnalyticsFiles,
  filter: AuditFilter,
  signal: AbortSignal,
): Promise<AsyncIterable<Buffer>> {
  const { sql, parameters } = auditConditions(filter);
  const columns = Object.entries(exportColumns).map(([name, value]) => `${value} AS ${name}`);
  const query = `SELECT ${columns.join(', ')}
    FROM (SELECT * FROM $db.exchanges WHERE ${sql}) AS e
    LEFT JOIN (
      SELECT exchange_id, toNullable(sum(input_tokens)) AS input, toNullable(sum(output_tokens)) AS output,
        toNullable(sum(total_tokens)) AS total, if(sum(priced) > 0, sum(total_cost), NULL) AS cost
      FROM $db.usage
      WHERE at >= {from: DateTime64(6, 'UTC')} AND exchange_id IN (SELECT id FROM $db.exchanges WHERE ${sql})
      GROUP BY exchange_id
    ) AS u ON u.exchange_id = e.id
    ORDER BY e.at DESC, e.position DESC`;
  return files.file(query, parameters, 'Parquet', signal);
}

export interface StatsOf {
  /**
   * When each bucket begins, in seconds since the epoch, ascending. Each ends where the next begins; the last one ends
   * with the range of the filter.
   */
  readonly starts: readonly number[];
  readonly filter: AuditFilter;
}

export interface Counts {
  readonly requests: number;
  readonly status_2xx: number;
  readonly status_4xx: number;
  readonly status_5xx: number;
  readonly status_other: number;
  /** Sum, in milliseconds. */
  readonly durationMs: number;
}

/** Of requests that a provider answered with success. */
export interface ProviderCount {
  readonly provider: string;
  readonly requests: number;
  readonly durationMs: number;
}

export interface AuditStats {
  /** By the start of the bucket; buckets without requests are left out. */
  readonly buckets: ReadonlyMap<number, Counts>;
  readonly providers: ReadonlyMap<number, readonly ProviderCount[]>;
}

type CountRow = Record<'requests' | 'ok' | 'client' | 'server', string> & {
  readonly bucket: number;
  readonly duration: number;
};
type StatRow = CountRow & { readonly provider: string; readonly reached: string; readonly reached_duration: number };

const BUCKET = 'roundDown(toUnixTimestamp(at), {starts: Array(UInt32)}) AS bucket';
const COUNTS = `sum(e.requests) AS requests, sumIf(e.requests, ${ofStatusClass['2xx']}) AS ok,
      sumIf(e.requests, ${ofStatusClass['4xx']}) AS client, sumIf(e.requests, ${ofStatusClass['5xx']}) AS server,
      sum(duration_ms * e.requests) AS duration`;

/** The starts that a request can be after: none is older than 1970. */
function inTable(starts: readonly number[]): number[] {
  return starts.filter((start) => start >= 0);
}

/** Requests of the filter by the start of their bucket; buckets without requests are left out. */
export async function auditHistogram(ask: Ask, { starts, filter }: StatsOf): Promise<ReadonlyMap<number, Counts>> {
  if (inTable(starts).length === 0) return new Map();
  const { sql, parameters } = auditConditions(filter);
  const rows = await ask<CountRow>(`SELECT ${BUCKET}, ${COUNTS} FROM $db.exchanges AS e WHERE ${sql} GROUP BY bucket`, {
    ...parameters,
    starts: inTable(starts),
  });
  return new Map(rows.map((row) => [Number(row.bucket), countsOf(row)]));
}

/** In one pass: requests by provider, and how many of them a provider answered successfully. */
export async function auditStats(ask: Ask, { starts, filter }: StatsOf): Promise<AuditStats> {
  if (inTable(starts).length === 0) return { buckets: new Map(), providers: new Map() };
  const { sql, parameters } = auditConditions(filter);
  const rows = await ask<StatRow>(
    `SELECT ${BUCKET}, provider, ${COUNTS},
      countIf(${reached}) AS reached, sumIf(duration_ms, ${reached}) AS reached_duration
    FROM $db.exchanges AS e WHERE ${sql} GROUP BY bucket, provider`,
    { ...parameters, starts: inTable(starts) },
  );
  const buckets = new Map<number, Counts>();
  const providers = new Map<number, ProviderCount[]>();
  for (const row of rows) {
    const bucket = Number(row.bucket);
    const before = buckets.get(bucket);
    buckets.set(bucket, before === undefined ? countsOf(row) : sumOf([before, countsOf(row)]));
    const requests = Number(row.reached);
    if (requests === 0) continue;
    const { provider, reached_duration: durationMs } = row;
    providers.set(bucket, [...(providers.get(bucket) ?? []), { provider, requests, durationMs }]);
  }
  return { buckets, providers };
}

const reached = `${ofStatusClass['2xx']} AND attempt_count > 0 AND cache_type = '' AND replayed_from = ''`;

function countsOf({ requests, ok, client, server, duration }: CountRow): Counts {
  const [all, status_2xx, status_4xx, status_5xx] = [Number(requests), Number(ok), Number(client), Number(server)];
  const status_other = all - status_2xx - status_4xx - status_5xx;
  return { requests: all, status_2xx, status_4xx, status_5xx, status_other, durationMs: duration };
}

export function sumOf(counts: readonly Counts[]): Counts {
  const sum = { requests: 0, status_2xx: 0, status_4xx: 0, status_5xx: 0, status_other: 0, durationMs: 0 };
  for (const one of counts) for (const name of Object.keys(sum) as (keyof Counts)[]) sum[name] += one[name];
  return sum;
}

// Finds requests by an exact id, at any time: the time of most ids is not known, but every id column has an index.

/** The requests that an id finds, and the range of time in which they are. */
export interface FoundById {
  readonly ids: IdMatches;
  /** Milliseconds since the epoch; `until` is exclusive. */
  readonly from: number;
  readonly until: number;
}

interface Found {
  readonly column: IdColumn;
  readonly value: string;
  /** Milliseconds since the epoch, of the first and the last request. */
  readonly first: string;
  readonly last: string;
}

/**
 * Those of the ids that a request in the subtree has: ids of other requests are not in the result.
 * Undefined without any. @param wanted ids by column
 */
export async function findByIds(
  ask: Ask,
  wanted: IdMatches,
  subtree: UserPath | undefined,
): Promise<FoundById | undefined> {
  const scope = inSubtree('user_path', subtree);
  const parts = idColumns.flatMap((column) => {
    const condition = oneOfTexts(column, `ids_${column}`, wanted[column]);
    if (condition === undefined) return [];
    const { sql, parameters } = allOf([condition, scope]);
    const select = `SELECT '${column}' AS column, toString(${column}) AS value, toUnixTimestamp64Milli(min(at)) AS first,
      toUnixTimestamp64Milli(max(at)) AS last FROM $db.exchanges WHERE ${sql} GROUP BY value`;
    return [{ select, parameters }];
  });
  const found = await ask<Found>(
    parts.map(({ select }) => select).join(' UNION ALL '),
    Object.assign({}, ...parts.map(({ parameters }) => parameters)),
  );
  if (found.length === 0) return undefined;
  const ids: Partial<Record<IdColumn, string[]>> = {};
  for (const { column, value } of found) ids[column] = [...(ids[column] ?? []), value];
  return {
    ids,
    from: Math.min(...found.map(({ first }) => Number(first))),
    until: Math.max(...found.map(({ last }) => Number(last))) + 1,
  };
}

/** The user paths of requests, without `/`. @param most at the most */
export async function pathsOfRequests(ask: Ask, subtree: UserPath | undefined, most: number): Promise<UserPath[]> {
  const { sql, parameters } = allOf([["user_path != '/'", {}], inSubtree('user_path', subtree)]);
  const rows = await ask<{ user_path: UserPath }>(
    `SELECT DISTINCT user_path FROM $db.exchanges WHERE ${sql} LIMIT {most: UInt64}`,
    { ...parameters, most },
  );
  return rows.map(({ user_path }) => user_path);
}
