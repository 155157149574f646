/** Analytics for reports: no rows while it is off; a refusal when it is on and does not answer. */
import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { ReadAudit } from '../../../commands/audit/audit-reads.ts';
import type { ReplayDependencies } from '../../../commands/exchange/record/replay-answer.ts';
import { refusals } from '../../../commands/refusal.ts';
import type { EpochMs, UserPath } from '../../../events/event.ts';
import {
  type AnalyticsDb,
  type AnalyticsFiles,
  AnalyticsUnavailable,
  type Ask,
  QueryFailed,
} from '../../../projections/analytics/analytics-db.ts';
import type { ItemIndex } from '../../../projections/responses.ts';
import { type QueryParameter, textParameter, type Values } from '../../api/parameters.ts';
import { type ReportRange, reportRange, timeZoneOf } from '../../dates.ts';
import { userPathFilter, wholeNumber } from '../../request-head.ts';
import { pathInScope, scopeOf, type VisibleKeys } from '../admin-scope.ts';

export type AnalyticsState = 'off' | 'starting' | 'there';

interface ReportDbOptions {
  readonly db: AnalyticsDb;
  state(): AnalyticsState;
  /** How long a report waits for analytics to start. Default 10 s. */
  readonly waitMs?: number;
}

const POLL_MS = 50;
/** ClickHouse's codes for a missing table or database: analytics creates both when it starts. */
const missingTableCodes = new Set(['60', '81']);

/**
 * `rows` waits for analytics that is starting, also again after it ended during the query. It returns none while
 * analytics is off, and throws Refusal 503 `analytics_unavailable`, or 499 when the signal is
 * aborted because the client has disconnected.
 */
export function createReportDb({ db, state, waitMs = 10_000 }: ReportDbOptions): AnalyticsDb {
  return {
    async rows<Row>(query: string, parameters?: Readonly<Record<string, unknown>>, signal?: AbortSignal) {
      const deadline = performance.now() + waitMs;
      for (;;) {
        while (state() === 'starting' && performance.now() < deadline) await pause(signal);
        if (state() === 'off') return [];
        try {
          return await db.rows<Row>(query, parameters, signal);
        } catch (error) {
          if (signal?.aborted) throw refusals.requestCanceled();
          if (error instanceof AnalyticsUnavailable) {
            // A process that ended is started again: the query changes nothing and can be repeated.
            if (performance.now() < deadline) await pause(signal);
            if (performance.now() < deadline && state() === 'starting') continue;
            throw refusals.analyticsUnavailable(error);
          }
          if (!(error instanceof QueryFailed && missingTableCodes.has(error.code))) throw error;
          if (performance.now() >= deadline) throw refusals.analyticsUnavailable(error);
          await pause(signal);
        }
      }
    },
    close: () => db.close(),
  };
}

/** The same for files. It throws Refusal 503 `analytics_unavailable` also while analytics is off or not started yet. */
export function createReportFiles(files: AnalyticsFiles): AnalyticsFiles {
  return {
    async file(query, parameters, format, signal) {
      try {
        return await files.file(query, parameters, format, signal);
      } catch (error) {
        if (signal.aborted) throw refusals.requestCanceled();
        throw error instanceof AnalyticsUnavailable ? refusals.analyticsUnavailable(error) : error;
      }
    },
  };
}

/** @throws Refusal 499 when the signal is aborted */
async function pause(signal: AbortSignal | undefined): Promise<void> {
  await delay(POLL_MS, undefined, { signal }).catch(() => {
    throw refusals.requestCanceled();
  });
}

/** Aborted when the client disconnects before its answer is complete: the query is then no longer needed. */
export function untilGone(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) gone.abort();
  });
  return gone.signal;
}

/** What reports read and record. */
export interface Reports {
  readonly db: AnalyticsDb;
  readonly files: AnalyticsFiles;
  readonly items: ItemIndex;
  readonly keys: VisibleKeys;
  /** Records each read of content. */
  readonly audit: ReadAudit;
  /** Reads requests with their bodies. */
  readonly recorded: ReplayDependencies;
  /** `LOGGING_ENABLED`: otherwise the reports show no requests. */
  readonly isKept: boolean;
  /** `USAGE_ENABLED`: otherwise they show no usage. Invalid queries are refused all the same. */
  readonly usageEnabled: boolean;
  /** Whether the gateway caches answers. */
  readonly cacheEnabled: boolean;
  analytics(): AnalyticsLag;
  now(): EpochMs;
}

/** How current the tables are. */
export interface AnalyticsLag {
  readonly health: 'ok' | 'behind' | 'down' | 'off';
  readonly lagEvents: number | undefined;
  readonly lagMs?: number | undefined;
  /** Every event up to this position is in the database. */
  readonly position?: number | undefined;
}

/** Asks until the client disconnects. */
export function askFor(reply: FastifyReply, db: AnalyticsDb): Ask {
  const gone = untilGone(reply);
  return (query, parameters) => db.rows(query, parameters, gone);
}

/** Days and subtree of a report on usage or requests. */
export const reportParameters = {
  days: {
    description: 'The last days, up to and including today. Ignored with a date',
    schema: { type: 'integer', minimum: 1, default: 30 },
    read: (query, name) => wholeNumber(query, name, { least: 1, most: 999_999_999 }),
  } satisfies QueryParameter<number | undefined>,
  start_date: textParameter('First day, `YYYY-MM-DD`. Default: 29 days before the end', { format: 'date' }),
  end_date: textParameter('Last day, `YYYY-MM-DD`. Default: today', { format: 'date' }),
  user_path: {
    description: "This user path and all paths below it. Default: the caller's scope",
    schema: { type: 'string' },
    read: userPathFilter,
  } satisfies QueryParameter<UserPath | undefined>,
};

export const reportHeaders = {
  'X-Gateway-Timezone': z
    .string()
    .describe('IANA time zone in which days begin. Default, also for an unknown zone: UTC'),
};

type ReportQuery = Values<typeof reportParameters>;

/** The parts of a report's request beside its query. */
export interface ReportContext {
  /** The caller's scope. */
  readonly scope: UserPath | undefined;
  readonly timeZone: string;
  readonly now: EpochMs;
}

export interface RequestedReport extends ReportRange {
  /** Undefined is everything, also requests without a user path. */
  readonly subtree: UserPath | undefined;
}

export function reportContext(request: FastifyRequest, now: number): ReportContext {
  return { scope: scopeOf(request), timeZone: timeZoneOf(request), now };
}

/** @throws Refusal 400 with `param`, 403 `user_path_out_of_scope` */
export function requestedReport(query: ReportQuery, { scope, timeZone, now }: ReportContext): RequestedReport {
  const range = reportRange(query, timeZone, now);
  const path = pathInScope(scope, query.user_path);
  return { ...range, subtree: path === '/' ? undefined : path };
}
