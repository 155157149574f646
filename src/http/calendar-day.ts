/** Days as they are written in requests: `2026-03-01`. */
import { refusals } from '../commands/refusal.ts';

/** @returns milliseconds since the epoch at which the day begins in UTC. @throws Refusal 400 */
export function calendarDay(written: string, param: string): number {
  if (!isCalendarDay(written)) throw refusals.invalidRequest(`'${param}' must be a date such as 2026-03-01.`, param);
  return Date.parse(`${written}T00:00:00Z`);
}

/** Whether there is such a day: the 30th of February would be read as another. */
export function isCalendarDay(written: string): boolean {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(written) ? Date.parse(`${written}T00:00:00Z`) : Number.NaN;
  return !Number.isNaN(at) && new Date(at).toISOString().startsWith(written);
}
