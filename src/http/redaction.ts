/** The part of a request that may be recorded. Appends cannot be undone, so credentials are removed before. */
import type { IncomingHttpHeaders } from 'node:http';
import { isCredentialHeader, isCredentialParameter } from '../commands/header-names.ts';

/** The beginning of a query parameter, also in a query separated by semicolons, or after a `#`. */
const PARAMETER = /[?&;#]([^?&;#=]+)=/g;
const END_OF_VALUE = /[&#]/g;

const REDACTED = '[REDACTED]';

export function redactHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const name in headers) {
    const value = headers[name];
    if (value === undefined) continue;
    // A value may be a URL, for example in `referer`.
    if (isCredentialHeader(name)) kept[name] = REDACTED;
    else kept[name] = redactUrl(typeof value === 'string' ? value : value.join(', '));
  }
  return kept;
}

/** The same URL with the values of credential parameters replaced. */
export function redactUrl(url: string): string {
  if (!url.includes('?') && !url.includes('#')) return url;
  let kept = '';
  let from = 0;
  for (const { 0: beginning, 1: name = '', index } of url.matchAll(PARAMETER)) {
    if (index < from || !isCredentialParameter(name)) continue;
    const valueAt = index + beginning.length;
    kept += url.slice(from, valueAt) + REDACTED;
    END_OF_VALUE.lastIndex = valueAt;
    from = END_OF_VALUE.exec(url)?.index ?? url.length;
  }
  return kept + url.slice(from);
}
