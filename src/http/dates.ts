/**
 * Days, times and ranges of them in requests, and times in answers. The one parser: nonexistent days and times (the 30th of
 * February, 24:00) are refused, since `Date.parse` would read them as other times. All results are milliseconds since the
 * epoch.
 */

import type { FastifyRequest } from 'fastify';
import { refusals } from '../commands/refusal.ts';

/** A time in ISO 8601, as in all answers. @param ms milliseconds since the epoch */
export function timeText(ms: number): string {
  return new Date(ms).toISOString();
}

/**
 * A day in the form `2026-03-01`.
 * @returns when it begins in UTC
 * @throws Refusal 400 `invalid_value`
 */
export function calendarDay(text: string, param: string): number {
  if (!isCalendarDay(text)) throw refusals.invalidRequest(`'${param}' must be a date such as 2026-03-01.`, param);
  return Date.parse(`${text}T00:00:00Z`);
}

function isCalendarDay(text: string): boolean {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  return !Number.isNaN(at) && new Date(at).toISOString().startsWith(text);
}

const CLOCK = /^([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/;

/**
 * A time of RFC 3339, seconds optional: `2026-03-01T09:00:00Z`, `2026-03-01T10:00+01:00`. `T` and `Z` in upper case.
 * @returns undefined for anything else
 */
export function timeOf(text: string): number | undefined {
  const [day = '', clock = ''] = text.split('T', 2);
  if (!isCalendarDay(day) || !CLOCK.test(clock) || text.length !== day.length + 1 + clock.length) return undefined;
  return Date.parse(text);
}

/**
 * A time as `timeOf` reads it, or a day, which begins in UTC. The text is a query parameter, in which an unencoded plus
 * sign has become a space.
 * @param suffix further accepted values, for the message
 * @throws Refusal 400 `invalid_value`
 */
export function dayOrTime(text: string, param: string, suffix = ''): number {
  const at = isCalendarDay(text) ? calendarDay(text, param) : timeOf(text.replace(/ (?=\d\d:\d\d$)/, '+'));
  if (at !== undefined) return at;
  throw refusals.invalidRequest(
    `'${param}' must be a date, or a time with its zone, such as 2026-03-01T09:00:00Z${suffix}.`,
    param,
  );
}

/**
 * A time as `timeOf` reads it, to the millisecond. The text is a query parameter, as above.
 * @throws Refusal 400 `invalid_value`
 */
export function instantOf(text: string, param: string): number {
  const at = timeOf(text.replace(/ (?=\d\d:\d\d$)/, '+'));
  if (at !== undefined) return at;
  throw refusals.invalidRequest(`'${param}' must be a time with its zone, such as 2026-03-01T09:00:00.250Z.`, param);
}

/** Milliseconds since the epoch: `from` is inclusive, `until` exclusive. */
interface DateRange {
  readonly from: number | undefined;
  readonly until: number | undefined;
}

interface RequestedDays {
  /** This many days up to and including today. */
  readonly days?: number | undefined;
  /** `YYYY-MM-DD`, both inclusive. */
  readonly start_date?: string | undefined;
  readonly end_date?: string | undefined;
}

/** The days of a report: both ends are known. */
export interface ReportRange {
  /** Milliseconds since the epoch at which the first day begins. */
  readonly from: number;
  /** Milliseconds since the epoch at which the day after the last begins: later than now when today is included. */
  readonly until: number;
  /** `YYYY-MM-DD`, both inclusive. */
  readonly startDate: string;
  readonly endDate: string;
  /** The IANA zone in which these days begin. */
  readonly timeZone: string;
}

export const DAY_MS = 86_400_000;
/** Days before the end of a range that has no beginning. */
const DAYS_BEFORE_END = 29;
/** The longest range of one request. */
const MOST_DAYS = 3660;

/** The IANA zone in the request's header; UTC without one, or for an unknown one. */
export function timeZoneOf(request: Pick<FastifyRequest, 'headers'>): string {
  const name = request.headers['x-gateway-timezone'];
  if (typeof name !== 'string') return 'UTC';
  // An offset such as +02:00 is not the name of a zone.
  if (!/^[A-Za-z]/.test(name)) return 'UTC';
  try {
    return new Intl.DateTimeFormat('en-US', { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    return 'UTC';
  }
}

/**
 * Without dates, all time; with only a beginning, up to today; with only an end, thirty days.
 * @param now milliseconds since the epoch
 * @throws Refusal 400 with `param`
 */
export function dateRange({ days, start_date, end_date }: RequestedDays, timeZone: string, now: number): DateRange {
  if (days !== undefined) {
    if (start_date !== undefined || end_date !== undefined) {
      throw refusals.invalidRequest("Give either 'days' or dates, not both.", 'days');
    }
    const today = dayAt(now, timeZone);
    return { from: startOf(today - (days - 1) * DAY_MS, timeZone), until: startOf(today + DAY_MS, timeZone) };
  }
  if (start_date === undefined && end_date === undefined) return { from: undefined, until: undefined };
  const { first, last } = daysIn({ start_date, end_date }, timeZone, now);
  return { from: startOf(first, timeZone), until: startOf(last + DAY_MS, timeZone) };
}

/**
 * The range of a report: dates win over `days`, and without either it is the last thirty days.
 * @param now milliseconds since the epoch
 * @throws Refusal 400 with `param`
 */
export function reportRange({ days, start_date, end_date }: RequestedDays, timeZone: string, now: number): ReportRange {
  const dates = start_date !== undefined || end_date !== undefined;
  const today = dayAt(now, timeZone);
  const { first, last } = dates
    ? daysIn({ start_date, end_date }, timeZone, now)
    : { first: today - (Math.min(days ?? DAYS_BEFORE_END + 1, MOST_DAYS) - 1) * DAY_MS, last: today };
  if (last - first >= MOST_DAYS * DAY_MS) {
    throw refusals.invalidRequest(`At most ${MOST_DAYS} days can be requested at once.`, 'start_date');
  }
  return {
    from: startOf(first, timeZone),
    until: startOf(last + DAY_MS, timeZone),
    startDate: dayText(first),
    endDate: dayText(last),
    timeZone,
  };
}

interface RequestedInstants {
  /** Milliseconds since the epoch: inclusive. */
  readonly from?: number | undefined;
  /** Exclusive. */
  readonly to?: number | undefined;
}

/**
 * The range of a report between two instants. Without a beginning it is thirty days before the end, without an end it
 * reaches to now. `startDate` and `endDate` are the days in which it begins and ends.
 * @param now milliseconds since the epoch
 * @throws Refusal 400 with `param`
 */
export function instantRange({ from, to }: RequestedInstants, timeZone: string, now: number): ReportRange {
  const until = to ?? Math.max(now, from ?? 0) + 1;
  const begin = from !== undefined ? Math.max(from, 0) : until - (DAYS_BEFORE_END + 1) * DAY_MS;
  if (begin >= until) throw refusals.invalidRequest("'from' must be before 'to'.", 'from');
  if (until - begin > MOST_DAYS * DAY_MS) {
    throw refusals.invalidRequest(`At most ${MOST_DAYS} days can be requested at once.`, 'from');
  }
  return rangeBetween(begin, until, timeZone);
}

/** The range from a time to a later one, exclusive. */
export function rangeBetween(from: number, until: number, timeZone: string): ReportRange {
  const [startDate, endDate] = [dayText(dayAt(from, timeZone)), dayText(dayAt(until - 1, timeZone))];
  return { from, until, startDate, endDate, timeZone };
}

/** When the days of the range begin, in milliseconds since the epoch. Days after `now` are omitted. */
export function dayStarts({ startDate, endDate, timeZone }: ReportRange, now: number): number[] {
  const starts: number[] = [];
  const last = Date.parse(endDate);
  for (let day = Date.parse(startDate); day <= last; day += DAY_MS) {
    const start = startOf(day, timeZone);
    if (start > now) break;
    starts.push(start);
  }
  return starts;
}

/** The first and the last day, each as the time at which it begins in UTC. @throws Refusal 400 */
function daysIn({ start_date, end_date }: Omit<RequestedDays, 'days'>, timeZone: string, now: number) {
  const last = end_date === undefined ? dayAt(now, timeZone) : calendarDay(end_date, 'end_date');
  const first = start_date === undefined ? last - DAYS_BEFORE_END * DAY_MS : calendarDay(start_date, 'start_date');
  if (first > last) throw refusals.invalidRequest("'start_date' is after 'end_date'.", 'start_date');
  return { first, last };
}

function dayText(day: number): string {
  return new Date(day).toISOString().slice(0, 10);
}

/** The day in the zone, as the time at which it begins in UTC. */
function dayAt(at: number, timeZone: string): number {
  const local = at + offsetAt(at, timeZone);
  return local - (((local % DAY_MS) + DAY_MS) % DAY_MS);
}

/** When the day begins in the zone. The offset is read twice, since it may change between guess and result. */
function startOf(day: number, timeZone: string): number {
  const approximate = day - offsetAt(day, timeZone);
  return day - offsetAt(approximate, timeZone);
}

/** By how many milliseconds the zone is ahead of UTC. */
export function offsetAt(at: number, timeZone: string): number {
  if (timeZone === 'UTC') return 0;
  const parts = clockIn(timeZone).formatToParts(at);
  const of = (type: Intl.DateTimeFormatPartTypes) => Number(parts.find((part) => part.type === type)?.value);
  // `Date.UTC` would read the years 0 to 99 as 1900 to 1999.
  const local = new Date(0).setUTCFullYear(of('year'), of('month') - 1, of('day'));
  const clock = ((of('hour') * 60 + of('minute')) * 60 + of('second')) * 1000;
  return local + clock - Math.floor(at / 1000) * 1000;
}

/** Cached, since creating a format takes far longer than using it. At most one per zone. */
const clocks = new Map<string, Intl.DateTimeFormat>();

function clockIn(timeZone: string): Intl.DateTimeFormat {
  const known = clocks.get(timeZone);
  if (known !== undefined) return known;
  const clock = new Intl.DateTimeFormat('en-US', {
    timeZone,
    calendar: 'iso8601',
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  clocks.set(timeZone, clock);
  return clock;
}

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

interface TimeBuckets {
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
