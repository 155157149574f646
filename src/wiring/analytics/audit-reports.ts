/** The audit log over HTTP, wired: lists and figures from analytics, what was said from the log. */
import type { FastifyInstance } from 'fastify';
import type { ReadAudit } from '../../commands/audit/audit-reads.ts';
import type { ReplayDependencies } from '../../commands/exchange/record/replay-answer.ts';
import { registerAuditDetail } from '../../http/admin/audit-detail.ts';
import { registerAuditExport } from '../../http/admin/audit-export.ts';
import { registerAuditLog } from '../../http/admin/audit-log.ts';
import { registerAuditStats } from '../../http/admin/audit-stats.ts';
import type { AnalyticsState } from '../../http/admin/report-db.ts';
import { registerSql } from '../../http/admin/sql.ts';
import type { AnalyticsAddress, AnalyticsDb, AnalyticsFiles } from '../../projections/analytics/analytics-db.ts';

export interface AuditRecords {
  readonly audit: ReadAudit;
  /** Where requests are read with what was said in them. */
  readonly recorded: ReplayDependencies;
}

export interface AuditReportsWiring extends AuditRecords {
  readonly db: AnalyticsDb;
  readonly files: AnalyticsFiles;
  /** `LOGGING_ENABLED`. */
  readonly isKept: boolean;
  state(): AnalyticsState;
  /** Where an administrator's own queries are asked. */
  administrator(): AnalyticsAddress | undefined;
  /** Whether that is a ClickHouse server, and not the embedded one. */
  readonly isServer: boolean;
  /** Why there is no such place, when that is not for the moment. */
  readonly whyNoSql: string | undefined;
  now(): number;
}

export function registerAuditReports(admin: FastifyInstance, wiring: AuditReportsWiring): void {
  const { audit, recorded, db, files, isKept, state, administrator, isServer, whyNoSql, now } = wiring;
  const reports = { db, isKept, now };
  registerAuditLog(admin, reports);
  registerAuditStats(admin, reports);
  registerAuditDetail(admin, { ...reports, audit, recorded });
  registerAuditExport(admin, { ...reports, audit, files, isOn: () => state() !== 'off' });
  registerSql(admin, { audit, address: administrator, isServer, whyNot: whyNoSql });
}
