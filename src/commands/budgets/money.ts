/** US dollars, as people write them, and nano-dollars, in which amounts are kept. Pure. */

const NANO = 1e9;
/** Far beyond every budget, and still a number that is told to 15 digits. */
export const MOST_USD = 1e12;

/** @returns undefined for what is no amount: not finite, not positive, less than a nano-dollar, or more than a trillion */
export function nanoOf(usd: number): number | undefined {
  const nano = Math.round(usd * NANO);
  return nano > 0 && usd <= MOST_USD ? nano : undefined;
}

export function usdOf(nano: number): number {
  return nano / NANO;
}
