/** `GET /admin/audit/stats`, `/histogram` and `/facets`: counts of the requests that a filter finds. */
import { z } from 'zod';
import {
  auditFacets,
  type FacetCount,
  type FacetField,
  facetFields,
  facets,
} from '../../../projections/analytics/audit-facets.ts';
import {
  type AuditStats,
  auditHistogram,
  auditStats,
  type Counts,
  type ProviderCount,
  sumOf,
} from '../../../projections/analytics/audit-stats.ts';
import { parameterWithDefault, queryOfParameters, wordsParameter } from '../../api/parameters.ts';
import { jsonAnswer, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import {
  type BucketInterval,
  bucketIntervals,
  DAY_MS,
  dayStarts,
  offsetAt,
  type ReportRange,
  timeBuckets,
  timeText,
} from '../../dates.ts';
import { askFor, type Reports, reportContext, reportHeaders } from '../reports/report-db.ts';
import { auditById, auditParameters, hasInstants, requestedAudit } from './filter.ts';

const HOUR_MS = 3_600_000;
/** Ranges of up to this many days have hourly buckets. */
const DAYS_BY_HOUR = 3;

const statusCounters = {
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

export function registerAuditStats(admin: Routes, reports: Reports): void {
  const { db, items, isKept, now } = reports;
  admin.get('/audit/stats', getStats, async (request, reply) => {
    const at = now();
    const { query } = request;
    const requested = requestedAudit(query, reportContext(request, at));
    if (!isKept)
      return answer(intervalOf(requested, hasInstants(query)), [], { buckets: new Map(), providers: new Map() });
    const ask = askFor(reply, db);
    const range = await auditById(query, requested, ask, items);
    const interval = intervalOf(range, hasInstants(query) || query.id !== undefined);
    const starts = (interval === 'hour' ? hourStarts(range, at) : dayStarts(range, at)).map((start) =>
      Math.floor(start / 1000),
    );
    const filter = { ...range.filter, until: Math.min(range.until, at + 1) };
    return answer(interval, starts, await auditStats(ask, { starts, filter }));
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
  const counted = starts.map((start) => sumOf([buckets.get(start) ?? []].flat()));
  const { durationMs, ...whole } = sumOf(counted);
  return {
    interval,
    buckets: counted.map((counts, place) => bucketOf(starts[place] ?? 0, counts)),
    summary: {
      ...whole,
      success_rate: whole.requests === 0 ? 0 : whole.status_2xx / whole.requests,
      avg_duration_ms: whole.requests === 0 ? 0 : durationMs / whole.requests,
    },
    provider_latency: latencies(starts, providers),
  };
}

function bucketOf(start: number, { durationMs: _, ...counts }: Counts) {
  return { start: timeText(start * 1000), ...counts };
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

/** `GET /admin/audit/histogram`: requests by outcome over time, for choosing a range. */
const MOST_BUCKETS = 120;

const bucketNames = Object.keys(bucketIntervals) as readonly BucketInterval[];

const histogram = z.object({
  interval: z.enum(bucketNames).describe('Of each bucket, as a duration of ISO 8601'),
  from: z.iso.datetime(),
  to: z.iso.datetime().describe('Exclusive'),
  buckets: z.array(z.object({ start: z.iso.datetime(), ...statusCounters })),
});

const getHistogram = scopedAdmin('adminAuditHistogram', 'Count the requests of a filter over time', {
  description:
    `At most ${MOST_BUCKETS} buckets of the shortest round interval, aligned to the clock of the time zone, up to the ` +
    'current time, also those without requests. The first may begin before the range; only requests of the range count.',
  querystring: queryOfParameters(auditParameters),
  requestHeaders: reportHeaders,
  response: { 200: jsonAnswer('The counts', histogram) },
});

export function registerAuditHistogram(admin: Routes, reports: Reports): void {
  const { db, items, isKept, now } = reports;
  admin.get('/audit/histogram', getHistogram, async (request, reply) => {
    const at = now();
    const requested = requestedAudit(request.query, reportContext(request, at));
    const ask = askFor(reply, db);
    const range = isKept ? await auditById(request.query, requested, ask, items) : requested;
    const until = Math.min(range.until, at + 1);
    const { interval, starts } = timeBuckets({ ...range, until }, MOST_BUCKETS);
    const seconds = starts.map((start) => Math.floor(start / 1000));
    const counts = isKept
      ? await auditHistogram(ask, { starts: seconds, filter: { ...range.filter, until } })
      : new Map();
    return {
      interval,
      from: timeText(range.from),
      to: timeText(range.until),
      buckets: seconds.map((start) => bucketOf(start, sumOf([counts.get(start) ?? []].flat()))),
    };
  });
}

/** Most values of a field. */
const MOST_VALUES = 20;

const facet = z.object({
  field: z.enum(facetFields),
  parameter: z.string().describe('The query parameter that filters by one of the values'),
  values: z.array(
    z.object({
      value: z.string(),
      requests: z.int().describe('Refused requests that were counted together count each'),
      name: z.string().optional().describe('Of a key'),
    }),
  ),
});

const getFacets = scopedAdmin('adminAuditFacets', 'Count the most frequent values of each field', {
  description:
    `At most ${MOST_VALUES} values for each field, the most frequent first. A field is counted without its own filter: ` +
    'the counts say what another choice would find. Requests without the value are not counted, except as `none` of ' +
    '`cache_type` and `guardrail_verdict`. `user_path` counts exact paths.',
  querystring: queryOfParameters({
    ...auditParameters,
    fields: parameterWithDefault(wordsParameter(facetFields, 'The fields'), facetFields),
  }),
  requestHeaders: reportHeaders,
  response: { 200: jsonAnswer('The counts', z.object({ facets: z.array(facet) })) },
});

export function registerAuditFacets(admin: Routes, reports: Reports): void {
  const { db, items, keys, isKept, now } = reports;
  admin.get('/audit/facets', getFacets, async (request, reply) => {
    const context = reportContext(request, now());
    const { scope } = context;
    const { fields, ...query } = request.query;
    const requested = requestedAudit(query, context);
    const ask = askFor(reply, db);
    const counts = isKept ? await countsOf() : new Map<FacetField, readonly FacetCount[]>();
    return {
      facets: fields.map((field) => ({
        field,
        parameter: facets[field].filteredBy[0],
        values: (counts.get(field) ?? []).map(({ value, requests }) => ({
          value,
          requests,
          name: field === 'auth_key_id' ? keys.nameOf(value, scope) : undefined,
        })),
      })),
    };

    async function countsOf() {
      const { filter } = await auditById(query, requested, ask, items);
      return auditFacets(ask, { filter, scope, fields, most: MOST_VALUES });
    }
  });
}
