/** The headers of a provider's answer, as the client gets them. */
import type { ReplyHead } from '../../../providers/provider.ts';
import { rateLimitsIn } from '../../../providers/rate-limit-headers.ts';
import { streamFormatOf } from '../../../providers/stream-splitter.ts';
import type { Ticket } from '../../model-request/admission.ts';
import type { ModelRequest } from '../../model-request/model-request.ts';
import type { ParsedRequest } from '../../model-request/parsed-request.ts';
import type { Target } from '../../model-request/target.ts';
import type { ExchangeDialect } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import { addRouting } from './requested-model.ts';

/** Tells clients of the response cache: `HIT (exact)`, `HIT (semantic)` or `MISS`; absent where it was not looked up. */
export const cacheHeader = 'x-cache';

export interface AnsweredRequestFacts {
  readonly dialect: ExchangeDialect;
  readonly parsedRequest: ParsedRequest;
  /** The target that answered. */
  readonly target: Target;
  readonly record: ExchangeRecord;
  readonly request: ModelRequest;
  readonly ticket: Ticket;
  /** Whether the answer was looked for in the response cache. */
  readonly hasMissedCache?: boolean;
  /** Undefined when no guardrail runs. */
  readonly guard?: { changeAnswerHeaders(headers: Record<string, string>): void } | undefined;
}

/** When a provider streams JSON lines, its client still gets server-sent events. */
function answerType({ headers }: ReplyHead): string {
  return streamFormatOf(headers) === 'lines' ? 'text/event-stream' : (headers['content-type'] ?? 'application/json');
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

export function answerHeaders(
  { dialect, parsedRequest, target, record, request, ticket, guard, hasMissedCache }: AnsweredRequestFacts,
  reply: ReplyHead,
): Record<string, string> {
  const headers = dialect.answerHeaders?.(reply, request) ?? { 'content-type': answerType(reply) };
  guard?.changeAnswerHeaders(headers);
  if (dialect.name === 'passthrough' || dialect.name === 'forward') Object.assign(headers, OF_FOREIGN_CONTENT);
  headers['x-request-id'] = request.requestId;
  headers['x-exchange-id'] = record.id;
  if (hasMissedCache === true) headers[cacheHeader] = 'MISS';
  addRouting(headers, parsedRequest.model, target.provider.name);
  const limits = ticket.headers();
  if (limits === undefined) return Object.assign(headers, rateLimitsIn(reply.headers));
  for (const name in rateLimitsIn(headers)) delete headers[name];
  return Object.assign(headers, limits);
}
