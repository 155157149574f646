/** The middle value, or the mean of the two in the middle; 0 for no values. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}

export interface Interval {
  readonly low: number;
  readonly middle: number;
  readonly high: number;
}

/**
 * The median with its 95 % confidence interval: the order statistics n/2 ± 0.98 √n, which assume nothing about the
 * distribution. Fewer than six values give the smallest and the largest, which cover less than 95 %.
 */
export function medianInterval(values: readonly number[]): Interval {
  const sorted = [...values].sort((left, right) => left - right);
  const below = Math.max(0, Math.floor(sorted.length / 2 - 0.98 * Math.sqrt(sorted.length)));
  const middle = median(sorted);
  return { low: sorted[below] ?? middle, middle, high: sorted[sorted.length - 1 - below] ?? middle };
}
