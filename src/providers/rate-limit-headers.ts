/** Headers with a provider's own rate limits: OpenAI's, which many send, and Anthropic's. */
const RATE_LIMIT = /^(?:x|anthropic)-ratelimit-/;

/** @param headers lower-case names. @returns undefined when there are none */
export function rateLimitsIn(headers: Readonly<Record<string, string>>): Record<string, string> | undefined {
  let found: Record<string, string> | undefined;
  for (const name in headers) {
    const value = headers[name];
    if (value === undefined || !name.includes('-ratelimit-') || !RATE_LIMIT.test(name)) continue;
    found ??= {};
    found[name] = value;
  }
  return found;
}
