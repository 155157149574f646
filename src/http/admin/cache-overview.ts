/** `GET /admin/cache/overview`: hits of the gateway's caches and the cost they saved. */

import { refusals } from '../../commands/refusal.ts';
import type { AnalyticsDb } from '../../projections/analytics/analytics-db.ts';
import { type CacheDay, type CacheFigure, cacheByDay } from '../../projections/analytics/usage-queries.ts';
import type { Routes } from '../api/route-schema.ts';
import { untilGone } from './report-db.ts';
import { costOf, type Interval, periodOf } from './usage-answers.ts';
import { filterOf, intervalOf } from './usage-request.ts';

export interface CacheOverviewOptions {
  readonly db: AnalyticsDb;
  /** Whether the gateway has a cache and records usage. */
  readonly enabled: boolean;
  /** Milliseconds since the epoch. */
  now(): number;
}

export function registerCacheOverview(admin: Routes, { db, enabled, now }: CacheOverviewOptions): void {
  admin.get('/cache/overview', { config: { access: 'global-admin' } }, async (request, reply) => {
    const { filter, timeZone } = filterOf(request, now());
    const interval = intervalOf(request);
    if (!enabled) throw refusals.featureUnavailable('The gateway does not cache answers.');
    const { sql, parameters } = cacheByDay(filter, timeZone);
    return overviewOf(await db.rows<CacheDay>(sql, parameters, untilGone(reply)), interval);
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
