/** How long a provider asks its callers to wait. */

/** `Retry-After` as it was sent, or the `Retry-After-Ms` that OpenAI and Azure send, as whole seconds. */
export function retryAfterOf(headers: Readonly<Record<string, string>>): string | undefined {
  const { 'retry-after': value, 'retry-after-ms': precise } = headers;
  if (value !== undefined || precise === undefined || precise.trim() === '') return value;
  const seconds = Number(precise) / 1000;
  return Number.isFinite(seconds) ? String(Math.max(0, Math.ceil(seconds))) : undefined;
}

/**
 * `Retry-After` is a number of seconds, or a date (RFC 9110 §10.2.3).
 * @param now milliseconds since the epoch
 * @returns undefined when it is absent, or neither
 */
export function secondsToWait(retryAfter: string | undefined, now: number): number | undefined {
  if (retryAfter === undefined || retryAfter.trim() === '') return undefined;
  const seconds = Number(retryAfter);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const date = Date.parse(retryAfter);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - now) / 1000);
}
