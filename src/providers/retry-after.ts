/** The waiting time that a provider requests from its callers. */

/** Upper limit of the waiting time: the provider may raise the limit earlier. */
export const MAX_RETRY_AFTER_SECONDS = 300;

/** `Retry-After` unchanged, or the `Retry-After-Ms` of OpenAI and Azure in whole seconds. */
export function retryAfterOf(headers: Readonly<Record<string, string>>): string | undefined {
  const { 'retry-after': value, 'retry-after-ms': precise } = headers;
  if (value !== undefined || precise === undefined || !/^\d+(?:\.\d+)?$/.test(precise.trim())) return value;
  return String(Math.min(MAX_RETRY_AFTER_SECONDS, Math.ceil(Number(precise) / 1000)));
}

/** Between values, of which each line of the header has one; the comma within a date does not separate. */
const BETWEEN_VALUES = /(?<!\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}),/;
const DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .*\d\d:\d\d:\d\d/;

/**
 * `Retry-After` is a number of seconds in digits, or a date (RFC 9110 §10.2.3). Of several values the longest counts.
 * @param now milliseconds since the epoch
 * @returns whole seconds, at most `MAX_RETRY_AFTER_SECONDS`; undefined when the header is absent or invalid
 */
export function retryAfterSecondsIn(retryAfter: string | undefined, now: number): number | undefined {
  let longest: number | undefined;
  for (const value of retryAfter?.split(BETWEEN_VALUES) ?? []) {
    const seconds = secondsOf(value.trim(), now);
    if (seconds !== undefined) longest = Math.max(longest ?? 0, seconds);
  }
  return longest === undefined ? undefined : Math.min(MAX_RETRY_AFTER_SECONDS, Math.ceil(longest));
}

function secondsOf(value: string, now: number): number | undefined {
  if (/^\d+$/.test(value)) return Number(value);
  if (!DATE.test(value)) return undefined;
  // The oldest form of a date has no zone: it is GMT, too.
  const date = Date.parse(value.endsWith('GMT') ? value : `${value} GMT`);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - now) / 1000);
}
