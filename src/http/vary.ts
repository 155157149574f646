/** `Vary` of a forwarded answer. */

/**
 * Puts the gateway's own `Vary` before the provider's: the gateway's lists the headers that decide its CORS headers,
 * so a cache needs both.
 * @param own the header that is already set on the response
 */
export function withOwnVary(headers: Record<string, string>, own: unknown): Record<string, string> {
  const { vary } = headers;
  if (vary === undefined || typeof own !== 'string') return headers;
  const names = vary.split(',').map((name) => name.trim().toLowerCase());
  return names.includes('*') || names.includes(own.toLowerCase()) ? headers : { ...headers, vary: `${own}, ${vary}` };
}
