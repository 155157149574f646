/** `GET /admin/usage/…`: usage and its cost, by caller and time. */
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import type { AnalyticsDb } from '../../projections/analytics/analytics-db.ts';
import type { CacheMode, Question, UsageFilter } from '../../projections/analytics/usage-filter.ts';
import {
  type CorrectionRow,
  countUsageRows,
  type UsageRow,
  usageCorrections,
  usageRows,
} from '../../projections/analytics/usage-log-queries.ts';
import * as queries from '../../projections/analytics/usage-queries.ts';
import { globalAdmin, scopedAdmin } from '../api/declare.ts';
import { queryOfParameters, textParameter } from '../api/parameters.ts';
import { jsonAnswer, type Routes } from '../api/route-schema.ts';
import { offsetPageAnswer, offsetPageParameters } from './parameters.ts';
import { untilGone } from './report-db.ts';
import { reportContext, reportHeaders } from './report-request.ts';
import * as answers from './usage-answers.ts';
import {
  filteredUsage,
  filterOf,
  granularityParameter,
  intervalParameter,
  usageParameters,
  usageQuery,
} from './usage-request.ts';

export interface UsageReportOptions {
  readonly db: AnalyticsDb;
  /** When false the reports show no usage; invalid queries are refused all the same. */
  readonly enabled: boolean;
  /** Milliseconds since the epoch. */
  now(): number;
}

const mostFirst = 'The rows with the most tokens first, at most 5000';

const getSummary = scopedAdmin('getUsageSummary', 'Get the sums of usage and cost', {
  querystring: usageQuery,
  requestHeaders: reportHeaders,
  response: { 200: jsonAnswer('The sums; 0 while usage is not tracked', answers.usageSummary) },
});

const listPeriods = scopedAdmin('listUsagePeriods', 'List usage by day, week, month or year', {
  querystring: queryOfParameters({ ...filteredUsage, interval: intervalParameter }),
  requestHeaders: reportHeaders,
  response: { 200: jsonAnswer('The periods with usage, oldest first', z.array(answers.usageOfPeriod)) },
});

/** A report with a row for each of some kind. */
const breakdown = (operationId: string, summary: string, row: z.ZodType, description = mostFirst) =>
  scopedAdmin(operationId, summary, {
    querystring: usageQuery,
    requestHeaders: reportHeaders,
    response: { 200: jsonAnswer(description, z.array(row)) },
  });

type Breakdown = ReturnType<typeof breakdown>;
type BreakdownQuestion = (filter: UsageFilter, mode: CacheMode) => Question;

const listModels = breakdown('listUsageByModel', 'List usage by model and provider', answers.usageOfModel);
const listUserPaths = breakdown('listUsageByUserPath', 'List usage by user path', answers.usageOfUserPath);
const listLabels = breakdown(
  'listUsageByLabel',
  'List usage by label',
  answers.usageOfLabel,
  `${mostFirst}. A request with several labels counts for each of them`,
);

const listSessions = scopedAdmin('listUsageBySession', 'List usage by session', {
  querystring: queryOfParameters({
    ...usageParameters,
    ...offsetPageParameters({ usual: 50, most: 200, capped: true }),
  }),
  requestHeaders: reportHeaders,
  response: {
    200: jsonAnswer(
      'The last used sessions first. Requests and tokens include those answered from a cache, costs do not',
      z.object({ entries: z.array(answers.usageOfSession), ...offsetPageAnswer }),
    ),
  },
});

const listEntries = scopedAdmin('listUsage', 'List the usage of each request', {
  querystring: queryOfParameters({
    ...filteredUsage,
    search: textParameter('Part of the model, the provider, the id of the request or of the session'),
    ...offsetPageParameters({ usual: 50, most: 200 }),
  }),
  requestHeaders: reportHeaders,
  response: {
    200: jsonAnswer(
      'Newest first, with recalculated costs',
      z.object({ entries: z.array(answers.usageEntry), ...offsetPageAnswer }),
    ),
  },
});

const getThroughput = globalAdmin('getThroughput', 'Get the tokens of the last seconds, minutes, hours or days', {
  querystring: queryOfParameters({ granularity: granularityParameter }),
  response: {
    200: jsonAnswer('Every bucket, oldest first; the last one contains the current time', answers.throughput),
  },
});

export function registerUsageReports(admin: Routes, { db, enabled, now }: UsageReportOptions): void {
  const ask = async <Row>({ sql, parameters }: Question, signal: AbortSignal): Promise<Row[]> =>
    enabled ? db.rows<Row>(sql, parameters, signal) : [];

  admin.get('/usage/summary', getSummary, async (request, reply) => {
    const filter = filterOf(request.query, reportContext(request, now()));
    return answers.summaryOf(
      await ask<queries.Sums>(queries.usageTotals(filter, request.query.cache_mode), untilGone(reply)),
    );
  });

  admin.get('/usage/daily', listPeriods, async (request, reply) => {
    const context = reportContext(request, now());
    const { cache_mode, interval } = request.query;
    const days = queries.usageByDay(filterOf(request.query, context), cache_mode, context.timeZone);
    return answers.periodsOf(await ask<queries.DaySums>(days, untilGone(reply)), interval);
  });

  const register = <Row>(url: string, route: Breakdown, question: BreakdownQuestion, answer: (row: Row) => object) =>
    admin.get(url, route, async (request, reply) => {
      const filter = filterOf(request.query, reportContext(request, now()));
      return (await ask<Row>(question(filter, request.query.cache_mode), untilGone(reply))).map(answer);
    });
  register('/usage/models', listModels, queries.usageByModel, answers.modelOf);
  register('/usage/user-paths', listUserPaths, queries.usageByUserPath, answers.userPathOf);
  register('/usage/labels', listLabels, queries.usageByLabel, answers.labelOf);

  admin.get('/usage/sessions', listSessions, async (request, reply) => {
    const filter = filterOf(request.query, reportContext(request, now()));
    const { limit, offset } = request.query;
    // A session includes its cached requests: a cache may have answered a part of it.
    const signal = untilGone(reply);
    const rows = await ask<queries.SessionSums>(queries.usageBySession(filter, 'all', { limit, offset }), signal);
    const [count] = rows.length > 0 ? rows : await ask<{ total: string }>(queries.countSessions(filter, 'all'), signal);
    return { entries: rows.map(answers.sessionOf), total: Number(count?.total ?? 0), limit, offset };
  });

  admin.get('/usage/log', listEntries, async (request, reply) => {
    const { search, cache_mode, limit, offset } = request.query;
    const filter = { ...filterOf(request.query, reportContext(request, now())), search };
    const rows = usageRows(filter, cache_mode, { limit, offset });
    const found = await rowsWithTotal<UsageRow>(reply, rows, countUsageRows(filter, cache_mode));
    const corrections = await correctionsOf(found.rows, untilGone(reply));
    const entries = found.rows.map((row) => answers.entryOf(row, corrections.get(row.usage_id)));
    return { entries, total: found.total, limit, offset };
  });

  admin.get('/usage/throughput', getThroughput, async (request, reply) => {
    const { granularity } = request.query;
    const at = now();
    const { seconds, ...times } = answers.throughputTimes(granularity, at);
    const rows = await ask<queries.ThroughputRow>(queries.tokensByTime(times, seconds), untilGone(reply));
    return answers.throughputOf(rows, granularity, at);
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
