/** The client headers that are forwarded to a provider's own API. */
import type { IncomingHttpHeaders } from 'node:http';
import { isCredentialHeader } from '../commands/credential-names.ts';

/** Headers of the gateway, of the connection, or of the network between the client and the gateway. */
const NOT_FORWARDED: ReadonlySet<string> = new Set([
  'accept-encoding',
  'connection',
  'expect',
  'forwarded',
  'host',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-cache-control',
  'x-cache-semantic-threshold',
  'x-cache-ttl',
  'x-cache-type',
  'x-request-id',
]);

/**
 * All headers except credentials, those of the connection, those named in `Connection` (RFC 9110 §7.6.1), and those
 * kept back.
 */
export function forwardedHeaders(
  given: IncomingHttpHeaders,
  isRemoved: (name: string) => boolean,
): Record<string, string> {
  const ofConnection = given.connection?.toLowerCase().split(/[\s,]+/) ?? [];
  const headers: Record<string, string> = {};
  for (const name in given) {
    const value = given[name];
    if (value === undefined || NOT_FORWARDED.has(name) || isCredentialHeader(name) || isRemoved(name)) continue;
    if (ofConnection.includes(name) || name.startsWith('x-forwarded-')) continue;
    headers[name] = typeof value === 'string' ? value : value.join(', ');
  }
  return headers;
}
