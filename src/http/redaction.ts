/** What of a request may be written down. An append cannot be undone, so secrets are taken out before it. */
import type { IncomingHttpHeaders } from 'node:http';
import { CREDENTIAL_HEADERS } from '../commands/credential-headers.ts';

/** Also where it is the last word of a name: `subscription-key`, `client_secret`, `X-Amz-Signature`. */
const SECRET_QUERY =
  /([?&](?:[\w.~-]*[-_.])?(?:api[-_]?key|key|token|access[-_]?token|auth|secret|password|credential|sig|signature)=)[^&#]*/gi;

const REDACTED = '[REDACTED]';

export function redactHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const name in headers) {
    const value = headers[name];
    if (value === undefined) continue;
    kept[name] = CREDENTIAL_HEADERS.has(name) ? REDACTED : typeof value === 'string' ? value : value.join(', ');
  }
  return kept;
}

export function redactUrl(url: string): string {
  return url.includes('?') ? url.replace(SECRET_QUERY, `$1${REDACTED}`) : url;
}
