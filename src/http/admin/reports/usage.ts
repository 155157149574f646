/** `GET /admin/usage/…`: usage and its cost, by caller and time. */
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import { refusals } from '../../../commands/refusal.ts';
import type { UserPath } from '../../../events/event.ts';
import * as queries from '../../../projections/analytics/usage-queries.ts';
import {
  type CacheMode,
  type CorrectionRow,
  cacheModes,
  countUsageRows,
  type Question,
  type UsageFilter,
  type UsageRow,
  usageCorrections,
  usageRows,
} from '../../../projections/analytics/usage-queries.ts';
import {
  parameterWithDefault,
  type QueryParameter,
  queryOfParameters,
  textParameter,
  type Values,
  wordParameter,
} from '../../api/parameters.ts';
import { globalAdmin, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { oneOf } from '../../request-head.ts';
import { auditParameters, exactRange, hasInstants } from '../audit/filter.ts';
import { offsetPageAnswer, offsetPageParameters } from '../parameters.ts';
import { formatParameter, MOST_CSV_ROWS, reportAnswer, sendCsv, wantsCsv } from './report-csv.ts';
import {
  type ReportContext,
  type Reports,
  type RequestedReport,
  reportContext,
  reportHeaders,
  reportParameters,
  requestedReport,
  untilGone,
} from './report-db.ts';
import * as answers from './usage-answers.ts';
import { type Granularity, granularities, type Interval, intervals } from './usage-answers.ts';

/** The parameters of a report's range: days, or instants as in the audit log. */
export const rangeParameters = { ...reportParameters, from: auditParameters.from, to: auditParameters.to };

/** The parameters that restrict a report to a part of the usage. */
export const usageParameters = {
  ...rangeParameters,
  auth_key_id: textParameter('Id of a managed key'),
  model: textParameter('Id of a model at its provider'),
  provider: textParameter('Name or type of a provider'),
  label: textParameter('Label of the requests'),
  session_id: textParameter('Session of the requests'),
};

const filteredUsage = {
  ...usageParameters,
  cache_mode: parameterWithDefault(
    wordParameter(cacheModes, "Whether usage answered from the gateway's caches is counted"),
    'uncached',
  ),
};

const usageQuery = queryOfParameters({ ...filteredUsage, format: formatParameter });

export const intervalParameter = parameterWithDefault<Interval>(
  wordParameter(intervals, 'Length of a period'),
  'daily',
);

const granularityParameter: QueryParameter<Granularity> = {
  description: 'Required. The answer has 60 seconds, 60 minutes, 24 hours or 30 days',
  schema: { type: 'string', enum: Object.keys(granularities) },
  read(query, name) {
    const words = Object.keys(granularities) as readonly Granularity[];
    const granularity = oneOf(query, name, words);
    if (granularity !== undefined) return granularity;
    throw refusals.invalidRequest(`'granularity' is needed: one of ${words.join(', ')}.`, 'granularity');
  },
};

type UsageQuery = Values<typeof usageParameters>;

/** @throws Refusal 400, 403 */
export function filterOf(query: UsageQuery, context: ReportContext): UsageFilter {
  const { from, until, subtree } = requestedRange(query, context);
  const { model, provider, label, session_id: sessionId, auth_key_id: keyId } = query;
  return { from, until, subtree, keyId, model, provider, label, sessionId };
}

/** @throws Refusal 400 with `param`, 403 */
export function requestedRange(query: Values<typeof rangeParameters>, context: ReportContext): RequestedReport {
  const report = requestedReport(query, context);
  return hasInstants(query) ? { ...report, ...exactRange(query, context) } : report;
}

/** Of the rows of a page. */
const CORRECTIONS_AT_ONCE = 200;
const wholeCsv = { limit: MOST_CSV_ROWS, offset: 0 } as const;
const mostFirst = 'The rows with the most tokens first, at most 5000';

const getSummary = scopedAdmin('getUsageSummary', 'Get the sums of usage and cost', {
  querystring: usageQuery,
  requestHeaders: reportHeaders,
  response: { 200: reportAnswer('The sums; 0 while usage is not tracked', answers.usageSummary) },
});

const listPeriods = scopedAdmin('listUsagePeriods', 'List usage by day, week, month or year', {
  querystring: queryOfParameters({ ...filteredUsage, interval: intervalParameter, format: formatParameter }),
  requestHeaders: reportHeaders,
  response: { 200: reportAnswer('The periods with usage, oldest first', z.array(answers.usageOfPeriod)) },
});

/** A report with a row for each of some kind. */
const breakdown =
  (operationId: string, summary: string, description = mostFirst) =>
  (row: z.ZodObject) =>
    scopedAdmin(operationId, summary, {
      querystring: usageQuery,
      requestHeaders: reportHeaders,
      response: { 200: reportAnswer(description, z.array(row)) },
    });

const byModel = breakdown('listUsageByModel', 'List usage by model and provider');
const byUserPath = breakdown('listUsageByUserPath', 'List usage by user path');
const byLabel = breakdown(
  'listUsageByLabel',
  'List usage by label',
  `${mostFirst}. A request with several labels counts for each of them`,
);
const byKey = breakdown(
  'listUsageByKey',
  'List usage by managed key',
  `${mostFirst}. Requests without a managed key have rows of their own`,
);

const listSessions = scopedAdmin('listUsageBySession', 'List usage by session', {
  querystring: queryOfParameters({
    ...usageParameters,
    ...offsetPageParameters({ usual: 50, most: 200, capped: true }),
    format: formatParameter,
  }),
  requestHeaders: reportHeaders,
  response: {
    200: reportAnswer(
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
    format: formatParameter,
  }),
  requestHeaders: reportHeaders,
  response: {
    200: reportAnswer(
      'Newest first, with recalculated costs',
      z.object({ entries: z.array(answers.usageEntry), ...offsetPageAnswer }),
    ),
  },
});

const getThroughput = globalAdmin('getThroughput', 'Get the tokens of the last seconds, minutes, hours or days', {
  querystring: queryOfParameters({ granularity: granularityParameter, format: formatParameter }),
  response: {
    200: reportAnswer('Every bucket, oldest first; the last one contains the current time', answers.throughput),
  },
});

export function registerUsageReports(admin: Routes, { db, usageEnabled, keys, now }: Reports): void {
  const ask = async <Row>({ sql, parameters }: Question, signal: AbortSignal): Promise<Row[]> =>
    usageEnabled ? db.rows<Row>(sql, parameters, signal) : [];

  admin.get('/usage/summary', getSummary, async (request, reply) => {
    const filter = filterOf(request.query, reportContext(request, now()));
    const { cache_mode, format } = request.query;
    const sums = await ask<queries.Sums>(queries.usageTotals(filter, cache_mode), untilGone(reply));
    const summary = answers.summaryOf(sums);
    if (!wantsCsv(request, format)) return summary;
    return sendCsv(reply, { name: 'usage-summary', row: answers.usageSummary, rows: [summary] });
  });

  admin.get('/usage/daily', listPeriods, async (request, reply) => {
    const context = reportContext(request, now());
    const { cache_mode, interval, format } = request.query;
    const days = queries.usageByDay(filterOf(request.query, context), cache_mode, context.timeZone);
    const rows = answers.periodsOf(await ask<queries.DaySums>(days, untilGone(reply)), interval);
    if (!wantsCsv(request, format)) return rows;
    return sendCsv(reply, { name: `usage-${interval}`, row: answers.usageOfPeriod, rows });
  });

  function register<Row>(
    name: string,
    route: ReturnType<typeof breakdown>,
    row: z.ZodObject,
    question: (filter: UsageFilter, mode: CacheMode) => Question,
    answer: (row: Row, scope: UserPath | undefined) => object,
  ): void {
    admin.get(`/usage/${name}`, route(row), async (request, reply) => {
      const context = reportContext(request, now());
      const { cache_mode, format } = request.query;
      const found = await ask<Row>(question(filterOf(request.query, context), cache_mode), untilGone(reply));
      const rows = found.map((one) => answer(one, context.scope));
      return wantsCsv(request, format) ? sendCsv(reply, { name: `usage-${name}`, row, rows }) : rows;
    });
  }
  register('models', byModel, answers.usageOfModel, queries.usageByModel, answers.modelOf);
  register('user-paths', byUserPath, answers.usageOfUserPath, queries.usageByUserPath, answers.userPathOf);
  register('labels', byLabel, answers.usageOfLabel, queries.usageByLabel, answers.labelOf);
  register<queries.KeySums>('keys', byKey, answers.usageOfKey, queries.usageByKey, (row, scope) =>
    answers.keyOf(row, keys.nameOf(row.auth_key_id, scope)),
  );

  admin.get('/usage/sessions', listSessions, async (request, reply) => {
    const filter = filterOf(request.query, reportContext(request, now()));
    const isCsv = wantsCsv(request, request.query.format);
    const { limit, offset } = isCsv ? wholeCsv : request.query;
    // A session includes its cached requests: a cache may have answered a part of it.
    const signal = untilGone(reply);
    const rows = await ask<queries.SessionSums>(queries.usageBySession(filter, 'all', { limit, offset }), signal);
    const [count] = rows.length > 0 ? rows : await ask<{ total: string }>(queries.countSessions(filter, 'all'), signal);
    const entries = rows.map(answers.sessionOf);
    const total = Number(count?.total ?? 0);
    if (!isCsv) return { entries, total, limit, offset };
    return sendCsv(reply, { name: 'usage-sessions', row: answers.usageOfSession, rows: entries, total });
  });

  admin.get('/usage/log', listEntries, async (request, reply) => {
    const { search, cache_mode, format } = request.query;
    const isCsv = wantsCsv(request, format);
    const { limit, offset } = isCsv ? wholeCsv : request.query;
    const filter = { ...filterOf(request.query, reportContext(request, now())), search };
    const rows = usageRows(filter, cache_mode, { limit, offset });
    const found = await rowsWithTotal<UsageRow>(reply, rows, countUsageRows(filter, cache_mode));
    const corrections = await correctionsOf(found.rows, untilGone(reply));
    const entries = found.rows.map((row) => answers.entryOf(row, corrections.get(row.usage_id)));
    if (!isCsv) return { entries, total: found.total, limit, offset };
    return sendCsv(reply, { name: 'usage-log', row: answers.usageEntry, rows: entries, total: found.total });
  });

  admin.get('/usage/throughput', getThroughput, async (request, reply) => {
    const { granularity, format } = request.query;
    const at = now();
    const { seconds, ...times } = answers.throughputTimes(granularity, at);
    const rows = await ask<queries.ThroughputRow>(queries.tokensByTime(times, seconds), untilGone(reply));
    const throughput = answers.throughputOf(rows, granularity, at);
    if (!wantsCsv(request, format)) return throughput;
    return sendCsv(reply, { name: 'throughput', row: answers.throughputBucket, rows: throughput.buckets });
  });

  async function rowsWithTotal<Row>(reply: FastifyReply, rows: Question, count: Question) {
    const signal = untilGone(reply);
    const [found, totals] = await Promise.all([ask<Row>(rows, signal), ask<{ total: string }>(count, signal)]);
    return { rows: found, total: Number(totals[0]?.total ?? 0) };
  }

  async function correctionsOf(rows: readonly UsageRow[], signal: AbortSignal) {
    const found = new Map<string, CorrectionRow>();
    // The ids are in the address of the query, whose length is limited.
    for (let first = 0; first < rows.length; first += CORRECTIONS_AT_ONCE) {
      const some = usageCorrections(rows.slice(first, first + CORRECTIONS_AT_ONCE));
      for (const correction of await ask<CorrectionRow>(some, signal)) found.set(correction.usage_id, correction);
    }
    return found;
  }
}
