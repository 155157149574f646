/** The age of figures that are read again by themselves. Pure. */

/** @returns milliseconds, in whole seconds; 0 for a time in the future, after the clock was set back */
export function ageOf(readAt: number, now: number): number {
  return Math.max(0, Math.floor((now - readAt) / 1000)) * 1000;
}

interface Figures {
  /** In milliseconds. */
  readonly age: number;
  readonly refreshMs: number;
  /** Whether the last read that ended has failed. */
  readonly hasFailed: boolean;
}

/** So many refreshes may be missing before figures count as old: one can be under way, one skipped in the background. */
const MISSING_REFRESHES = 2;

export function isOld({ age, refreshMs, hasFailed }: Figures): boolean {
  return hasFailed || age > (MISSING_REFRESHES + 1) * refreshMs;
}
