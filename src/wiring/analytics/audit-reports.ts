/** Wiring of the audit log's routes: lists and figures from analytics, request and response bodies from the log. */
import type { ReadAudit } from '../../commands/audit/audit-reads.ts';
import type { ReplayDependencies } from '../../commands/exchange/record/replay-answer.ts';
import { registerAuditChain } from '../../http/admin/audit-chain.ts';
import { registerAuditDetail } from '../../http/admin/audit-detail.ts';
import { registerAuditEvents } from '../../http/admin/audit-events.ts';
import { registerAuditExport } from '../../http/admin/audit-export.ts';
import { type AuditFacets, registerAuditFacets } from '../../http/admin/audit-facets.ts';
import { registerAuditHistogram } from '../../http/admin/audit-histogram.ts';
import { registerAuditLog } from '../../http/admin/audit-log.ts';
import { registerAuditProviderRequest } from '../../http/admin/audit-provider-request.ts';
import { registerAuditSql } from '../../http/admin/audit-sql.ts';
import { registerAuditStats } from '../../http/admin/audit-stats.ts';
import { type ContentReads, registerContentReads } from '../../http/admin/content-reads.ts';
import type { AnalyticsState } from '../../http/admin/report-db.ts';
import { registerSql } from '../../http/admin/sql.ts';
import type { Routes } from '../../http/api/route-schema.ts';
import type { AnalyticsAddress, AnalyticsDb, AnalyticsFiles } from '../../projections/analytics/analytics-db.ts';
import { createItemIndex } from '../../projections/items.ts';

export interface AuditRecords {
  readonly audit: ReadAudit;
  /** Reads requests with their bodies. */
  readonly recorded: ReplayDependencies;
  /** The keys in force, for their names. */
  readonly keys: AuditFacets['keys'];
}

export interface AuditReportsWiring extends AuditRecords {
  readonly db: AnalyticsDb;
  readonly files: AnalyticsFiles;
  /** `LOGGING_ENABLED`. */
  readonly isKept: boolean;
  state(): AnalyticsState;
  /** Every event up to this position is stored. */
  storedPosition(): number | undefined;
  /** Address for an administrator's own queries. */
  administrator(): AnalyticsAddress | undefined;
  /** Whether the address is a ClickHouse server, and not the embedded one. */
  readonly isServer: boolean;
  /** The reason for a missing address, unless it is temporary. */
  readonly whyNoSql: string | undefined;
  /** Shared by all mounts. */
  readonly contentReads: ContentReads;
  now(): number;
}

export function registerAuditReports(admin: Routes, wiring: AuditReportsWiring): void {
  const { audit, recorded, keys, db, files, isKept, state, administrator, isServer, whyNoSql, storedPosition, now } =
    wiring;
  const { contentReads } = wiring;
  const reports = { db, items: createItemIndex(recorded.log), isKept, now };
  registerAuditLog(admin, { ...reports, storedPosition });
  registerAuditStats(admin, reports);
  registerAuditHistogram(admin, reports);
  registerAuditFacets(admin, { ...reports, keys });
  registerAuditSql(admin, reports);
  registerAuditChain(admin, { ...reports, recorded });
  registerContentReads(admin, contentReads, (content) => {
    registerAuditDetail(content, { ...reports, audit, recorded });
    registerAuditEvents(content, { ...reports, audit, recorded });
    registerAuditProviderRequest(content, { ...reports, audit, recorded });
  });
  registerAuditExport(admin, { ...reports, audit, files, isOn: () => state() !== 'off' });
  registerSql(admin, { audit, address: administrator, isServer, whyNot: whyNoSql });
}
