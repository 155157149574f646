/** `GET /admin/overview`: the figures of a first look at the gateway, in one answer. */
import { z } from 'zod';
import {
  mostActive,
  type RankedSums,
  type Ranking,
  type RequestSums,
  requestsByTime,
  type UsageSums,
  usageByTime,
} from '../../../projections/analytics/overview-queries.ts';
import type { Question } from '../../../projections/analytics/usage-queries.ts';
import { queryOfParameters } from '../../api/parameters.ts';
import { jsonAnswer, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { type BucketInterval, type ReportRange, timeBuckets, timeText } from '../../dates.ts';
import { scopeOf } from '../admin-scope.ts';
import { type Reports, reportContext, reportHeaders, untilGone } from './report-db.ts';
import { rangeParameters, requestedRange } from './usage.ts';
import { costOf, savedCost } from './usage-answers.ts';

/** The answer of `GET /admin/overview`, from the rows of its queries. Costs in US dollars; null is unknown. */
const usd = z.number().nullable().describe('US dollars of provider calls; null is unknown, 0 is free');
const percentile = z.number().nullable().describe('Milliseconds; null without such answers');
const requestFigures = {
  requests: z.int(),
  status_2xx: z.int(),
  status_4xx: z.int(),
  status_5xx: z.int(),
  status_other: z.int(),
  p50_ms: percentile,
  p95_ms: percentile,
  first_byte_p50_ms: percentile,
  first_byte_p95_ms: percentile,
};
const usageFigures = {
  input_tokens: z.int(),
  output_tokens: z.int(),
  total_tokens: z.int(),
  cached_input_tokens: z.int().describe('Read from the prompt cache of a provider'),
  total_cost: usd,
  unpriced_requests: z.int().describe('Requests that a provider answered and whose cost is unknown'),
  cache_hits_exact: z.int(),
  cache_hits_semantic: z.int(),
  cache_tokens: z.int().describe('Of answers from the response cache. All other tokens are those of providers'),
  saved_cost: usd.describe('US dollars that answers from the response cache saved; null is unknown'),
};
const summary = z.object({
  ...requestFigures,
  success_rate: z.number().nullable().describe('Part of the requests with a status of 2xx; null without requests'),
  ...usageFigures,
});
const instant = z.iso.datetime();
const ranked = {
  requests: z.int(),
  errors: z.int().describe('Requests with a status other than 2xx'),
  total_tokens: z.int(),
  total_cost: usd,
  cache_hits: z.int(),
  saved_cost: usd,
};
const series = z.array(percentile);

const overview = z.object({
  from: instant,
  to: instant.describe('Exclusive; later than now when the range includes today'),
  time_zone: z.string(),
  previous: z.object({
    from: instant,
    to: instant.describe(
      'The range before is as long; of a range that has not ended, as the part that has passed, rounded up to 15 minutes',
    ),
  }),
  summary,
  previous_summary: summary,
  interval: z.string().describe('Length of a bucket: a duration of ISO 8601'),
  buckets: z
    .array(z.object({ start: instant, ...requestFigures, ...usageFigures }))
    .describe('Every interval up to now, also without requests; the first one may begin before the range'),
  provider_latency: z
    .array(z.object({ provider: z.string(), requests: z.array(z.int()), p50_ms: series, p95_ms: series }))
    .describe('Successful answers of providers; the arrays have an element for each bucket'),
  user_paths: z.array(z.object({ user_path: z.string(), ...ranked })),
  keys: z.array(
    z.object({
      auth_key_id: z.string().nullable().describe('null: requests without a managed key'),
      name: z.string().optional().describe('Absent for a key that the caller may not see'),
      ...ranked,
    }),
  ),
  models: z.array(z.object({ provider_name: z.string(), model: z.string(), ...ranked })),
  analytics: z.object({
    state: z.enum(['ok', 'behind', 'down', 'off']),
    lag_events: z.int().nullable().describe('Events of the log that are not counted yet; null when unknown'),
    lag_seconds: z.number().nullable().describe('For how long the oldest of them has been in the log'),
  }),
});

const noPercentiles = [null, null] as const;
const noRequests = {
  requests: '0',
  ok: '0',
  client: '0',
  server: '0',
  duration: noPercentiles,
  first_byte: noPercentiles,
};

type RequestFigures = Omit<RequestSums, 'current' | 'bucket' | 'provider' | 'level' | 'reached' | 'provider_duration'>;

function requestsOf(row: RequestFigures = noRequests) {
  const [requests, ok, client, server] = [row.requests, row.ok, row.client, row.server].map(Number) as [
    number,
    number,
    number,
    number,
  ];
  return {
    requests,
    status_2xx: ok,
    status_4xx: client,
    status_5xx: server,
    status_other: requests - ok - client - server,
    p50_ms: row.duration[0],
    p95_ms: row.duration[1],
    first_byte_p50_ms: row.first_byte[0],
    first_byte_p95_ms: row.first_byte[1],
  };
}

type Summed = Exclude<keyof UsageSums, 'current' | 'bucket' | 'cache_type'>;

function usageOf(rows: readonly UsageSums[]) {
  const sum = (column: Summed, of: (row: UsageSums) => boolean) =>
    rows.reduce((total, row) => (of(row) ? total + BigInt(row[column]) : total), 0n);
  const isHit = ({ cache_type }: UsageSums) => cache_type !== '';
  const isAnswer = (row: UsageSums) => !isHit(row);
  const hits = (kind: string) => Number(sum('requests', ({ cache_type }) => cache_type === kind));
  const answered = sum('requests', isAnswer);
  const priced = sum('priced', isAnswer);
  const exact = hits('exact');
  const semantic = hits('semantic');
  return {
    input_tokens: Number(sum('input_tokens', isAnswer)),
    output_tokens: Number(sum('output_tokens', isAnswer)),
    total_tokens: Number(sum('total_tokens', isAnswer)),
    cached_input_tokens: Number(sum('cached_input_tokens', isAnswer)),
    total_cost: costOrFree(sum('total_cost', isAnswer), { priced, answered, hits: exact + semantic }),
    unpriced_requests: Math.max(0, Number(answered - priced)),
    cache_hits_exact: exact,
    cache_hits_semantic: semantic,
    cache_tokens: Number(sum('total_tokens', isHit)),
    saved_cost: savedCost(sum('saved_cost', isHit), sum('saved_priced', isHit), BigInt(exact + semantic)),
  };
}

/** Requests that are answered from the cache alone cost nothing, which is known. */
function costOrFree(
  nano: bigint,
  { priced, answered, hits }: { readonly priced: bigint; readonly answered: bigint; readonly hits: number },
): number | null {
  return answered === 0n && hits > 0 ? 0 : costOf(nano, priced);
}

interface OverviewRows {
  readonly requests: readonly RequestSums[];
  readonly usage: readonly UsageSums[];
  readonly ranked: readonly RankedSums[];
}

/** In `grouping` of a bucket: the row sums all its providers, or a whole period. */
const [OF_PROVIDER, OF_BUCKET, OF_PERIOD] = [0, 1, 3];

/**
 * @param starts of the buckets, in seconds since the epoch
 * @param nameOf the name of a key that the caller may see
 */
function figuresOfOverview(
  { requests, usage, ranked: rows }: OverviewRows,
  starts: readonly number[],
  nameOf: (keyId: string) => string | undefined,
) {
  const at = (level: number | undefined) => requests.filter((row) => Number(row.level) === level);
  const period = (current: number) => {
    const counted = requestsOf(at(OF_PERIOD).find((row) => Number(row.current) === current));
    const success = counted.requests === 0 ? null : counted.status_2xx / counted.requests;
    const used = usage.filter((row) => Number(row.current) === current);
    return { ...counted, success_rate: success, ...usageOf(used) };
  };
  const current = (row: { readonly current: number }) => Number(row.current) === 1;
  const byStart = new Map(
    at(OF_BUCKET)
      .filter(current)
      .map((row) => [Number(row.bucket), row]),
  );
  const usageByStart = Map.groupBy(usage.filter(current), (row) => Number(row.bucket));
  const ranking = (of: Ranking) => rows.filter((row) => row.ranking === of);
  return {
    summary: period(1),
    previous_summary: period(0),
    buckets: starts.map((start) => ({
      start: timeText(start * 1000),
      ...requestsOf(byStart.get(start)),
      ...usageOf(usageByStart.get(start) ?? []),
    })),
    provider_latency: latencyOf(at(OF_PROVIDER).filter(current), starts),
    user_paths: ranking('user_path').map((row) => ({ user_path: row.name, ...rankedOf(row) })),
    keys: ranking('key').map((row) => {
      const name = row.name === '' ? undefined : nameOf(row.name);
      return { auth_key_id: row.name || null, ...(name === undefined ? {} : { name }), ...rankedOf(row) };
    }),
    models: ranking('model').map((row) => ({ provider_name: row.provider, model: row.name, ...rankedOf(row) })),
  };
}

/** One series for each provider that has answered, each as long as there are buckets. */
function latencyOf(rows: readonly RequestSums[], starts: readonly number[]) {
  const answered = rows.filter(({ reached }) => Number(reached) > 0);
  const byProvider = Map.groupBy(answered, ({ provider }) => provider);
  return [...byProvider.keys()].sort().map((provider) => {
    const byStart = new Map(byProvider.get(provider)?.map((row) => [Number(row.bucket), row]));
    const inBuckets = starts.map((start) => byStart.get(start));
    return {
      provider,
      requests: inBuckets.map((row) => Number(row?.reached ?? 0)),
      p50_ms: inBuckets.map((row) => row?.provider_duration[0] ?? null),
      p95_ms: inBuckets.map((row) => row?.provider_duration[1] ?? null),
    };
  });
}

function rankedOf(row: RankedSums) {
  const [requests, hits] = [Number(row.requests), Number(row.cache_hits)];
  const of = { priced: BigInt(row.priced), answered: BigInt(row.answered), hits };
  return {
    requests,
    errors: requests - Number(row.ok),
    total_tokens: Number(row.total_tokens),
    total_cost: costOrFree(BigInt(row.total_cost), of),
    cache_hits: hits,
    saved_cost: savedCost(BigInt(row.saved_cost), BigInt(row.saved_priced), BigInt(hits)),
  };
}

const MOST_BUCKETS = 92;
/** Without parts of a day that show little more than that nights are quiet. */
const intervals: readonly BucketInterval[] = ['PT1M', 'PT5M', 'PT30M', 'PT1H', 'PT3H', 'P1D', 'P7D', 'P1M', 'P3M'];
const QUARTER_HOUR_MS = 900_000;

const getOverview = scopedAdmin('getOverview', 'Get the figures of the overview', {
  description:
    'Requests, durations, tokens and cost of a range, the same of the time before it, and by intervals of the range: at ' +
    `most ${MOST_BUCKETS}; and the ten user paths, keys and models with the most requests. Percentiles are within 0.8 %.`,
  querystring: queryOfParameters(rangeParameters),
  requestHeaders: reportHeaders,
  response: { 200: jsonAnswer('The figures; 0 while requests are not recorded or analytics is off', overview) },
});

export function registerOverview(admin: Routes, reports: Reports): void {
  const { db, isKept, usageEnabled, keys, analytics, now } = reports;
  admin.get('/overview', getOverview, async (request, reply) => {
    const at = now();
    const range = requestedRange(request.query, reportContext(request, at));
    const { interval, starts: all } = timeBuckets(range, MOST_BUCKETS, intervals);
    const starts = all.filter((start) => start <= at).map((start) => Math.floor(start / 1000));
    const before = range.from - lengthOf(range, at);
    // No request is older than 1970, and the tables have no such times.
    const inTable = starts.filter((start) => start >= 0);
    const of = { from: range.from, until: range.until, before, starts: inTable, subtree: range.subtree };
    const gone = untilGone(reply);
    const ask = async <Row>({ sql, parameters }: Question, enabled: boolean): Promise<Row[]> =>
      enabled && inTable.length > 0 ? db.rows<Row>(sql, parameters, gone) : [];
    const [requests, usage, ranked] = await Promise.all([
      ask<RequestSums>(requestsByTime(of), isKept),
      ask<UsageSums>(usageByTime(of), usageEnabled),
      ask<RankedSums>(mostActive(of), isKept),
    ]);
    const scope = scopeOf(request);
    const { health, lagEvents, lagMs } = analytics();
    return {
      from: timeText(range.from),
      to: timeText(range.until),
      time_zone: range.timeZone,
      previous: { from: timeText(before), to: timeText(range.from) },
      interval,
      ...figuresOfOverview({ requests, usage, ranked }, starts, (id) => keys.nameOf(id, scope)),
      analytics: {
        state: health,
        lag_events: lagEvents ?? null,
        lag_seconds: lagMs === undefined ? null : lagMs / 1000,
      },
    };
  });
}

/** Milliseconds; of a range that has not ended the part that has passed, rounded up so that sums are available. */
function lengthOf({ from, until }: Pick<ReportRange, 'from' | 'until'>, now: number): number {
  if (until <= now) return until - from;
  return Math.ceil(Math.max(0, now - from) / QUARTER_HOUR_MS) * QUARTER_HOUR_MS;
}
