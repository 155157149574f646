/**
 * Spending of one user path, or one label, over time: by hour for recent days, by day before that. A budget that is
 * made in the middle of a period starts with the spending of that period so far.
 */

/** Pairs of an hour, counted from the epoch, and the nano-dollars spent from it on; ascending. */
export type Buckets = number[];

const HOUR_MS = 3_600_000;
const DAY_HOURS = 24;

/** For how long spending is kept: longer than the longest month. */
export const KEPT_DAYS = 35;

export function hourOf(at: number): number {
  return Math.floor(at / HOUR_MS);
}

export function dayOf(at: number): number {
  return Math.floor(at / (HOUR_MS * DAY_HOURS));
}

/** The first hour of a day. */
export function firstHour(day: number): number {
  return day * DAY_HOURS;
}

/**
 * @param fineFrom the hour from which on buckets are hours; before it they are days
 * @param nano may be negative, for a correction: a bucket never falls below zero
 */
export function addSpend(buckets: Buckets, hour: number, nano: number, fineFrom: number): void {
  const start = hour < fineFrom ? hour - (hour % DAY_HOURS) : hour;
  // Usually the bucket is the newest one, or comes after it.
  let index = buckets.length - 2;
  while (index >= 0 && (buckets[index] ?? 0) > start) index -= 2;
  if (index >= 0 && buckets[index] === start) {
    buckets[index + 1] = Math.max(0, (buckets[index + 1] ?? 0) + nano);
  } else if (index === buckets.length - 2) {
    buckets.push(start, Math.max(0, nano));
  } else {
    buckets.splice(index + 2, 0, start, Math.max(0, nano));
  }
}

/**
 * Spending since a time. A time within a bucket counts the whole bucket, so the result is never too small.
 * @returns undefined when no bucket reaches past that time
 */
export function spentSince(buckets: Buckets, at: number, fineFrom: number): number | undefined {
  let spent: number | undefined;
  for (let index = buckets.length - 2; index >= 0; index -= 2) {
    const hour = buckets[index] ?? 0;
    const end = (hour + (hour < fineFrom ? DAY_HOURS : 1)) * HOUR_MS;
    if (end <= at) break;
    spent = (spent ?? 0) + (buckets[index + 1] ?? 0);
  }
  return spent;
}

/** Merges hours before `fineFrom` into days, and removes buckets before `keptFrom`. */
export function compacted(buckets: Buckets, fineFrom: number, keptFrom: number): Buckets {
  const kept: Buckets = [];
  for (let index = 0; index < buckets.length; index += 2) {
    const hour = buckets[index] ?? 0;
    if (hour >= keptFrom) addSpend(kept, hour, buckets[index + 1] ?? 0, fineFrom);
  }
  return kept;
}
