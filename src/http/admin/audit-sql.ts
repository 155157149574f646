/** `GET /admin/audit/sql`: the filter of a request report as a query for analysts. */
import { z } from 'zod';
import { auditSql } from '../../projections/analytics/audit-sql.ts';
import { scopedAdmin } from '../api/declare.ts';
import { queryOfParameters } from '../api/parameters.ts';
import { jsonAnswer, type Routes } from '../api/route-schema.ts';
import { auditById } from './audit-by-id.ts';
import type { AuditReports } from './audit-log.ts';
import { auditParameters, requestedAudit } from './audit-request.ts';
import { untilGone } from './report-db.ts';
import { reportContext, reportHeaders } from './report-request.ts';

const getSql = scopedAdmin('adminAuditSql', 'Get the SQL query that is equivalent to a filter', {
  description:
    'For `POST /admin/sql` and other clients of ClickHouse. It finds the same requests in the same order, at most 1,000. ' +
    'For an administrator of a subtree it contains the condition on the subtree.',
  querystring: queryOfParameters(auditParameters),
  requestHeaders: reportHeaders,
  response: { 200: jsonAnswer('The query', z.object({ sql: z.string() })) },
});

export function registerAuditSql(admin: Routes, reports: AuditReports): void {
  const { isKept, now } = reports;
  admin.get('/audit/sql', getSql, async (request, reply) => {
    const requested = requestedAudit(request.query, reportContext(request, now()));
    const { filter } = isKept ? await auditById(request.query, requested, reports, untilGone(reply)) : requested;
    return { sql: auditSql(filter) };
  });
}
