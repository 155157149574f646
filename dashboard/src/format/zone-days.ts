/** Days in a time zone. Times are milliseconds since the epoch. */

/** Kept, since making one takes far longer than using it. */
const clocks = new Map<string, Intl.DateTimeFormat>();

function clockIn(zone: string): Intl.DateTimeFormat {
  const known = clocks.get(zone);
  if (known !== undefined) return known;
  const clock = new Intl.DateTimeFormat('en', { ...partsOptions, timeZone: zone });
  clocks.set(zone, clock);
  return clock;
}

/** The difference of the zone to UTC at a time, in milliseconds. */
export function offsetOfZone(at: number, zone: string): number {
  const parts = clockIn(zone).formatToParts(new Date(at));
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
