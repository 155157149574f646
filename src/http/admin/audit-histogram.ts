/** `GET /admin/audit/histogram`: requests by outcome over time, for choosing a range. */
import { z } from 'zod';
import { auditHistogram, noCounts } from '../../projections/analytics/audit-stats.ts';
import { scopedAdmin } from '../api/declare.ts';
import { queryOfParameters } from '../api/parameters.ts';
import { jsonAnswer, type Routes } from '../api/route-schema.ts';
import { type BucketInterval, bucketIntervals, timeBuckets, timeText } from '../dates.ts';
import { auditById } from './audit-by-id.ts';
import type { AuditReports } from './audit-log.ts';
import { auditParameters, requestedAudit } from './audit-request.ts';
import { countersOf, statusCounters } from './audit-stats.ts';
import { untilGone } from './report-db.ts';
import { reportContext, reportHeaders } from './report-request.ts';

const MOST_BUCKETS = 120;

const bucketNames = Object.keys(bucketIntervals) as readonly BucketInterval[];

const histogram = z.object({
  interval: z.enum(bucketNames).describe('Of each bucket, as a duration of ISO 8601'),
  from: z.iso.datetime(),
  to: z.iso.datetime().describe('Exclusive'),
  buckets: z.array(z.object({ start: z.iso.datetime(), ...statusCounters })),
});

const getHistogram = scopedAdmin('adminAuditHistogram', 'Count the requests of a filter over time', {
  description:
    `At most ${MOST_BUCKETS} buckets of the shortest round interval, aligned to the clock of the time zone, up to the ` +
    'current time, also those without requests. The first may begin before the range; only requests of the range count.',
  querystring: queryOfParameters(auditParameters),
  requestHeaders: reportHeaders,
  response: { 200: jsonAnswer('The counts', histogram) },
});

export function registerAuditHistogram(admin: Routes, reports: AuditReports): void {
  const { db, isKept, now } = reports;
  admin.get('/audit/histogram', getHistogram, async (request, reply) => {
    const at = now();
    const requested = requestedAudit(request.query, reportContext(request, at));
    const gone = untilGone(reply);
    const range = isKept ? await auditById(request.query, requested, reports, gone) : requested;
    const until = Math.min(range.until, at + 1);
    const { interval, starts } = timeBuckets({ ...range, until }, MOST_BUCKETS);
    const seconds = starts.map((start) => Math.floor(start / 1000));
    const counts = isKept
      ? await auditHistogram(db, { starts: seconds, filter: { ...range.filter, until } }, gone)
      : new Map();
    return {
      interval,
      from: timeText(range.from),
      to: timeText(range.until),
      buckets: seconds.map((start) => ({
        start: timeText(start * 1000),
        ...countersOf(counts.get(start) ?? noCounts),
      })),
    };
  });
}
