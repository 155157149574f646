/**
 * The one parser of ranges of days: `days`, `start_date` and `end_date` of queries and bodies, both dates inclusive and
 * in the form `2026-03-01`, in the time zone of `X-Gateway-Timezone`. Results are milliseconds since the epoch.
 */
import type { FastifyRequest } from 'fastify';
import { refusals } from '../commands/refusal.ts';
import { calendarDay } from './dates.ts';

/** Milliseconds since the epoch: `from` is inclusive, `until` exclusive. */
export interface DateRange {
  readonly from: number | undefined;
  readonly until: number | undefined;
}

export interface RequestedDays {
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
export const MOST_DAYS = 3660;

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

export interface RequestedInstants {
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
export function dayAt(at: number, timeZone: string): number {
  const local = at + offsetAt(at, timeZone);
  return local - (((local % DAY_MS) + DAY_MS) % DAY_MS);
}

/** When the day begins in the zone. The offset is read twice, since it may change between guess and result. */
export function startOf(day: number, timeZone: string): number {
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
