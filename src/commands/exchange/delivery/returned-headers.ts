/** The headers of a provider's own API that are returned to the client. */

/**
 * Headers of the connection, of the body's encoding by the provider, or of the provider's origin instead of the
 * gateway's.
 */
const NOT_RETURNED: ReadonlySet<string> = new Set([
  'alt-svc',
  'clear-site-data',
  'connection',
  'content-encoding',
  'content-length',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'set-cookie',
  'set-cookie2',
  'strict-transport-security',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/**
 * All headers except those, and those that the answer's `Connection` header names (RFC 9110 §7.6.1).
 * @param given lower-case names
 */
export function returnedHeaders(given: Readonly<Record<string, string>>): Record<string, string> {
  const ofConnection = given['connection']?.toLowerCase().split(/[\s,]+/) ?? [];
  const headers: Record<string, string> = {};
  for (const name in given) {
    const value = given[name];
    // The gateway sets its own CORS headers.
    if (name.startsWith('access-control-')) continue;
    if (value !== undefined && !NOT_RETURNED.has(name) && !ofConnection.includes(name)) headers[name] = value;
  }
  return headers;
}
