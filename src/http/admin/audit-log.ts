/** `GET /admin/audit/log` and `/sessions`: pages of requests, newest first, and of threads by their newest request. */

import type { AnalyticsDb } from '../../projections/analytics/analytics-db.ts';
import {
  auditPage,
  auditThreads,
  auditTotal,
  cursorOf,
  usageOfRequests,
} from '../../projections/analytics/audit-queries.ts';
import type { Routes } from '../api/route-schema.ts';
import { auditCursorIn, auditCursorText, offsetPageIn } from '../paging.ts';
import { queryOf } from '../query.ts';
import { slimEntry } from './audit-entry.ts';
import { auditFilterOf } from './audit-request.ts';
import { untilGone } from './report-db.ts';

export interface AuditReports {
  /** Finds nothing while analytics is off. */
  readonly db: AnalyticsDb;
  /** Whether requests are kept for reading; otherwise the answers are empty. */
  readonly isKept: boolean;
  /** Milliseconds since the epoch. */
  now(): number;
}

const sizes = { usual: 25, most: 100 };

export function registerAuditLog(admin: Routes, { db, isKept, now }: AuditReports): void {
  admin.get('/audit/log', { config: { access: 'scoped-admin' } }, async (request, reply) => {
    const filter = auditFilterOf(request, now());
    const { limit, offset } = offsetPageIn(queryOf(request), sizes);
    const after = auditCursorIn(queryOf(request));
    if (!isKept) return { entries: [], total: 0, limit, offset };
    const gone = untilGone(reply);
    const [rows, total] = await Promise.all([
      auditPage(db, filter, { limit, offset, after }, gone),
      auditTotal(db, filter, gone),
    ]);
    const usage = await usageOfRequests(db, rows, gone);
    const last = rows.at(-1);
    return {
      entries: rows.map((row) => slimEntry(row, usage.get(row.id))),
      total,
      limit,
      offset,
      ...(last === undefined || rows.length < limit ? {} : { next_cursor: auditCursorText(cursorOf(last)) }),
    };
  });

  admin.get('/audit/sessions', { config: { access: 'scoped-admin' } }, async (request, reply) => {
    const filter = { ...auditFilterOf(request, now()), sessionId: undefined };
    const page = offsetPageIn(queryOf(request), sizes);
    if (!isKept) return { sessions: [], total: 0, ...page };
    const gone = untilGone(reply);
    const { threads, total } = await auditThreads(db, filter, page, gone);
    const newest = threads.map(({ latest }) => latest);
    const usage = await usageOfRequests(db, newest, gone);
    return {
      sessions: threads.map(({ latest, requests }) => ({
        latest: slimEntry(latest, usage.get(latest.id)),
        request_count: requests,
      })),
      total,
      ...page,
    };
  });
}
