/** Requests counted in buckets of time, and response times of providers. */
import type { AnalyticsDb } from './analytics-db.ts';
import { type AuditFilter, auditConditions, ofStatusClass } from './audit-filter.ts';

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
  readonly ok: number;
  readonly clientErrors: number;
  readonly serverErrors: number;
  readonly other: number;
  /** Sum, in milliseconds. */
  readonly durationMs: number;
}

export const noCounts: Counts = { requests: 0, ok: 0, clientErrors: 0, serverErrors: 0, other: 0, durationMs: 0 };

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
export async function auditHistogram(
  db: AnalyticsDb,
  { starts, filter }: StatsOf,
  signal?: AbortSignal,
): Promise<ReadonlyMap<number, Counts>> {
  if (inTable(starts).length === 0) return new Map();
  const { sql, parameters } = auditConditions(filter);
  const rows = await db.rows<CountRow>(
    `SELECT ${BUCKET}, ${COUNTS} FROM $db.exchanges AS e WHERE ${sql} GROUP BY bucket`,
    { ...parameters, starts: inTable(starts) },
    signal,
  );
  return new Map(rows.map((row) => [Number(row.bucket), countsOf(row)]));
}

/** In one pass: requests by provider, and how many of them a provider answered successfully. */
export async function auditStats(
  db: AnalyticsDb,
  { starts, filter }: StatsOf,
  signal?: AbortSignal,
): Promise<AuditStats> {
  if (inTable(starts).length === 0) return { buckets: new Map(), providers: new Map() };
  const { sql, parameters } = auditConditions(filter);
  const rows = await db.rows<StatRow>(
    `SELECT ${BUCKET}, provider, ${COUNTS},
      countIf(${reached}) AS reached, sumIf(duration_ms, ${reached}) AS reached_duration
    FROM $db.exchanges AS e WHERE ${sql} GROUP BY bucket, provider`,
    { ...parameters, starts: inTable(starts) },
    signal,
  );
  const buckets = new Map<number, Counts>();
  const providers = new Map<number, ProviderCount[]>();
  for (const row of rows) {
    const bucket = Number(row.bucket);
    buckets.set(bucket, sumOf(buckets.get(bucket) ?? noCounts, countsOf(row)));
    const requests = Number(row.reached);
    if (requests === 0) continue;
    const { provider, reached_duration: durationMs } = row;
    providers.set(bucket, [...(providers.get(bucket) ?? []), { provider, requests, durationMs }]);
  }
  return { buckets, providers };
}

const reached = `${ofStatusClass['2xx']} AND attempt_count > 0 AND cache_type = '' AND replayed_from = ''`;

function countsOf({ requests, ok, client, server, duration }: CountRow): Counts {
  const counted = { requests: Number(requests), ok: Number(ok), client: Number(client), server: Number(server) };
  return {
    requests: counted.requests,
    ok: counted.ok,
    clientErrors: counted.client,
    serverErrors: counted.server,
    other: counted.requests - counted.ok - counted.client - counted.server,
    durationMs: duration,
  };
}

export function sumOf(one: Counts, other: Counts): Counts {
  return {
    requests: one.requests + other.requests,
    ok: one.ok + other.ok,
    clientErrors: one.clientErrors + other.clientErrors,
    serverErrors: one.serverErrors + other.serverErrors,
    other: one.other + other.other,
    durationMs: one.durationMs + other.durationMs,
  };
}
