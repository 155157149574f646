/**
 * The one parser of days and times in requests. Nonexistent ones (the 30th of February, 24:00) are refused, since
 * `Date.parse` would read them as other times. All results are milliseconds since the epoch.
 */
import { refusals } from '../commands/refusal.ts';

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
