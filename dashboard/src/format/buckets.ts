/** Times of the buckets of a report, whose length is a duration of ISO 8601. */
import { timeZone } from '../settings/time-zone.ts';
import { startOfDay } from './zone-days.ts';

type Unit = 'minute' | 'hour' | 'day' | 'month';

function unitOf(interval: string): Unit {
  if (/^P\d+M$/.test(interval)) return 'month';
  if (/^P\d+[DWY]$/.test(interval)) return 'day';
  return interval.endsWith('H') ? 'hour' : 'minute';
}

const titles: Readonly<Record<Unit, Intl.DateTimeFormatOptions>> = {
  minute: { weekday: 'short', day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' },
  hour: { weekday: 'short', day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' },
  day: { weekday: 'short', day: 'numeric', month: 'short', year: 'numeric' },
  month: { month: 'long', year: 'numeric' },
};
const ticks: Readonly<Record<Unit, Intl.DateTimeFormatOptions>> = {
  minute: { hour: '2-digit', minute: '2-digit' },
  hour: { hour: '2-digit', minute: '2-digit' },
  day: { day: 'numeric', month: 'short' },
  month: { month: 'short', year: '2-digit' },
};

/** In words, such as `Mon, 3 Nov 2026`; of several days or hours the first, with `from`. */
export function bucketTitle(start: string, interval: string): string {
  const title = format(titles[unitOf(interval)], start);
  return /^P(?:T)?1[MHD]$/.test(interval) ? title : `from ${title}`;
}

/** Short, for an axis. */
export function bucketTick(start: string, interval: string): string {
  return format(beginsDay(start, interval) ? ticks.day : ticks[unitOf(interval)], start);
}

/** Whether a bucket of hours or minutes begins with its day. */
export function beginsDay(start: string, interval: string): boolean {
  const at = Date.parse(start);
  return interval.startsWith('PT') && startOfDay(at, timeZone.value) === at;
}

function format(options: Intl.DateTimeFormatOptions, at: string): string {
  return new Intl.DateTimeFormat(navigator.languages, { ...options, timeZone: timeZone.value }).format(new Date(at));
}
