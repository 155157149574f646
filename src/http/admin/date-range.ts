/** Days as people name them, in the time zone they live in. */
import type { FastifyRequest } from 'fastify';
import { refusals } from '../../commands/refusal.ts';

/** Milliseconds since the epoch: from here, and up to there but not including it. */
export interface DateRange {
  readonly from: number | undefined;
  readonly until: number | undefined;
}

export interface WrittenRange {
  /** The last so many days, today among them. */
  readonly days?: number | undefined;
  /** `YYYY-MM-DD`, both inclusive. */
  readonly start_date?: string | undefined;
  readonly end_date?: string | undefined;
}

const DAY_MS = 86_400_000;
/** What an end without a beginning reaches back. */
const DAYS_BEFORE_END = 29;

/** The IANA zone that the request names; UTC without one, or with one that nobody knows. */
export function timeZoneOf(request: FastifyRequest): string {
  const name = request.headers['x-gateway-timezone'];
  if (typeof name !== 'string') return 'UTC';
  try {
    return new Intl.DateTimeFormat('en-US', { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    return 'UTC';
  }
}

/**
 * All of time when nothing is written; up to today with a beginning alone; thirty days with an end alone.
 * @param now milliseconds since the epoch
 * @throws Refusal 400 with `param`
 */
export function dateRange({ days, start_date, end_date }: WrittenRange, timeZone: string, now: number): DateRange {
  if (days !== undefined) {
    if (start_date !== undefined || end_date !== undefined) {
      throw refusals.invalidRequest("Give either 'days' or dates, not both.", 'days');
    }
    const today = dayAt(now, timeZone);
    return { from: startOf(today - (days - 1) * DAY_MS, timeZone), until: startOf(today + DAY_MS, timeZone) };
  }
  if (start_date === undefined && end_date === undefined) return { from: undefined, until: undefined };
  const last = end_date === undefined ? dayAt(now, timeZone) : dayOf(end_date, 'end_date');
  const first = start_date === undefined ? last - DAYS_BEFORE_END * DAY_MS : dayOf(start_date, 'start_date');
  if (first > last) throw refusals.invalidRequest("'start_date' is after 'end_date'.", 'start_date');
  return { from: startOf(first, timeZone), until: startOf(last + DAY_MS, timeZone) };
}

/** A day is told by the time at which it begins in UTC. */
function dayOf(text: string, param: string): number {
  const day = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  if (Number.isNaN(day) || new Date(day).toISOString().slice(0, 10) !== text) {
    throw refusals.invalidRequest(`'${param}' must be a date such as 2026-03-01.`, param);
  }
  return day;
}

function dayAt(at: number, timeZone: string): number {
  const local = at + offsetAt(at, timeZone);
  return local - (((local % DAY_MS) + DAY_MS) % DAY_MS);
}

/** When the day begins in the zone. The offset is looked up twice, since the first guess may lie beyond its change. */
function startOf(day: number, timeZone: string): number {
  const guess = day - offsetAt(day, timeZone);
  return day - offsetAt(guess, timeZone);
}

/** By how many milliseconds the zone is ahead of UTC. */
function offsetAt(at: number, timeZone: string): number {
  if (timeZone === 'UTC') return 0;
  const parts = new Intl.DateTimeFormat('en-US', {
    timeZone,
    calendar: 'iso8601',
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  }).formatToParts(at);
  const of = (type: Intl.DateTimeFormatPartTypes) => Number(parts.find((part) => part.type === type)?.value);
  const local = Date.UTC(of('year'), of('month') - 1, of('day'), of('hour'), of('minute'), of('second'));
  return local - Math.floor(at / 1000) * 1000;
}
