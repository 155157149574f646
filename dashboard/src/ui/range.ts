/** The time range of a page, in its address: `range=7d`, or `from` and `to`. */
import { route, setQuery } from '../app/router.ts';
import { startOfDay } from '../format/zone-days.ts';
import { timeZone } from '../settings/time-zone.ts';

export const ranges = [
  { name: '1h', title: 'Last hour' },
  { name: '24h', title: 'Last 24 hours' },
  { name: 'today', title: 'Today' },
  { name: 'yesterday', title: 'Yesterday' },
  { name: '7d', title: 'Last 7 days' },
  { name: 'last-week', title: 'Last week' },
  { name: '30d', title: 'Last 30 days' },
  { name: '90d', title: 'Last 90 days' },
  { name: '365d', title: 'Last 365 days' },
] as const;

export type RangeName = (typeof ranges)[number]['name'] | 'custom';

export interface TimeRange {
  readonly name: RangeName;
  /** ISO 8601, UTC. */
  readonly from: string;
  /** Exclusive. */
  readonly to: string;
}

const HOUR = 3_600_000;
/** The end of a range that reaches to now is rounded up to this, so that a request is not repeated at each drawing. */
const STEP = 60_000;

/** The range of the address; undefined without one. */
export function chosenRange(): TimeRange | undefined {
  const { query } = route.value;
  return ['range', 'from', 'to'].some((name) => query.has(name)) ? currentRange() : undefined;
}

/** @param usual the range without one in the address */
export function currentRange(usual: RangeName = '7d', now = Date.now()): TimeRange {
  const { query } = route.value;
  const from = instantOf(query.get('from'));
  const to = instantOf(query.get('to'));
  if (from !== undefined && to !== undefined && from < to) return rangeOf('custom', from, to);
  const name = ranges.find((range) => range.name === query.get('range'))?.name ?? usual;
  return namedRange(name, now, timeZone.value);
}

export function namedRange(name: RangeName, now: number, zone: string): TimeRange {
  const end = Math.ceil(now / STEP) * STEP;
  const day = (days: number) => startOfDay(now, zone, days);
  if (name === '1h') return rangeOf(name, end - HOUR, end);
  if (name === '24h') return rangeOf(name, end - 24 * HOUR, end);
  if (name === 'today') return rangeOf(name, day(0), day(1));
  if (name === 'yesterday') return rangeOf(name, day(-1), day(0));
  if (name === 'last-week') {
    const monday = mondayBefore(now, zone);
    return rangeOf(name, startOfDay(monday, zone, -7), monday);
  }
  const days = { '7d': 7, '30d': 30, '90d': 90, '365d': 365 }[name as '7d'] ?? 7;
  return rangeOf(name, day(1 - days), day(1));
}

/** Beginning of the current week: Monday, as in ISO 8601. */
function mondayBefore(now: number, zone: string): number {
  const today = startOfDay(now, zone);
  const weekday = new Intl.DateTimeFormat('en', { weekday: 'short', timeZone: zone }).format(today);
  return startOfDay(now, zone, -['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'].indexOf(weekday));
}

function rangeOf(name: RangeName, from: number, to: number): TimeRange {
  return { name, from: new Date(from).toISOString(), to: new Date(to).toISOString() };
}

function instantOf(text: string | null): number | undefined {
  const at = text === null ? Number.NaN : Date.parse(text);
  return Number.isNaN(at) ? undefined : at;
}

/** @param name undefined: any time */
export function chooseRange(name: RangeName | undefined): void {
  choose({ range: name, from: undefined, to: undefined });
}

export function chooseInstants(from: string, to: string): void {
  choose({ range: undefined, from, to });
}

/** A list is shown from its beginning: `before` is the place of a page in another range. */
function choose(range: Readonly<Record<'range' | 'from' | 'to', string | undefined>>): void {
  setQuery({ ...range, before: undefined }, { push: true });
}
