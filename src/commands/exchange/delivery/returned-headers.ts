/** What a client gets of the headers of a provider's own API. */

/** Of the connection, of the body as the provider encoded it, or said of the provider's origin and not the gateway's. */
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

/** All but those, and those that the answer's `Connection` header names (RFC 9110 §7.6.1). @param given lower-case names */
export function returnedHeaders(given: Readonly<Record<string, string>>): Record<string, string> {
  const ofConnection = given['connection']?.toLowerCase().split(/[\s,]+/) ?? [];
  const headers: Record<string, string> = {};
  for (const name in given) {
    const value = given[name];
    // Which pages may read an answer is for the gateway to say.
    if (name.startsWith('access-control-')) continue;
    if (value !== undefined && !NOT_RETURNED.has(name) && !ofConnection.includes(name)) headers[name] = value;
  }
  return headers;
}
