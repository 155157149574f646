/** `GET /admin/audit/stats`: outcomes of requests by hour or by day. */
import { z } from 'zod';
import {
  type AuditStats,
  auditStats,
  type Counts,
  noCounts,
  type ProviderCount,
  sumOf,
} from '../../projections/analytics/audit-stats.ts';
import { scopedAdmin } from '../api/declare.ts';
import { queryOfParameters } from '../api/parameters.ts';
import { jsonAnswer, type Routes } from '../api/route-schema.ts';
import { DAY_MS, dayStarts, offsetAt, type ReportRange, timeText } from '../dates.ts';
import { auditById } from './audit-by-id.ts';
import type { AuditReports } from './audit-log.ts';
import { auditParameters, hasInstants, requestedAudit } from './audit-request.ts';
import { untilGone } from './report-db.ts';
import { reportContext, reportHeaders } from './report-request.ts';

const HOUR_MS = 3_600_000;
/** Ranges of up to this many days have hourly buckets. */
const DAYS_BY_HOUR = 3;

export const statusCounters = {
  requests: z.int(),
  status_2xx: z.int(),
  status_4xx: z.int(),
  status_5xx: z.int(),
  status_other: z.int(),
};
const stats = z.object({
  interval: z.enum(['hour', 'day']),
  buckets: z.array(z.object({ start: z.iso.datetime(), ...statusCounters })),
  summary: z.object({ ...statusCounters, success_rate: z.number(), avg_duration_ms: z.number() }),
  provider_latency: z
    .array(
      z.object({ provider: z.string(), requests: z.array(z.int()), avg_duration_ms: z.array(z.number().nullable()) }),
    )
    .describe('Successful provider answers; the arrays have an element for each bucket'),
});

const getStats = scopedAdmin('adminAuditStats', 'Count requests by outcome, by hour or day', {
  description: `Ranges of up to ${DAYS_BY_HOUR} days have hourly buckets, longer ones daily buckets, up to the current time.`,
  querystring: queryOfParameters(auditParameters),
  requestHeaders: reportHeaders,
  response: { 200: jsonAnswer('The counts', stats) },
});

export function registerAuditStats(admin: Routes, reports: AuditReports): void {
  const { db, isKept, now } = reports;
  admin.get('/audit/stats', getStats, async (request, reply) => {
    const at = now();
    const { query } = request;
    const requested = requestedAudit(query, reportContext(request, at));
    if (!isKept)
      return answer(intervalOf(requested, hasInstants(query)), [], { buckets: new Map(), providers: new Map() });
    const gone = untilGone(reply);
    const range = await auditById(query, requested, reports, gone);
    const interval = intervalOf(range, hasInstants(query) || query.id !== undefined);
    const starts = (interval === 'hour' ? hourStarts(range, at) : dayStarts(range, at)).map((start) =>
      Math.floor(start / 1000),
    );
    const filter = { ...range.filter, until: Math.min(range.until, at + 1) };
    return answer(interval, starts, await auditStats(db, { starts, filter }, gone));
  });
}

/** @param isExact whether the range has instants instead of days */
function intervalOf({ from, until, startDate, endDate }: ReportRange, isExact: boolean): 'hour' | 'day' {
  // Where the clock is set back, a day has 25 hours.
  const days = isExact ? (until - from) / DAY_MS : (Date.parse(endDate) - Date.parse(startDate)) / DAY_MS + 1;
  return days <= DAYS_BY_HOUR ? 'hour' : 'day';
}

/** Starts of the hours, up to and including the current hour. */
function hourStarts({ from, until, timeZone }: ReportRange, now: number): number[] {
  const starts: number[] = [];
  const intoHour = (from + offsetAt(from, timeZone)) % HOUR_MS;
  for (let start = from - intoHour; start < until && start <= now; start += HOUR_MS) starts.push(start);
  return starts;
}

function answer(interval: 'hour' | 'day', starts: readonly number[], { buckets, providers }: AuditStats): object {
  const counted = starts.map((start) => buckets.get(start) ?? noCounts);
  const whole = counted.reduce(sumOf, noCounts);
  return {
    interval,
    buckets: counted.map((counts, place) => ({ start: timeText((starts[place] ?? 0) * 1000), ...countersOf(counts) })),
    summary: {
      ...countersOf(whole),
      success_rate: whole.requests === 0 ? 0 : whole.ok / whole.requests,
      avg_duration_ms: whole.requests === 0 ? 0 : whole.durationMs / whole.requests,
    },
    provider_latency: latencies(starts, providers),
  };
}

export function countersOf({ requests, ok, clientErrors, serverErrors, other }: Counts) {
  return { requests, status_2xx: ok, status_4xx: clientErrors, status_5xx: serverErrors, status_other: other };
}

/** One series for each provider, each as long as there are buckets. */
function latencies(starts: readonly number[], providers: ReadonlyMap<number, readonly ProviderCount[]>): object[] {
  const names = new Set([...providers.values()].flatMap((counts) => counts.map(({ provider }) => provider)));
  return [...names].sort().map((provider) => {
    const counts = starts.map((start) => providers.get(start)?.find((count) => count.provider === provider));
    return {
      provider,
      requests: counts.map((count) => count?.requests ?? 0),
      avg_duration_ms: counts.map((count) => (count === undefined ? null : count.durationMs / count.requests)),
    };
  });
}
