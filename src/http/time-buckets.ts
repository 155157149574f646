/** Buckets of a histogram of time: round intervals of the calendar in a time zone. */
import { DAY_MS, dayAt, offsetAt, type ReportRange, startOf } from './date-range.ts';

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** Durations of ISO 8601, and their usual length. Those of months are as long as the calendar says. */
export const bucketIntervals = {
  ...{ PT1S: SECOND_MS, PT5S: 5 * SECOND_MS, PT15S: 15 * SECOND_MS, PT30S: 30 * SECOND_MS },
  ...{ PT1M: MINUTE_MS, PT5M: 5 * MINUTE_MS, PT15M: 15 * MINUTE_MS, PT30M: 30 * MINUTE_MS },
  ...{ PT1H: HOUR_MS, PT3H: 3 * HOUR_MS, PT6H: 6 * HOUR_MS, PT12H: 12 * HOUR_MS },
  ...{ P1D: DAY_MS, P7D: 7 * DAY_MS, P1M: 31 * DAY_MS, P3M: 92 * DAY_MS },
} as const;
export type BucketInterval = keyof typeof bucketIntervals;

const intervals = Object.keys(bucketIntervals) as readonly BucketInterval[];

export interface TimeBuckets {
  readonly interval: BucketInterval;
  /** Milliseconds since the epoch, ascending. The first one may begin before the range. */
  readonly starts: readonly number[];
}

/**
 * The shortest interval with at most that many buckets. Each bucket ends where the next begins.
 * @param among intervals, ascending, the last of them `P3M`. Default: all
 */
export function timeBuckets(
  { from, until, timeZone }: ReportRange,
  most: number,
  among: readonly BucketInterval[] = intervals,
): TimeBuckets {
  for (const interval of among) {
    if (interval !== 'P3M' && (until - from) / bucketIntervals[interval] > most) continue;
    const starts = startsOf(interval, from, until, timeZone, most);
    if (starts.length <= most || interval === 'P3M') return { interval, starts };
  }
  throw new Error('there is always the longest interval');
}

/** At most one more than `most`. */
function startsOf(interval: BucketInterval, from: number, until: number, timeZone: string, most: number): number[] {
  const starts: number[] = [];
  for (let n = 0; starts.length <= most; n++) {
    const start = startAt(interval, from, n, timeZone);
    if (start >= until) break;
    // Two hours of the clock are one moment where the clock is set forward.
    if (start !== starts.at(-1)) starts.push(start);
  }
  return starts;
}

/** The beginning of the nth bucket after the one that contains `from`. */
function startAt(interval: BucketInterval, from: number, n: number, timeZone: string): number {
  const length = bucketIntervals[interval];
  if (interval === 'P1M' || interval === 'P3M') {
    const months = interval === 'P1M' ? 1 : 3;
    const day = new Date(dayAt(from, timeZone));
    const first = Math.floor(day.getUTCMonth() / months) * months;
    return startOf(Date.UTC(day.getUTCFullYear(), first + n * months), timeZone);
  }
  if (interval === 'P1D') return startOf(dayAt(from, timeZone) + n * DAY_MS, timeZone);
  // 1970-01-01 was a Thursday; weeks begin on Monday.
  const since = interval === 'P7D' ? 4 * DAY_MS : 0;
  if (length > HOUR_MS) {
    const local = from + offsetAt(from, timeZone) - since;
    return startOf(Math.floor(local / length) * length + since + n * length, timeZone);
  }
  const local = from + offsetAt(from, timeZone);
  return from - (((local % length) + length) % length) + n * length;
}
