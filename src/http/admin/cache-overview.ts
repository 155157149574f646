/** `GET /admin/cache/overview`: hits of the gateway's caches and the cost they saved. */
import { z } from 'zod';
import { refusals } from '../../commands/refusal.ts';
import type { AnalyticsDb } from '../../projections/analytics/analytics-db.ts';
import { type CacheDay, type CacheFigure, cacheByDay } from '../../projections/analytics/usage-queries.ts';
import { globalAdmin } from '../api/declare.ts';
import { queryOfParameters } from '../api/parameters.ts';
import { jsonAnswer, type Routes } from '../api/route-schema.ts';
import { untilGone } from './report-db.ts';
import { reportContext, reportHeaders } from './report-request.ts';
import { costOf, type Interval, periodOf } from './usage-answers.ts';
import { filterOf, intervalParameter, usageParameters } from './usage-request.ts';

export interface CacheOverviewOptions {
  readonly db: AnalyticsDb;
  /** Whether the gateway has a cache and records usage. */
  readonly enabled: boolean;
  /** Milliseconds since the epoch. */
  now(): number;
}

const usd = z.number().nullable().describe('US dollars');
const counts = { exact_hits: z.int(), semantic_hits: z.int() };
const tokens = { input_tokens: z.int(), output_tokens: z.int(), total_tokens: z.int() };
const overview = z.object({
  summary: z.object({
    total_hits: z.int(),
    ...counts,
    total_input_tokens: z.int(),
    total_output_tokens: z.int(),
    total_tokens: z.int(),
    total_saved_cost: usd,
  }),
  daily: z.array(z.object({ date: z.string(), hits: z.int(), ...counts, ...tokens, saved_cost: usd })),
});

const getOverview = globalAdmin('getCacheOverview', "Get the hits of the gateway's caches and the cost they saved", {
  querystring: queryOfParameters({ ...usageParameters, interval: intervalParameter }),
  requestHeaders: reportHeaders,
  response: { 200: jsonAnswer('The sums, and the periods', overview) },
});

export function registerCacheOverview(admin: Routes, { db, enabled, now }: CacheOverviewOptions): void {
  admin.get('/cache/overview', getOverview, async (request, reply) => {
    const context = reportContext(request, now());
    const filter = filterOf(request.query, context);
    if (!enabled) throw refusals.featureUnavailable('The gateway does not cache answers.');
    const { sql, parameters } = cacheByDay(filter, context.timeZone);
    return overviewOf(await db.rows<CacheDay>(sql, parameters, untilGone(reply)), request.query.interval);
  });
}

export function overviewOf(days: readonly CacheDay[], interval: Interval) {
  const { hits, exact_hits, semantic_hits, input_tokens, output_tokens, total_tokens, saved_cost } = sumOf(days);
  return {
    summary: {
      total_hits: hits,
      exact_hits,
      semantic_hits,
      total_input_tokens: input_tokens,
      total_output_tokens: output_tokens,
      total_tokens,
      total_saved_cost: saved_cost,
    },
    daily: [...Map.groupBy(days, ({ day }) => periodOf(day, interval))].map(([date, rows]) => ({
      date,
      ...sumOf(rows),
    })),
  };
}

function sumOf(days: readonly CacheDay[]) {
  const sum = (figure: CacheFigure) => days.reduce((total, day) => total + BigInt(day[figure]), 0n);
  return {
    hits: Number(sum('hits')),
    exact_hits: Number(sum('exact_hits')),
    semantic_hits: Number(sum('semantic_hits')),
    input_tokens: Number(sum('input_tokens')),
    output_tokens: Number(sum('output_tokens')),
    total_tokens: Number(sum('total_tokens')),
    saved_cost: costOf(sum('saved_cost'), sum('saved_priced')),
  };
}
