/** Periods of budgets and of rate limits, by name. Pure. */

/** One year. */
const MAX_PERIOD_SECONDS = 366 * 86_400;

export const { periodOf: budgetPeriod, labelOf: budgetPeriodLabel } = namedPeriods(1, [
  [3_600, 'hourly', 'hour', 'hours'],
  [86_400, 'daily', 'day', 'days'],
  [604_800, 'weekly', 'week', 'weeks'],
  [2_592_000, 'monthly', 'month', 'months'],
]);

/** 0 for concurrent requests. */
export const { periodOf: rateLimitPeriod, labelOf: rateLimitPeriodLabel } = namedPeriods(0, [
  [0, 'concurrent'],
  [60, 'minute', 'minutes'],
  [3_600, 'hour', 'hours', 'hourly'],
  [86_400, 'day', 'days', 'daily'],
]);

/** @param named the seconds of a period, its label, and the other words for it */
function namedPeriods(least: number, named: readonly (readonly [number, string, ...string[]])[]) {
  const words = new Map(named.flatMap(([seconds, ...all]) => all.map((word) => [word, seconds] as const)));
  const labels = new Map(named.map(([seconds, label]) => [seconds, label]));
  return {
    /** @returns seconds, from a word or a number in text; undefined when it is no such period */
    periodOf: (given: string) => words.get(given.trim().toLowerCase()) ?? secondsIn(given, least),
    /** `daily`, or `5400s`. */
    labelOf: (seconds: number) => labels.get(seconds) ?? `${seconds}s`,
  };
}

function secondsIn(given: string, least: number): number | undefined {
  const text = given.trim();
  const seconds = Number(text);
  return /^\d{1,9}$/.test(text) && seconds >= least && seconds <= MAX_PERIOD_SECONDS ? seconds : undefined;
}
