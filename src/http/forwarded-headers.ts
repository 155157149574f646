/**
 * The client headers that are forwarded to a provider's own API: a list of allowed names, since a credential can have any
 * name. A setting adds further names.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { isCredentialHeader } from '../commands/header-names.ts';

/** Headers of HTTP about the content of the request, and those by which providers' SDKs and agents name themselves. */
const FORWARDED: ReadonlySet<string> = new Set([
  'accept',
  'accept-language',
  'baggage',
  'cache-control',
  'content-disposition',
  'content-encoding',
  'content-language',
  'content-length',
  'content-md5',
  'content-range',
  'content-type',
  'conversation_id',
  'date',
  'http-referer',
  'idempotency-key',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'if-unmodified-since',
  'originator',
  'prefer',
  'range',
  'session_id',
  'traceparent',
  'tracestate',
  'user-agent',
  'x-app',
  'x-client-name',
  'x-client-request-id',
  'x-idempotency-key',
  'x-ms-client-request-id',
  'x-ms-useragent',
  'x-session-id',
  'x-title',
]);

/** What the SDKs of each family send after its name. */
const SDK_HEADERS: Readonly<Record<string, string>> = {
  anthropic: 'version beta dangerous-direct-browser-access client-platform client-version client-sha workspace-id',
  openai: 'organization project beta version conversation-id intent safety-identifier',
  'x-goog':
    'api-client user-project request-params request-reason fieldmask hash upload-protocol upload-command upload-offset ' +
    'upload-file-name upload-content-type upload-header-content-length upload-header-content-type visibilities',
  'x-stainless':
    'lang package-version os arch runtime runtime-version async retry-count timeout read-timeout helper helper-method ' +
    'poll-helper custom-poll-interval raw-response',
};
const OF_SDKS: ReadonlySet<string> = new Set(
  Object.entries(SDK_HEADERS).flatMap(([family, rest]) => rest.split(' ').map((name) => `${family}-${name}`)),
);

/** Agents, whose headers change with each version. */
const AGENTS = /^x-(?:anthropic|claude|codex|openai)-/;
/** Parts of their names that are credentials, beside those that are one everywhere. */
const NOT_OF_AGENTS =
  /(?:key|token|secret|auth|password|passwd|credential|signature|jwt|assertion|cookie)s(?:-|$)|-(?:auth.*|bearer|pat|pass.*|pwd|pins?|otps?|private|login|sid|sess|sessid|access|tok)(?:-|$)/;

/** Headers of the gateway or of the connection. No setting adds them. */
const NEVER_FORWARDED: ReadonlySet<string> = new Set([
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

function isOfProviders(name: string): boolean {
  return FORWARDED.has(name) || OF_SDKS.has(name) || (AGENTS.test(name) && !NOT_OF_AGENTS.test(name));
}

/** Whether a setting can add the name. @param name in lower case */
export function mayBeForwarded(name: string): boolean {
  return !NEVER_FORWARDED.has(name) && !isCredentialHeader(name) && !name.startsWith('x-forwarded-');
}

/**
 * The allowed headers except credentials, those named in `Connection` (RFC 9110 §7.6.1), and those kept back.
 * @param added further allowed names, in lower case
 */
export function forwardedHeaders(
  given: IncomingHttpHeaders,
  isRemoved: (name: string) => boolean,
  added: ReadonlySet<string>,
): Record<string, string> {
  const ofConnection = given.connection?.toLowerCase().split(/[\s,]+/) ?? [];
  const headers: Record<string, string> = {};
  for (const name in given) {
    const value = given[name];
    if (value === undefined || !(isOfProviders(name) || added.has(name))) continue;
    if (!mayBeForwarded(name) || isRemoved(name) || ofConnection.includes(name)) continue;
    headers[name] = typeof value === 'string' ? value : value.join(', ');
  }
  return headers;
}
