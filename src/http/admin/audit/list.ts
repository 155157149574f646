/**
 * `GET /admin/audit/log`, `/sessions` and `/sql`: pages of requests, newest first, of threads by their newest
 * request, and the same filter as a query.
 */
import { z } from 'zod';
import { formatPosition } from '../../../events/event.ts';
import {
  auditPage,
  auditSql,
  auditThreads,
  auditThreadTotal,
  auditTotal,
  cursorOf,
} from '../../../projections/analytics/audit-queries.ts';
import {
  booleanParameter,
  parameterWithDefault,
  type QueryParameter,
  queryOfParameters,
} from '../../api/parameters.ts';
import { jsonAnswer, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { timeText } from '../../dates.ts';
import { auditCursorIn, auditCursorText } from '../../paging.ts';
import { offsetPageAnswer, offsetPageParameters } from '../parameters.ts';
import { askFor, type Reports, reportContext, reportHeaders } from '../reports/report-db.ts';
import { auditEntry, slimEntries } from './entry.ts';
import { auditById, auditParameters, idKinds, requestedAudit } from './filter.ts';

const USD = 1e9;

const pages = {
  ...offsetPageParameters({ usual: 25, most: 100 }),
  total: parameterWithDefault(booleanParameter('Whether to count all entries of the filter'), true),
};

const pageAnswer = {
  ...offsetPageAnswer,
  total: z.int().optional().describe('Absent with `total=false`'),
  found_by: z.array(z.enum(idKinds)).optional().describe('With `id`: of what it is the id; empty when nothing has it'),
};

const getLog = scopedAdmin('adminAuditLog', 'List requests, newest first', {
  description: 'Without bodies. A page by `cursor` costs the same at any depth.',
  querystring: queryOfParameters({
    ...auditParameters,
    ...pages,
    cursor: {
      description: '`next_cursor` of the page before; `offset` is then ignored',
      schema: { type: 'string' },
      read: auditCursorIn,
    } satisfies QueryParameter<ReturnType<typeof auditCursorIn>>,
  }),
  requestHeaders: reportHeaders,
  response: {
    200: jsonAnswer(
      'A page of entries',
      z.object({
        entries: z.array(auditEntry),
        ...pageAnswer,
        next_cursor: z.string().optional(),
        position: z
          .string()
          .optional()
          .describe('Requests that ended up to this position of the log are included. Absent while it is unknown'),
      }),
    ),
  },
});

const session = z.object({
  latest: auditEntry,
  request_count: z.int(),
  failed_count: z.int().describe('Requests that were refused, failed, or got no status'),
  first_at: z.iso.datetime().describe('When the first request of the filter was received'),
  duration_ms: z.number().describe('From the first request to the end of the last one'),
  total_tokens: z.number().nullable().describe('Of its requests; null when no provider reported any'),
  total_cost: z.number().nullable().describe('US dollars; null when no part of it has a price'),
});

const getSessions = scopedAdmin('adminAuditSessions', 'List sessions with their newest request, the newest first', {
  description: 'A request without a session is listed as a session of its own.',
  querystring: queryOfParameters({ ...auditParameters, ...pages }),
  requestHeaders: reportHeaders,
  response: {
    200: jsonAnswer('A page of sessions', z.object({ sessions: z.array(session), ...pageAnswer })),
  },
});

export function registerAuditLog(admin: Routes, reports: Reports): void {
  const { db, items, isKept, analytics, now } = reports;

  admin.get('/audit/log', getLog, async (request, reply) => {
    const requested = requestedAudit(request.query, reportContext(request, now()));
    const { limit, offset, cursor: after, total: isCounted } = request.query;
    if (!isKept) return { entries: [], total: isCounted ? 0 : undefined, limit, offset };
    const ask = askFor(reply, db);
    // Before the query: it returns at least what is stored now.
    const stored = analytics().position;
    const { filter, foundBy } = await auditById(request.query, requested, ask, items);
    const [rows, total] = await Promise.all([
      auditPage(ask, filter, { limit, offset, after }),
      isCounted ? auditTotal(ask, filter) : undefined,
    ]);
    const last = rows.at(-1);
    return {
      entries: await slimEntries(ask, rows),
      total,
      limit,
      offset,
      found_by: foundBy,
      next_cursor: last === undefined || rows.length < limit ? undefined : auditCursorText(cursorOf(last)),
      position: stored === undefined ? undefined : formatPosition(stored),
    };
  });

  admin.get('/audit/sessions', getSessions, async (request, reply) => {
    const requested = requestedAudit(request.query, reportContext(request, now()));
    const { limit, offset, total: isCounted } = request.query;
    if (!isKept) return { sessions: [], total: isCounted ? 0 : undefined, limit, offset };
    const ask = askFor(reply, db);
    const { filter, foundBy } = await auditById(request.query, requested, ask, items);
    const [threads, total] = await Promise.all([
      auditThreads(ask, filter, { limit, offset }),
      isCounted ? auditThreadTotal(ask, filter) : undefined,
    ]);
    const newest = threads.map(({ latest }) => latest);
    const entries = await slimEntries(ask, newest);
    return {
      sessions: threads.map(({ requests, failed, firstAtUs, durationMs, usage }, index) => ({
        latest: entries[index],
        request_count: requests,
        failed_count: failed,
        first_at: timeText(Math.floor(Number(firstAtUs) / 1000)),
        duration_ms: durationMs,
        total_tokens: usage.totalTokens,
        total_cost: usage.totalCost === null ? null : Number(usage.totalCost) / USD,
      })),
      total,
      limit,
      offset,
      found_by: foundBy,
    };
  });
}

/** `GET /admin/audit/sql`: the filter of a request report as a query for analysts. */
const getSql = scopedAdmin('adminAuditSql', 'Get the SQL query that is equivalent to a filter', {
  description:
    'For `POST /admin/sql` and other clients of ClickHouse. It finds the same requests in the same order, at most 1,000. ' +
    'For an administrator of a subtree it contains the condition on the subtree.',
  querystring: queryOfParameters(auditParameters),
  requestHeaders: reportHeaders,
  response: { 200: jsonAnswer('The query', z.object({ sql: z.string() })) },
});

export function registerAuditSql(admin: Routes, reports: Reports): void {
  const { db, items, isKept, now } = reports;
  admin.get('/audit/sql', getSql, async (request, reply) => {
    const requested = requestedAudit(request.query, reportContext(request, now()));
    const { filter } = isKept ? await auditById(request.query, requested, askFor(reply, db), items) : requested;
    return { sql: auditSql(filter) };
  });
}
