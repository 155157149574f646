/** Names of headers: those that hold credentials, and those that an administrator's rule or a plugin may change. */

/** A part between hyphens that equals one of these, or ends with one: `x-api-key`, `x-amzn-oidc-accesstoken`. */
const HEADER =
  /(?:key|token|secret|auth|authorization|authentication|password|passwd|credentials?|signature|jwt|assertion|cookie)(?:-|$)/;

/** Signed claims about the user, and the header in which browsers send a key; the names do not show it. */
const ALSO_CREDENTIALS: ReadonlySet<string> = new Set(['x-amzn-oidc-data', 'sec-websocket-protocol']);

/** Names that the client chose to identify a request, or figures of a rate limit. */
const NO_CREDENTIALS = /^(?:x-)?idempotency-key$|^x-ratelimit-/;

/** Like `HEADER`; the parts of a parameter's name are not always separated, so only its end counts. */
const PARAMETER =
  /(?:key|token|secret|auth|authorization|authentication|password|passwd|credentials?|signature|jwt|assertion|cookie|sig)$/;

/** Clients choose the names of headers, so the cache is bounded in number and in length. */
const MAX_REMEMBERED = 1_000;
const MAX_REMEMBERED_LENGTH = 64;
const remembered = new Map<string, boolean>();

/** @param name in lower case */
export function isCredentialHeader(name: string): boolean {
  const known = remembered.get(name);
  if (known !== undefined) return known;
  const found = ALSO_CREDENTIALS.has(name) || (HEADER.test(name) && !NO_CREDENTIALS.test(name));
  if (remembered.size < MAX_REMEMBERED && name.length <= MAX_REMEMBERED_LENGTH) remembered.set(name, found);
  return found;
}

/** @param name as written in a query, percent-encoded or not, in any case */
export function isCredentialParameter(name: string): boolean {
  return PARAMETER.test(decoded(name).toLowerCase());
}

function decoded(name: string): string {
  if (!name.includes('%')) return name;
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** Which headers of a request or an answer an administrator's rule or a plugin may change, and to what. */
const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Visible ASCII, spaces and tabs, and obsolete text (RFC 9110 §5.5). */
const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Headers that describe the message itself, which the gateway writes. */
const framing: ReadonlySet<string> = new Set([
  ...['connection', 'content-encoding', 'content-length', 'content-type', 'expect', 'host', 'keep-alive'],
  ...['te', 'trailer', 'transfer-encoding', 'upgrade'],
]);

/** @returns why the header cannot be changed; undefined when it can. @param name as written */
export function headerNameProblem(name: string): string | undefined {
  if (!headerName.test(name)) return `'${name}' is no header name`;
  const lower = name.toLowerCase();
  return isCredentialHeader(lower) || framing.has(lower) ? `the header '${lower}' cannot be changed` : undefined;
}

const ofGateway = /^(?:accept|accept-encoding|proxy-.*|traceparent|tracestate|user-agent|x-request-id)$/;

/** @returns why a workflow cannot decide about this header of requests to providers. @param name as written */
export function sentHeaderProblem(name: string): string | undefined {
  if (!ofGateway.test(name.toLowerCase())) return headerNameProblem(name);
  return `the header '${name.toLowerCase()}' is set by the gateway`;
}

export function isHeaderValue(value: string): boolean {
  return headerValue.test(value);
}
