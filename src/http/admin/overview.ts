/** `GET /admin/overview`: the figures of a first look at the gateway, in one answer. */
import type { AnalyticsDb } from '../../projections/analytics/analytics-db.ts';
import {
  mostActive,
  type RankedSums,
  type RequestSums,
  requestsByTime,
  type UsageSums,
  usageByTime,
} from '../../projections/analytics/overview-queries.ts';
import type { Question } from '../../projections/analytics/usage-filter.ts';
import { scopedAdmin } from '../api/declare.ts';
import { queryOfParameters } from '../api/parameters.ts';
import { jsonAnswer, type Routes } from '../api/route-schema.ts';
import type { ReportRange } from '../date-range.ts';
import { type BucketInterval, timeBuckets } from '../time-buckets.ts';
import { timeText } from '../time-text.ts';
import { scopeOf } from './admin-scope.ts';
import { figuresOfOverview, overview } from './overview-answer.ts';
import { untilGone } from './report-db.ts';
import { reportContext, reportHeaders } from './report-request.ts';
import { rangeParameters, requestedRange } from './usage-request.ts';
import type { VisibleKeys } from './visible-keys.ts';

export interface OverviewOptions {
  readonly db: AnalyticsDb;
  /** `LOGGING_ENABLED` and `USAGE_ENABLED`: what is off has no figures. */
  readonly isKept: boolean;
  readonly usageEnabled: boolean;
  readonly keys: VisibleKeys;
  analytics(): AnalyticsLag;
  /** Milliseconds since the epoch. */
  now(): number;
}

/** How current the figures are. */
export interface AnalyticsLag {
  readonly health: 'ok' | 'behind' | 'down' | 'off';
  readonly lagEvents: number | undefined;
  readonly lagMs?: number | undefined;
}

const MOST_BUCKETS = 92;
/** Without parts of a day that show little more than that nights are quiet. */
const intervals: readonly BucketInterval[] = ['PT1M', 'PT5M', 'PT30M', 'PT1H', 'PT3H', 'P1D', 'P7D', 'P1M', 'P3M'];
const QUARTER_HOUR_MS = 900_000;

const getOverview = scopedAdmin('getOverview', 'Get the figures of the overview', {
  description:
    'Requests, durations, tokens and cost of a range, the same of the time before it, and by intervals of the range: at ' +
    `most ${MOST_BUCKETS}; and the ten user paths, keys and models with the most requests. Percentiles are within 0.8 %.`,
  querystring: queryOfParameters(rangeParameters),
  requestHeaders: reportHeaders,
  response: { 200: jsonAnswer('The figures; 0 while requests are not recorded or analytics is off', overview) },
});

export function registerOverview(admin: Routes, options: OverviewOptions): void {
  const { db, isKept, usageEnabled, keys, analytics, now } = options;
  admin.get('/overview', getOverview, async (request, reply) => {
    const at = now();
    const range = requestedRange(request.query, reportContext(request, at));
    const { interval, starts: all } = timeBuckets(range, MOST_BUCKETS, intervals);
    const starts = all.filter((start) => start <= at).map((start) => Math.floor(start / 1000));
    const before = range.from - lengthOf(range, at);
    // No request is older than 1970, and the tables have no such times.
    const inTable = starts.filter((start) => start >= 0);
    const of = { from: range.from, until: range.until, before, starts: inTable, subtree: range.subtree };
    const gone = untilGone(reply);
    const ask = async <Row>({ sql, parameters }: Question, enabled: boolean): Promise<Row[]> =>
      enabled && inTable.length > 0 ? db.rows<Row>(sql, parameters, gone) : [];
    const [requests, usage, ranked] = await Promise.all([
      ask<RequestSums>(requestsByTime(of), isKept),
      ask<UsageSums>(usageByTime(of), usageEnabled),
      ask<RankedSums>(mostActive(of), isKept),
    ]);
    const scope = scopeOf(request);
    const { health, lagEvents, lagMs } = analytics();
    return {
      from: timeText(range.from),
      to: timeText(range.until),
      time_zone: range.timeZone,
      previous: { from: timeText(before), to: timeText(range.from) },
      interval,
      ...figuresOfOverview({ requests, usage, ranked }, starts, (id) => keys.nameOf(id, scope)),
      analytics: {
        state: health,
        lag_events: lagEvents ?? null,
        lag_seconds: lagMs === undefined ? null : lagMs / 1000,
      },
    };
  });
}

/** Milliseconds; of a range that has not ended the part that has passed, rounded up so that sums are available. */
function lengthOf({ from, until }: Pick<ReportRange, 'from' | 'until'>, now: number): number {
  if (until <= now) return until - from;
  return Math.ceil(Math.max(0, now - from) / QUARTER_HOUR_MS) * QUARTER_HOUR_MS;
}
