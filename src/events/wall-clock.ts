/** The time of day with a fraction: `Date.now()` counts whole milliseconds, and a millisecond holds many events. */

const toleratedDriftMs = 2;

let origin = performance.timeOrigin;

/**
 * Milliseconds since the epoch. Follows the system clock when that is set, and after the machine has slept, so it may step
 * backwards just as that does.
 */
export function wallClock(): number {
  const elapsed = performance.now();
  const drift = Date.now() - (origin + elapsed);
  // The process may have been stopped between the two readings: then the difference is that pause, and the next call
  // reads the system clock again.
  if (Math.abs(drift) > toleratedDriftMs && performance.now() - elapsed <= toleratedDriftMs) origin += drift;
  return origin + elapsed;
}
