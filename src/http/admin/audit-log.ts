/** `GET /admin/audit/log` and `/sessions`: pages of requests, newest first, and of threads by their newest request. */
import { z } from 'zod';
import type { AnalyticsDb } from '../../projections/analytics/analytics-db.ts';
import { auditPage, auditThreads, auditTotal, cursorOf } from '../../projections/analytics/audit-queries.ts';
import { scopedAdmin } from '../api/declare.ts';
import { type QueryParameter, queryOfParameters } from '../api/parameters.ts';
import { jsonAnswer, type Routes } from '../api/route-schema.ts';
import { auditCursorIn, auditCursorText } from '../paging.ts';
import { auditEntry } from './audit-entry.ts';
import { auditFilterOf, auditParameters, sessionParameter } from './audit-request.ts';
import { slimEntries } from './audit-rows.ts';
import { offsetPageAnswer, offsetPageParameters } from './parameters.ts';
import { untilGone } from './report-db.ts';
import { reportContext, reportHeaders } from './report-request.ts';

export interface AuditReports {
  /** Finds nothing while analytics is off. */
  readonly db: AnalyticsDb;
  /** Whether requests are kept for reading; otherwise the answers are empty. */
  readonly isKept: boolean;
  /** Milliseconds since the epoch. */
  now(): number;
}

const pages = offsetPageParameters({ usual: 25, most: 100 });

const getLog = scopedAdmin('adminAuditLog', 'List requests, newest first', {
  description: 'Without bodies. A page by `cursor` costs the same at any depth.',
  querystring: queryOfParameters({
    ...auditParameters,
    session_id: sessionParameter,
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
      z.object({ entries: z.array(auditEntry), ...offsetPageAnswer, next_cursor: z.string().optional() }),
    ),
  },
});

const getSessions = scopedAdmin('adminAuditSessions', 'List sessions with their newest request, the newest first', {
  description: 'A request without a session is listed as a session of its own.',
  querystring: queryOfParameters({ ...auditParameters, ...pages }),
  requestHeaders: reportHeaders,
  response: {
    200: jsonAnswer(
      'A page of sessions',
      z.object({ sessions: z.array(z.object({ latest: auditEntry, request_count: z.int() })), ...offsetPageAnswer }),
    ),
  },
});

export function registerAuditLog(admin: Routes, { db, isKept, now }: AuditReports): void {
  admin.get('/audit/log', getLog, async (request, reply) => {
    const filter = auditFilterOf(request.query, reportContext(request, now()));
    const { limit, offset, cursor: after } = request.query;
    if (!isKept) return { entries: [], total: 0, limit, offset };
    const gone = untilGone(reply);
    const [rows, total] = await Promise.all([
      auditPage(db, filter, { limit, offset, after }, gone),
      auditTotal(db, filter, gone),
    ]);
    const entries = await slimEntries(db, rows, gone);
    const last = rows.at(-1);
    return {
      entries,
      total,
      limit,
      offset,
      ...(last === undefined || rows.length < limit ? {} : { next_cursor: auditCursorText(cursorOf(last)) }),
    };
  });

  admin.get('/audit/sessions', getSessions, async (request, reply) => {
    const filter = auditFilterOf(request.query, reportContext(request, now()));
    const page = { limit: request.query.limit, offset: request.query.offset };
    if (!isKept) return { sessions: [], total: 0, ...page };
    const gone = untilGone(reply);
    const { threads, total } = await auditThreads(db, filter, page, gone);
    const newest = threads.map(({ latest }) => latest);
    const entries = await slimEntries(db, newest, gone);
    return {
      sessions: threads.map(({ requests }, index) => ({ latest: entries[index], request_count: requests })),
      total,
      ...page,
    };
  });
}
