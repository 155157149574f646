/**
 * Which names of headers and query parameters mark the value as a credential. One rule for recording, for forwarding
 * to a provider, and for labels and session names.
 */

/** A part between hyphens that equals one of these, or ends with one: `x-api-key`, `x-amzn-oidc-accesstoken`. */
const HEADER =
  /(?:key|token|secret|auth|authorization|authentication|password|passwd|credentials?|signature|jwt|assertion|cookie)(?:-|$)/;

/** Signed claims about the user; the name does not show it. */
const ALSO_CREDENTIALS: ReadonlySet<string> = new Set(['x-amzn-oidc-data']);

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
