/**
 * The headers of a provider's own API that are returned to the client: a list of allowed names, since the answer has the
 * gateway's origin. Policies, cookies, redirections by timers and instructions to proxies in front of the gateway are
 * not on it.
 */
const RETURNED: ReadonlySet<string> = new Set([
  'accept-ranges',
  'age',
  'allow',
  'apim-request-id',
  'cache-control',
  'cf-ray',
  'content-disposition',
  'content-language',
  'content-md5',
  'content-range',
  'content-type',
  'date',
  'deprecation',
  'digest',
  'etag',
  'expires',
  'last-modified',
  'link',
  'location',
  'request-id',
  'retry-after',
  'retry-after-ms',
  'server',
  'server-timing',
  'sunset',
  'vary',
  'warning',
  'x-client-request-id',
  'x-continuation-token',
  'x-request-id',
  'x-should-retry',
]);

const RETURNED_FAMILIES =
  /^(?:anthropic|openai|ratelimit|x-anthropic|x-goog|x-groq|x-inference|x-metrics|x-mistral|x-ms|x-openai|x-ratelimit|x-stainless|x-total)(?:-|$)/;

/**
 * The allowed headers, except those that the answer's `Connection` header names (RFC 9110 §7.6.1).
 * @param given lower-case names
 * @param added further allowed names
 */
export function returnedHeaders(
  given: Readonly<Record<string, string>>,
  added: ReadonlySet<string>,
): Record<string, string> {
  const ofConnection = given['connection']?.toLowerCase().split(/[\s,]+/) ?? [];
  const headers: Record<string, string> = {};
  for (const name in given) {
    const value = given[name];
    const isAllowed = RETURNED.has(name) || RETURNED_FAMILIES.test(name) || added.has(name);
    if (value !== undefined && isAllowed && !ofConnection.includes(name)) headers[name] = value;
  }
  return headers;
}

/** Whether a setting can add the name: not one of the connection, of the body's encoding, or of the origin. */
export function mayBeReturned(name: string): boolean {
  return !NEVER_RETURNED.test(name);
}

const NEVER_RETURNED =
  /^(?:access-control-.*|alt-svc|clear-site-data|connection|content-encoding|content-length|content-security-policy.*|cross-origin-.*|keep-alive|origin-agent-cluster|permissions-policy|proxy-.*|refresh|service-worker-allowed|set-cookie2?|strict-transport-security|te|trailer|transfer-encoding|upgrade|x-accel-.*|x-content-type-options|x-sendfile)$/;
