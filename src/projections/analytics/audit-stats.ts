/** Requests counted by hour or day, and how long providers took. */
import type { UserPath } from '../../events/event.ts';
import type { AnalyticsDb } from './analytics-db.ts';
import { allOf, between, inSubtree } from './conditions.ts';

export interface StatsOf {
  /** When each bucket begins, in seconds since the epoch, ascending. Each ends where the next begins. */
  readonly starts: readonly number[];
  /** Milliseconds since the epoch at which the last one ends. */
  readonly until: number;
  readonly subtree: UserPath | undefined;
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
  /** By the start of the bucket; those without requests are not there. */
  readonly buckets: ReadonlyMap<number, Counts>;
  readonly providers: ReadonlyMap<number, readonly ProviderCount[]>;
}

type CountRow = Record<'requests' | 'ok' | 'client' | 'server', string> & { bucket: number; duration: number };
type ProviderRow = { bucket: number; provider: string; requests: string; duration: number };

export async function auditStats(
  db: AnalyticsDb,
  { starts, until, subtree }: StatsOf,
  signal?: AbortSignal,
): Promise<AuditStats> {
  const [first] = starts;
  if (first === undefined) return { buckets: new Map(), providers: new Map() };
  const { sql, parameters } = allOf([between('at', first * 1000, until), inSubtree('user_path', subtree)]);
  const bound = { ...parameters, starts: [...starts] };
  const bucket = 'roundDown(toUnixTimestamp(at), {starts: Array(UInt32)}) AS bucket';
  const [counts, providers] = await Promise.all([
    db.rows<CountRow>(
      `SELECT ${bucket}, count() AS requests, countIf(status BETWEEN 200 AND 299) AS ok,
        countIf(status BETWEEN 400 AND 499) AS client, countIf(status BETWEEN 500 AND 599) AS server,
        sum(duration_ms) AS duration
      FROM $db.exchanges WHERE ${sql} GROUP BY bucket`,
      bound,
      signal,
    ),
    db.rows<ProviderRow>(
      `SELECT ${bucket}, provider, count() AS requests, sum(duration_ms) AS duration
      FROM $db.exchanges
      WHERE ${sql} AND status BETWEEN 200 AND 299 AND attempt_count > 0 AND cache_type = '' AND replayed_from = ''
      GROUP BY bucket, provider`,
      bound,
      signal,
    ),
  ]);
  const byBucket = Map.groupBy(providers, (row) => Number(row.bucket));
  return {
    buckets: new Map(counts.map((row) => [Number(row.bucket), countsOf(row)])),
    providers: new Map(
      [...byBucket].map(([start, rows]) => [
        start,
        rows.map(({ provider, requests, duration }) => ({
          provider,
          requests: Number(requests),
          durationMs: duration,
        })),
      ]),
    ),
  };
}

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
