/** The time of day with a fraction: `Date.now()` counts whole milliseconds, and a millisecond holds many events. */

const recheckAfterMs = 1_000;
const toleratedDriftMs = 2;

let origin = performance.timeOrigin;
let checkedAt = Number.NEGATIVE_INFINITY;

/**
 * Milliseconds since the epoch. Follows the system clock within about a second when that is set, and after the
 * machine has slept, so it may step backwards just as that does.
 */
export function wallClock(): number {
  const elapsed = performance.now();
  if (elapsed - checkedAt > recheckAfterMs) {
    const drift = Date.now() - (origin + elapsed);
    // The process may have been stopped between the two readings: then the difference is that pause, and is read again.
    if (performance.now() - elapsed <= toleratedDriftMs) {
      checkedAt = elapsed;
      if (Math.abs(drift) > toleratedDriftMs) origin += drift;
    }
  }
  return origin + elapsed;
}
