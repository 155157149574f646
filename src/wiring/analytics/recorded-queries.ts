/** Records queries that analysts send directly to the embedded ClickHouse in the audit log. */
import type { ReadAudit } from '../../commands/audit/audit-reads.ts';
import type { RecordQuery } from '../../http/clickhouse/reader-request.ts';

export function recordQueriesIn(audit: Pick<ReadAudit, 'clickHouseQuery'>): RecordQuery {
  return async ({ user, query, format, parameters }) => {
    const sent: Record<string, string> = { query };
    if (format !== undefined) sent['format'] = format;
    if (Object.keys(parameters).length > 0) sent['parameters'] = JSON.stringify(parameters);
    await audit.clickHouseQuery(user, sent);
  };
}
