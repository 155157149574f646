/** Which headers of a request or an answer an administrator's rule or a plugin may change, and to what. */
import { isCredentialHeader } from './credential-names.ts';

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

export function isHeaderValue(value: string): boolean {
  return headerValue.test(value);
}
