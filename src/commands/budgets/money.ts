/** Conversion between US dollars, as users write them, and nano-dollars, the unit of stored amounts. Pure. */

const NANO = 1e9;
/** Far above every budget, and still exact to 15 digits. */
export const MOST_USD = 1e12;

/**
 * @returns undefined for an invalid amount: not finite, not positive, less than a nano-dollar, or more than a
 * trillion
 */
export function nanoOf(usd: number): number | undefined {
  const nano = Math.round(usd * NANO);
  return nano > 0 && usd <= MOST_USD ? nano : undefined;
}

export function usdOf(nano: number): number {
  return nano / NANO;
}
