/** The time before a range that it is compared with. */
import { dayText, startOfDay } from '../../format/zone-days.ts';

export interface Instants {
  /** ISO 8601, UTC. */
  readonly from: string;
  /** Exclusive. */
  readonly to: string;
}

const QUARTER_HOUR = 900_000;

/**
 * As long as the range, or as the part of it that has passed. A range that begins with a day is compared with as many
 * days before it, so that days are compared with days, also where a clock changes.
 */
export function previousRange({ from, to }: Instants, now: number, zone: string): Instants {
  const [start, end] = [Date.parse(from), Date.parse(to)];
  const until = end > now ? Math.min(end, Math.ceil(now / QUARTER_HOUR) * QUARTER_HOUR) : end;
  const before =
    startOfDay(start, zone) === start ? startOfDay(start, zone, -daysOf(start, end, zone)) : start - (end - start);
  return instants(before, Math.min(start, before + Math.max(0, until - start)));
}

/** Days of which the range has a part. */
function daysOf(start: number, end: number, zone: string): number {
  const day = (at: number) => Date.parse(`${dayText(at, zone)}T00:00:00Z`);
  return Math.round((day(end - 1) - day(start)) / 86_400_000) + 1;
}

function instants(from: number, to: number): Instants {
  return { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
}
