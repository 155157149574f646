/** Events per second, smoothed: an exponential average, so that the last few seconds count most. */
export interface EventRate {
  readonly perSecond: number;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** After this time an event counts 1/e of its weight. */
const SMOOTHED_OVER_MS = 3_000;

export const noEvents: EventRate = { perSecond: 0, at: 0 };

export function addEvents(rate: EventRate, count: number, now: number): EventRate {
  return { perSecond: rateAt(rate, now) + (count * 1000) / SMOOTHED_OVER_MS, at: Math.max(now, rate.at) };
}

export function rateAt({ perSecond, at }: EventRate, now: number): number {
  return perSecond * Math.exp(-Math.max(0, now - at) / SMOOTHED_OVER_MS);
}
