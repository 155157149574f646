/** Requests counted by hour or day, and response times of providers. */
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
  /** By the start of the bucket; buckets without requests are left out. */
  readonly buckets: ReadonlyMap<number, Counts>;
  readonly providers: ReadonlyMap<number, readonly ProviderCount[]>;
}

type StatRow = Record<'requests' | 'ok' | 'client' | 'server' | 'reached', string> & {
  readonly bucket: number;
  readonly provider: string;
  readonly duration: number;
  readonly reached_duration: number;
};

/** In one pass: requests by provider, and how many of them a provider answered successfully. */
export async function auditStats(
  db: AnalyticsDb,
  { starts, until, subtree }: StatsOf,
  signal?: AbortSignal,
): Promise<AuditStats> {
  const [first] = starts;
  if (first === undefined) return { buckets: new Map(), providers: new Map() };
  const { sql, parameters } = allOf([between('at', first * 1000, until), inSubtree('user_path', subtree)]);
  const rows = await db.rows<StatRow>(
    `SELECT roundDown(toUnixTimestamp(at), {starts: Array(UInt32)}) AS bucket, provider,
      sum(e.requests) AS requests, sumIf(e.requests, status BETWEEN 200 AND 299) AS ok,
      sumIf(e.requests, status BETWEEN 400 AND 499) AS client, sumIf(e.requests, status BETWEEN 500 AND 599) AS server,
      sum(duration_ms * e.requests) AS duration,
      countIf(${reached}) AS reached, sumIf(duration_ms, ${reached}) AS reached_duration
    FROM $db.exchanges AS e WHERE ${sql} GROUP BY bucket, provider`,
    { ...parameters, starts: [...starts] },
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

const reached = "status BETWEEN 200 AND 299 AND attempt_count > 0 AND cache_type = '' AND replayed_from = ''";

function countsOf({ requests, ok, client, server, duration }: StatRow): Counts {
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
