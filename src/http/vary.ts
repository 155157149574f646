/** `Vary` of an answer that is passed on. */

/**
 * The headers with the gateway's own `Vary` put before the provider's: the gateway's names what decides its CORS headers,
 * so a cache needs both.
 * @param own what is set on the response already
 */
export function withOwnVary(headers: Record<string, string>, own: unknown): Record<string, string> {
  const { vary } = headers;
  if (vary === undefined || typeof own !== 'string') return headers;
  const names = vary.split(',').map((name) => name.trim().toLowerCase());
  return names.includes('*') || names.includes(own.toLowerCase()) ? headers : { ...headers, vary: `${own}, ${vary}` };
}
