/** `GET /admin/usage/…`: usage and its cost, by caller and time. */

import type { FastifyReply } from 'fastify';
import type { AnalyticsDb } from '../../projections/analytics/analytics-db.ts';
import type { Question } from '../../projections/analytics/usage-filter.ts';
import {
  type CorrectionRow,
  countUsageRows,
  type UsageRow,
  usageCorrections,
  usageRows,
} from '../../projections/analytics/usage-log-queries.ts';
import {
  countSessions,
  type DaySums,
  type LabelSums,
  type ModelSums,
  type SessionSums,
  type Sums,
  type ThroughputRow,
  tokensByTime,
  type UserPathSums,
  usageByDay,
  usageByLabel,
  usageByModel,
  usageBySession,
  usageByUserPath,
  usageTotals,
} from '../../projections/analytics/usage-queries.ts';
import type { Routes } from '../api/route-schema.ts';
import { offsetPageIn } from '../paging.ts';
import { queryOf, textIn } from '../query.ts';
import { untilGone } from './report-db.ts';
import {
  entryOf,
  labelOf,
  modelOf,
  periodsOf,
  sessionOf,
  summaryOf,
  throughputOf,
  throughputTimes,
  userPathOf,
} from './usage-answers.ts';
import { filterOf, granularityOf, intervalOf } from './usage-request.ts';

export interface UsageReportOptions {
  readonly db: AnalyticsDb;
  /** When false the reports show no usage; invalid queries are refused all the same. */
  readonly enabled: boolean;
  /** Milliseconds since the epoch. */
  now(): number;
}

const SESSIONS = { usual: 50, most: 200, capped: true };
const ENTRIES = { usual: 50, most: 200 };

export function registerUsageReports(admin: Routes, { db, enabled, now }: UsageReportOptions): void {
  const scoped = { config: { access: 'scoped-admin' as const } };
  const ask = async <Row>({ sql, parameters }: Question, signal: AbortSignal): Promise<Row[]> =>
    enabled ? db.rows<Row>(sql, parameters, signal) : [];

  admin.get('/usage/summary', scoped, async (request, reply) => {
    const { filter, mode } = filterOf(request, now());
    return summaryOf(await ask<Sums>(usageTotals(filter, mode), untilGone(reply)));
  });

  admin.get('/usage/daily', scoped, async (request, reply) => {
    const { filter, mode, timeZone } = filterOf(request, now());
    const days = await ask<DaySums>(usageByDay(filter, mode, timeZone), untilGone(reply));
    return periodsOf(days, intervalOf(request));
  });

  admin.get('/usage/models', scoped, async (request, reply) => {
    const { filter, mode } = filterOf(request, now());
    return (await ask<ModelSums>(usageByModel(filter, mode), untilGone(reply))).map(modelOf);
  });

  admin.get('/usage/user-paths', scoped, async (request, reply) => {
    const { filter, mode } = filterOf(request, now());
    return (await ask<UserPathSums>(usageByUserPath(filter, mode), untilGone(reply))).map(userPathOf);
  });

  admin.get('/usage/labels', scoped, async (request, reply) => {
    const { filter, mode } = filterOf(request, now());
    return (await ask<LabelSums>(usageByLabel(filter, mode), untilGone(reply))).map(labelOf);
  });

  admin.get('/usage/sessions', scoped, async (request, reply) => {
    const { filter } = filterOf(request, now());
    const page = offsetPageIn(queryOf(request), SESSIONS);
    // A session includes its cached requests: a cache may have answered a part of it.
    const signal = untilGone(reply);
    const rows = await ask<SessionSums>(usageBySession(filter, 'all', page), signal);
    const [count] = rows.length > 0 ? rows : await ask<{ total: string }>(countSessions(filter, 'all'), signal);
    return { entries: rows.map(sessionOf), total: Number(count?.total ?? 0), ...page };
  });

  admin.get('/usage/log', scoped, async (request, reply) => {
    const reportQuery = filterOf(request, now());
    const page = offsetPageIn(queryOf(request), ENTRIES);
    const filter = { ...reportQuery.filter, search: textIn(queryOf(request), 'search') };
    const rows = usageRows(filter, reportQuery.mode, page);
    const found = await rowsWithTotal<UsageRow>(reply, rows, countUsageRows(filter, reportQuery.mode));
    const corrections = await correctionsOf(found.rows, untilGone(reply));
    const entries = found.rows.map((row) => entryOf(row, corrections.get(row.usage_id)));
    return { entries, total: found.total, ...page };
  });

  admin.get('/usage/throughput', { config: { access: 'global-admin' } }, async (request, reply) => {
    const granularity = granularityOf(request);
    const at = now();
    const { seconds, ...times } = throughputTimes(granularity, at);
    const rows = await ask<ThroughputRow>(tokensByTime(times, seconds), untilGone(reply));
    return throughputOf(rows, granularity, at);
  });

  async function rowsWithTotal<Row>(reply: FastifyReply, rows: Question, count: Question) {
    const signal = untilGone(reply);
    const [found, totals] = await Promise.all([ask<Row>(rows, signal), ask<{ total: string }>(count, signal)]);
    return { rows: found, total: Number(totals[0]?.total ?? 0) };
  }

  async function correctionsOf(rows: readonly UsageRow[], signal: AbortSignal) {
    const found = rows.length === 0 ? [] : await ask<CorrectionRow>(usageCorrections(rows), signal);
    return new Map(found.map((correction) => [correction.usage_id, correction]));
  }
}
