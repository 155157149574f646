/** Wiring of analytics: the reports that query the other process. */

import { LRUCache } from 'lru-cache';
import type { AnalyticsProcess } from '../../analytics/process.ts';
import type { ReadAudit } from '../../commands/audit/audit-reads.ts';
import type { ReplayDependencies } from '../../commands/exchange/record/replay-answer.ts';
import type { Config } from '../../config/config.ts';
import { visibleKeys } from '../../http/admin/admin-scope.ts';
import { ContentReads, registerContentReads } from '../../http/admin/audit/content-reads.ts';
import { registerAuditChain, registerAuditDetail } from '../../http/admin/audit/detail.ts';
import { registerAuditEvents, registerAuditProviderRequest } from '../../http/admin/audit/events.ts';
import { registerAuditExport } from '../../http/admin/audit/export.ts';
import { registerAuditLog, registerAuditSql } from '../../http/admin/audit/list.ts';
import {
  type AuditFacets,
  registerAuditFacets,
  registerAuditHistogram,
  registerAuditStats,
} from '../../http/admin/audit/statistics.ts';
import { registerCacheOverview } from '../../http/admin/reports/cache.ts';
import { registerOverview } from '../../http/admin/reports/overview.ts';
import { type AnalyticsState, createReportDb, createReportFiles } from '../../http/admin/reports/report-db.ts';
import { registerSql } from '../../http/admin/reports/sql.ts';
import { registerUsageReports } from '../../http/admin/reports/usage.ts';
import { summaryOf } from '../../http/admin/reports/usage-answers.ts';
import type { Routes } from '../../http/api/route-schema.ts';
import type { RecordQuery } from '../../http/clickhouse/reader-request.ts';
import type { UsageFigures, UsageFiguresQuery } from '../../http/v1/usage.ts';
import {
  type AnalyticsAddress,
  type AnalyticsDb,
  type AnalyticsFiles,
  createAnalyticsDb,
} from '../../projections/analytics/analytics-db.ts';
import { type Sums, usageTotals } from '../../projections/analytics/usage-queries.ts';
import { createItemIndex } from '../../projections/responses.ts';

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

/** Wiring of the audit log's routes: lists and figures from analytics, request and response bodies from the log. */
interface AuditRecords {
  readonly audit: ReadAudit;
  /** Reads requests with their bodies. */
  readonly recorded: ReplayDependencies;
  /** The keys in force, for their names. */
  readonly keys: AuditFacets['keys'];
}

interface AuditReportsWiring extends AuditRecords {
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

function registerAuditReports(admin: Routes, wiring: AuditReportsWiring): void {
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

/** Usage for `GET /v1/usage`. Any key may call it at any rate, so results are cached for a short time. */
interface UsageFiguresOptions {
  readonly db: AnalyticsDb;
  /** When false, usage is zero. */
  readonly enabled: boolean;
  /** Whether analytics is off. Default: it is not. */
  isAnalyticsOff?(): boolean;
  /** Milliseconds since the epoch. */
  now(): number;
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
