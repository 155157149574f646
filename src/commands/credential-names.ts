/**
 * Which names of headers and query parameters say that the value is a credential. One rule, for what is recorded, what
 * is forwarded to a provider, and what may become a label or the name of a session.
 */

/** A part between hyphens that equals one of these, or ends with one: `x-api-key`, `x-amzn-oidc-accesstoken`. */
const HEADER = /(?:key|token|secret|auth|authorization|password|signature|jwt|assertion|cookie)(?:-|$)/;

/** Signed claims about the user, which the name does not tell. */
const ALSO_CREDENTIALS: ReadonlySet<string> = new Set(['x-amzn-oidc-data']);

/** Chosen by the client to recognise a request, or figures of a rate limit. */
const NO_CREDENTIALS = /^(?:x-)?idempotency-key$|^x-ratelimit-/;

/** As `HEADER`; the parts of a parameter's name are not always separated, so that only its end counts. */
const PARAMETER = /(?:key|token|secret|auth|authorization|password|signature|jwt|assertion|cookie|credential|sig)$/;

/** Clients choose the names of headers, so that those remembered need a bound in number and in length. */
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

/** @param name as it stands in a query, percent-encoded or not, in any case */
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
