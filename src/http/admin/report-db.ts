/** Analytics for reports: no rows while it is off; a refusal when it is on and does not answer. */
import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyReply } from 'fastify';
import { refusals } from '../../commands/refusal.ts';
import {
  type AnalyticsDb,
  type AnalyticsFiles,
  AnalyticsUnavailable,
  QueryFailed,
} from '../../projections/analytics/analytics-db.ts';

export type AnalyticsState = 'off' | 'starting' | 'there';

export interface ReportDbOptions {
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
