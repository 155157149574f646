/** The headers of a provider's answer, as the client gets them. */
import type { ReplyHead } from '../../../providers/provider.ts';
import { streamFormatOf } from '../../../providers/stream-frames.ts';
import { rateLimitsIn } from '../../../providers/upstream-error.ts';
import type { RequestReservation } from '../../model-request/admission.ts';
import type { ModelRequest, ParsedRequest } from '../../model-request/model-request.ts';
import type { Target } from '../../model-request/routing-types.ts';
import type { ExchangeDialect } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';

/** Tells clients of the response cache: `HIT (exact)`, `HIT (semantic)` or `MISS`; absent where it was not looked up. */
export const cacheHeader = 'x-cache';

export interface AnsweredRequest {
  readonly dialect: ExchangeDialect;
  readonly parsedRequest: ParsedRequest;
  readonly record: ExchangeRecord;
  readonly request: ModelRequest;
  readonly reservation: RequestReservation | undefined;
  /** Whether the answer was looked for in the response cache. */
  readonly hasMissedCache: boolean;
  /** Undefined when no guardrail runs. */
  readonly guarded?: { readonly guard: { changeAnswerHeaders(headers: Record<string, string>): void } } | undefined;
}

/**
 * The content type is the one that the provider states: `nosniff` keeps browsers from guessing another, and `sandbox`
 * gives a document an origin of its own, without scripts, forms and storage of the gateway's origin.
 */
const OF_FOREIGN_CONTENT = { 'x-content-type-options': 'nosniff', 'content-security-policy': 'sandbox' };

/** Headers of a client's stream that are the same whichever provider answers. */
const OF_ANY_PROVIDER = ['content-type', 'x-request-id', 'x-exchange-id', 'x-requested-model', cacheHeader];

/** The headers of an event stream that begins before it is known which provider answers. @param headers for one of them */
export function headersOfAnyProvider(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => OF_ANY_PROVIDER.includes(name)));
}

/** @param target the target that answered */
export function answerHeaders(
  { dialect, parsedRequest, record, request, reservation, guarded, hasMissedCache }: AnsweredRequest,
  target: Target,
  reply: ReplyHead,
): Record<string, string> {
  const headers = dialect.answerHeaders?.(reply, request) ?? {
    // When a provider streams JSON lines, its client still gets server-sent events.
    'content-type':
      streamFormatOf(reply.headers) === 'lines'
        ? 'text/event-stream'
        : (reply.headers['content-type'] ?? 'application/json'),
  };
  guarded?.guard.changeAnswerHeaders(headers);
  if (dialect.name === 'passthrough' || dialect.name === 'forward') Object.assign(headers, OF_FOREIGN_CONTENT);
  headers['x-request-id'] = request.requestId;
  headers['x-exchange-id'] = record.id;
  if (hasMissedCache) headers[cacheHeader] = 'MISS';
  addRouting(headers, parsedRequest.model, target.provider.name);
  const limits = reservation?.headers();
  if (limits === undefined) return Object.assign(headers, rateLimitsIn(reply.headers));
  for (const name in rateLimitsIn(headers)) delete headers[name];
  return Object.assign(headers, limits);
}

/**
 * The headers with the model as the client requested it, and the provider instance that answered. The answer itself names
 * the model that the provider used; its bytes are often the provider's own and name no instance.
 */
const MODEL = 'x-requested-model';
const PROVIDER = 'x-provider';
/** Longer selectors name no model. */
const MAX_LENGTH = 512;

const PRINTABLE = /^[\x21-\x7e]+$/;

/** @param headers receives the headers, each unless its value is empty: a request may name no model */
export function addRouting(headers: Record<string, string>, model: string, provider: string): void {
  if (model !== '' && model.length <= MAX_LENGTH) headers[MODEL] = headerText(model);
  if (provider !== '') headers[PROVIDER] = headerText(provider);
}

/** Percent-encodes the characters that a header cannot hold, as in a URL. */
function headerText(model: string): string {
  if (PRINTABLE.test(model)) return model;
  return model.toWellFormed().replace(/[^\x21-\x7e]+/g, encodeURIComponent);
}

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
