/** Wiring of analytics: the reports that query the other process. */
import type { AnalyticsProcess } from '../../analytics/process.ts';
import type { Config } from '../../config/config.ts';
import { registerCacheOverview } from '../../http/admin/cache-overview.ts';
import { ContentReads } from '../../http/admin/content-reads.ts';
import { registerOverview } from '../../http/admin/overview.ts';
import { type AnalyticsState, createReportDb, createReportFiles } from '../../http/admin/report-db.ts';
import { registerUsageReports } from '../../http/admin/usage-reports.ts';
import { visibleKeys } from '../../http/admin/visible-keys.ts';
import type { Routes } from '../../http/api/route-schema.ts';
import { createAnalyticsDb } from '../../projections/analytics/analytics-db.ts';
import { type AuditRecords, registerAuditReports } from './audit-reports.ts';
import { createUsageFigures } from './usage-figures.ts';

/** The part of the other process that reports need. */
export type AnalyticsQueries = Pick<AnalyticsProcess, 'address' | 'status'>;

export interface AnalyticsWiring extends AuditRecords {
  readonly config: Config;
  /** Undefined while analytics is off. */
  readonly analytics: AnalyticsQueries | undefined;
}

export type Analytics = ReturnType<typeof createAnalytics>;

const now = Date.now;

export function createAnalytics({ config, analytics, audit, recorded, keys }: AnalyticsWiring) {
  const analyticsDb = createAnalyticsDb({ address: () => analytics?.address() });
  const state = () => stateOf(analytics);
  const db = createReportDb({ db: analyticsDb, state });
  const enabled = config.usageEnabled;
  const names = visibleKeys((id) => keys.byId(id));
  const contentReads = new ContentReads();
  return {
    /** The database for reports. */
    db,
    /** For `GET /v1/usage`. */
    usageFigures: createUsageFigures({
      db: createReportDb({ db: analyticsDb, state, waitMs: 0 }),
      enabled,
      isAnalyticsOff: () => state() === 'off',
      now,
    }),
    /** Called once for each prefix of the admin API. */
    register(admin: Routes) {
      registerOverview(admin, {
        db,
        isKept: config.logging.enabled,
        usageEnabled: enabled,
        keys: names,
        analytics: () => analytics?.status() ?? { health: 'off', lagEvents: undefined },
        now,
      });
      registerUsageReports(admin, { db, enabled, keys: names, now });
      registerCacheOverview(admin, { db, enabled: enabled && config.responseCache.enabled, now });
      registerAuditReports(admin, {
        audit,
        recorded,
        keys,
        contentReads,
        db,
        files: createReportFiles(analyticsDb),
        isKept: config.logging.enabled,
        state,
        storedPosition: () => analytics?.status().position,
        administrator: () => analytics?.address('administrator'),
        isServer: config.analytics.clickhouse.url !== undefined,
        whyNoSql: analytics === undefined ? undefined : whyNoSql(config),
        now,
      });
    },
    close: () => analyticsDb.close(),
  };
}

/** With a server, people's SQL is executed as a user that only reads, and never as the writing one. */
function whyNoSql({ analytics: { clickhouse } }: Config): string | undefined {
  if (clickhouse.url === undefined || clickhouse.analyst !== undefined) return undefined;
  return (
    'SQL on the server at CLICKHOUSE_URL requires a read-only user: set CLICKHOUSE_ANALYST_USER and ' +
    'CLICKHOUSE_ANALYST_PASSWORD, and run `chancery analytics setup` once to create it.'
  );
}

function stateOf(analytics: AnalyticsQueries | undefined): AnalyticsState {
  if (analytics === undefined || analytics.status().health === 'off') return 'off';
  return analytics.address() === undefined ? 'starting' : 'there';
}
