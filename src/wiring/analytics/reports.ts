/** Wiring of analytics: the reports that query the other process. */

import { LRUCache } from 'lru-cache';
import type { AnalyticsProcess } from '../../analytics/process.ts';
import type { ReadAudit } from '../../commands/audit/audit-reads.ts';
import type { Config } from '../../config/config.ts';
import type { EpochMs } from '../../events/event.ts';
import { visibleKeys } from '../../http/admin/admin-scope.ts';
import { ContentReads, registerContentReads } from '../../http/admin/audit/content-reads.ts';
import { registerAuditChain, registerAuditDetail } from '../../http/admin/audit/detail.ts';
import { registerAuditEvents, registerAuditProviderRequest } from '../../http/admin/audit/events.ts';
import { registerAuditExport } from '../../http/admin/audit/export.ts';
import { registerAuditLog, registerAuditSql } from '../../http/admin/audit/list.ts';
import { registerAuditFacets, registerAuditHistogram, registerAuditStats } from '../../http/admin/audit/statistics.ts';
import { registerCacheOverview } from '../../http/admin/reports/cache.ts';
import { registerOverview } from '../../http/admin/reports/overview.ts';
import {
  type AnalyticsState,
  createReportDb,
  createReportFiles,
  type Reports,
} from '../../http/admin/reports/report-db.ts';
import { registerSql } from '../../http/admin/reports/sql.ts';
import { registerUsageReports } from '../../http/admin/reports/usage.ts';
import { summaryOf } from '../../http/admin/reports/usage-answers.ts';
import type { Routes } from '../../http/api/route-schema.ts';
import type { RecordQuery } from '../../http/clickhouse/reader-request.ts';
import type { UsageFigures, UsageFiguresQuery } from '../../http/v1/usage.ts';
import { type AnalyticsDb, createAnalyticsDb } from '../../projections/analytics/analytics-db.ts';
import { type Sums, usageTotals } from '../../projections/analytics/usage-queries.ts';
import { createItemIndex } from '../../projections/responses.ts';

/** The part of the other process that reports need. */
export type AnalyticsQueries = Pick<AnalyticsProcess, 'address' | 'status'>;

export interface AnalyticsWiring extends Pick<Reports, 'audit' | 'recorded'> {
  readonly config: Config;
  /** The keys in force, for their names. */
  readonly keys: { readonly byId: Parameters<typeof visibleKeys>[0] };
  /** Undefined while analytics is off. */
  readonly analytics: AnalyticsQueries | undefined;
}

export type Analytics = ReturnType<typeof createAnalytics>;

const now = Date.now;

const reportRoutes = [
  ...[registerOverview, registerUsageReports, registerCacheOverview],
  ...[registerAuditLog, registerAuditStats, registerAuditHistogram, registerAuditFacets, registerAuditSql],
  ...[registerAuditChain, registerAuditExport],
];
const contentRoutes = [registerAuditDetail, registerAuditEvents, registerAuditProviderRequest];

export function createAnalytics({ config, analytics, audit, recorded, keys }: AnalyticsWiring) {
  const analyticsDb = createAnalyticsDb({ address: () => analytics?.address() });
  const state = () => stateOf(analytics);
  const db = createReportDb({ db: analyticsDb, state });
  // Shared by all mounts.
  const contentReads = new ContentReads();
  const reports: Reports = {
    ...{ audit, recorded, db, now },
    files: createReportFiles(analyticsDb),
    items: createItemIndex(recorded.log),
    keys: visibleKeys((id) => keys.byId(id)),
    isKept: config.logging.enabled,
    usageEnabled: config.usageEnabled,
    cacheEnabled: config.responseCache.enabled,
    analytics: () => analytics?.status() ?? { health: 'off', lagEvents: undefined },
  };
  return {
    /** The database for reports. */
    db,
    /** For `GET /v1/usage`. */
    usageFigures: createUsageFigures({
      db: createReportDb({ db: analyticsDb, state, waitMs: 0 }),
      enabled: config.usageEnabled,
      isAnalyticsOff: () => state() === 'off',
      now,
    }),
    /** Called once for each prefix of the admin API. */
    register(admin: Routes) {
      for (const register of reportRoutes) register(admin, reports);
      registerContentReads(admin, contentReads, (content) => {
        for (const register of contentRoutes) register(content, reports);
      });
      registerSql(admin, {
        audit,
        address: () => analytics?.address('administrator'),
        isServer: config.analytics.clickhouse.url !== undefined,
        whyNot: analytics === undefined ? undefined : whyNoSql(config),
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

/** Usage for `GET /v1/usage`. Any key may call it at any rate, so results are cached for a short time. */
interface UsageFiguresOptions {
  readonly db: AnalyticsDb;
  /** When false, usage is zero. */
  readonly enabled: boolean;
  /** Whether analytics is off. Default: it is not. */
  isAnalyticsOff?(): boolean;
  now(): EpochMs;
}

/** How long a result is reused for the same query. */
const SAME_MS = 1000;
/** Timeout of the query, so that the rest of the answer is not delayed further. */
const TIMEOUT_MS = 3000;
const MAX_QUERIES = 1000;

interface Known {
  readonly until: number;
  readonly figures: Promise<object | null>;
}

export function createUsageFigures({ db, enabled, isAnalyticsOff, now }: UsageFiguresOptions): UsageFigures {
  const known = new LRUCache<string, Known>({ max: MAX_QUERIES });

  async function figuresOf(query: UsageFiguresQuery): Promise<object | null> {
    const { sql, parameters } = usageTotals(query, 'uncached');
    try {
      return summaryOf(await db.rows<Sums>(sql, parameters, AbortSignal.timeout(TIMEOUT_MS)));
    } catch {
      // The answer's budgets and limits are available all the same.
      return null;
    }
  }

  async function figures(query: UsageFiguresQuery): Promise<object | null> {
    if (!enabled) return summaryOf([]);
    const name = JSON.stringify(query);
    const at = now();
    const same = known.get(name);
    if (same !== undefined && at < same.until) return same.figures;
    const read = figuresOf(query);
    known.set(name, { until: at + SAME_MS, figures: read });
    return read;
  }

  return Object.assign(figures, { isOff: () => !enabled || isAnalyticsOff?.() === true });
}

/** Records queries that analysts send directly to the embedded ClickHouse in the audit log. */
export function recordQueriesIn(audit: Pick<ReadAudit, 'clickHouseQuery'>): RecordQuery {
  return async ({ user, query, format, parameters }) => {
    const sent: Record<string, string> = { query };
    if (format !== undefined) sent['format'] = format;
    if (Object.keys(parameters).length > 0) sent['parameters'] = JSON.stringify(parameters);
    await audit.clickHouseQuery(user, sent);
  };
}
