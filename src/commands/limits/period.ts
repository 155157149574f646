/** Periods of budgets and of rate limits, by name. Pure. */

/** One year. */
const MAX_PERIOD_SECONDS = 366 * 86_400;

const BUDGET_WORDS = new Map([
  ...['hour', 'hours', 'hourly'].map((word) => [word, 3_600] as const),
  ...['day', 'days', 'daily'].map((word) => [word, 86_400] as const),
  ...['week', 'weeks', 'weekly'].map((word) => [word, 604_800] as const),
  ...['month', 'months', 'monthly'].map((word) => [word, 2_592_000] as const),
]);
const BUDGET_LABELS = new Map([
  [3_600, 'hourly'],
  [86_400, 'daily'],
  [604_800, 'weekly'],
  [2_592_000, 'monthly'],
]);

const LIMIT_WORDS = new Map([
  ...['minute', 'minutes'].map((word) => [word, 60] as const),
  ...['hour', 'hours', 'hourly'].map((word) => [word, 3_600] as const),
  ...['day', 'days', 'daily'].map((word) => [word, 86_400] as const),
  ['concurrent', 0] as const,
]);
const LIMIT_LABELS = new Map([
  [0, 'concurrent'],
  [60, 'minute'],
  [3_600, 'hour'],
  [86_400, 'day'],
]);

/** @returns seconds, from a word or a number in text; undefined when it is not a period of a budget */
export function budgetPeriod(given: string): number | undefined {
  return BUDGET_WORDS.get(given.trim().toLowerCase()) ?? secondsIn(given, 1);
}

/** `daily`, or `5400s`. */
export function budgetPeriodLabel(seconds: number): string {
  return BUDGET_LABELS.get(seconds) ?? `${seconds}s`;
}

/**
 * @returns seconds, from a word or a number in text, 0 for `concurrent`; undefined when it is not a period of a rate
 * limit
 */
export function rateLimitPeriod(given: string): number | undefined {
  return LIMIT_WORDS.get(given.trim().toLowerCase()) ?? secondsIn(given, 0);
}

/** `minute`, `concurrent`, or `90s`. */
export function rateLimitPeriodLabel(seconds: number): string {
  return LIMIT_LABELS.get(seconds) ?? `${seconds}s`;
}

function secondsIn(given: string, least: number): number | undefined {
  const text = given.trim();
  const seconds = Number(text);
  return /^\d{1,9}$/.test(text) && seconds >= least && seconds <= MAX_PERIOD_SECONDS ? seconds : undefined;
}
