/** The pause before the next connection: doubled after each failure, with jitter so that tabs and users spread. */
const FIRST_MS = 500;
const LONGEST_MS = 30_000;
/** A server may ask for a longer pause, up to this. */
const LONGEST_ASKED_MS = 10 * 60_000;

/**
 * @param failures failed connections in a row, from 1
 * @param askedMs `Retry-After`: the pause is never shorter
 * @param random from 0 to 1
 */
export function retryDelay(failures: number, askedMs: number | undefined, random: number): number {
  const longest = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(failures - 1, 20));
  const jittered = longest / 2 + (longest / 2) * random;
  return askedMs === undefined ? jittered : Math.min(LONGEST_ASKED_MS, askedMs) + jittered - longest / 2;
}
