/** Times in the chosen time zone and the browser's locale. */
import { timeZone } from '../settings/time-zone.ts';
import { dayText } from './zone-days.ts';

const formats = new Map<string, Intl.DateTimeFormat>();

function format(name: string, options: Intl.DateTimeFormatOptions, zone: string): Intl.DateTimeFormat {
  const key = `${name} ${zone}`;
  let found = formats.get(key);
  if (found === undefined) {
    found = new Intl.DateTimeFormat(navigator.languages, { ...options, timeZone: zone });
    formats.set(key, found);
  }
  return found;
}

const clockOptions: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit', second: '2-digit' };

/** Day and time to the second; the year only when it is not the current one. */
export function formatTime(at: Date | string | number): string {
  const zone = timeZone.value;
  const date = new Date(at);
  const isOfThisYear = dayText(date.getTime(), zone).slice(0, 4) === dayText(Date.now(), zone).slice(0, 4);
  const day: Intl.DateTimeFormatOptions = { month: 'short', day: 'numeric', ...clockOptions };
  return isOfThisYear
    ? format('time', day, zone).format(date)
    : format('time with year', { ...day, year: 'numeric' }, zone).format(date);
}

/** Time of day with milliseconds. */
export function formatClock(at: Date | string | number): string {
  const options: Intl.DateTimeFormatOptions = {
    ...clockOptions,
    fractionalSecondDigits: 3,
  };
  return format('clock', options, timeZone.value).format(new Date(at));
}

export function formatDay(at: Date | string | number): string {
  return format('day', { dateStyle: 'medium' }, timeZone.value).format(new Date(at));
}

/** With zone and milliseconds, for titles and copies. */
export function formatExact(at: Date | string | number): string {
  return new Date(at).toISOString();
}
