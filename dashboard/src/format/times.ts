/** Times in the chosen time zone and the browser's locale. */
import { timeZone } from '../settings/time-zone.ts';

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

/** The difference of the zone to UTC at a time, in milliseconds. */
export function offsetOfZone(at: number, zone: string): number {
  const parts = format('parts', partsOptions, zone).formatToParts(new Date(at));
  const value = (type: Intl.DateTimeFormatPartTypes) => Number(parts.find((part) => part.type === type)?.value ?? 0);
  const asUtc = Date.UTC(
    ...([value('year'), value('month') - 1, value('day'), value('hour'), value('minute'), value('second')] as const),
  );
  return asUtc - Math.floor(at / 1000) * 1000;
}

const partsOptions: Intl.DateTimeFormatOptions = {
  ...{ year: 'numeric', month: 'numeric', day: 'numeric' },
  ...{ hour: 'numeric', minute: 'numeric', second: 'numeric' },
  ...{ hourCycle: 'h23', calendar: 'gregory', numberingSystem: 'latn' },
};

/** Beginning of the day that contains a time, in the zone; `days` later or earlier. */
export function startOfDay(at: number, zone: string, days = 0): number {
  const local = new Date(at + offsetOfZone(at, zone));
  const wanted = Date.UTC(local.getUTCFullYear(), local.getUTCMonth(), local.getUTCDate() + days);
  // The offset at the beginning of that day can differ from the one now.
  const guess = wanted - offsetOfZone(wanted, zone);
  return wanted - offsetOfZone(guess, zone);
}

/** `YYYY-MM-DD` in the zone. */
export function dayText(at: number, zone: string): string {
  return new Date(at + offsetOfZone(at, zone)).toISOString().slice(0, 10);
}
