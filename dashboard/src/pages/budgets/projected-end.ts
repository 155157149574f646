/** When a budget is used up at its present pace. Times are milliseconds since the epoch. */

export interface Spending {
  /** US dollars, like the amount. */
  readonly spent: number;
  readonly amount: number;
  /** The current period; after a reset it begins with the reset. */
  readonly start: number;
  readonly end: number;
}

/**
 * The time at which the spending reaches the amount, if it goes on at its average pace since the period began. Undefined
 * when nothing was spent, and when the amount lasts until the period ends. A time that has passed: it is used up.
 */
export function projectedEnd({ spent, amount, start, end }: Spending, now: number): number | undefined {
  if (spent <= 0 || now <= start) return undefined;
  if (spent >= amount) return now;
  const at = start + (now - start) * (amount / spent);
  return at < end ? at : undefined;
}
