/** `ANY /p/{provider}/…`: a request to a provider's own API, recorded like any other. */
import type { Provider, ReplyHead } from '../../../../providers/provider.ts';
import type { ModelRequest } from '../../../model-request/model-request.ts';
import { parseChunk } from '../../../model-request/parse-chunk.ts';
import type { ReadResult } from '../../../model-request/parsed-request.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import { returnedHeaders } from '../../delivery/returned-headers.ts';
import type { ExchangeDialect } from '../../dialect.ts';
import { RecordedUpload } from '../../uploads/recorded-upload.ts';
import { deferredWorkKind, startsUncountedWork } from './deferred-work-kind.ts';
import { passthroughRelay } from './passthrough-relay.ts';

/** Idempotent methods, which may be repeated. */
const REPEATABLE = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT']);

/** Of a model's name in the record of a refused request. */
const MAX_MODEL_LENGTH = 1024;
/** A refused body may be one that would take long to parse. */
const MAX_PARSED_BYTES = 64 * 1024;

export interface Passthrough {
  readonly request: ModelRequest;
  readonly provider: Provider;
  /** Below `/p/{provider}`, with the query as the client sent it. */
  readonly path: string;
  /** The client's headers that the provider gets. */
  readonly headers: Record<string, string>;
  /** Further headers of the answer that the client gets, beside the usual ones. */
  readonly addedAnswerHeaders: ReadonlySet<string>;
  readonly bodyLimitBytes: number;
}

/** A request that is refused before anything of it is sent to a provider. */
export interface RefusedPassthrough {
  /** With the body as far as it was read. */
  readonly request: ModelRequest;
  readonly refusal: Refusal;
  /** Undefined when there is no provider of the name in the address. */
  readonly provider: Provider | undefined;
}

/** The dialect of a request that is refused: it is recorded, and answered with the refusal. */
export function refusedPassthrough({ request, refusal, provider }: RefusedPassthrough): ExchangeDialect {
  const refused = (): ReadResult => {
    const parsedRequest = { model: modelIn(request.body), provider: undefined, stream: false, json: {} };
    return { ok: false, refusal, known: { parsedRequest, provider } };
  };
  return {
    name: 'passthrough',
    endpoint: '/p',
    mayBeFree: true,
    read: refused,
    take: refused,
    plan() {
      throw refusal;
    },
    relayOfRecorded() {
      throw refusal;
    },
  };
}

/** The dialect of one passthrough request. The gateway does not read its body. */
export function passthroughDialect(call: Passthrough): ExchangeDialect {
  const { request, provider, path, headers, addedAnswerHeaders, bodyLimitBytes } = call;
  const { method, body, bodyPieces } = request;
  const begins = deferredWorkKind(method, path);
  const unparsed = (): ReadResult => ({
    ok: true,
    parsedRequest: { model: '', provider: undefined, stream: false, json: {} },
  });
  return {
    name: 'passthrough',
    endpoint: '/p',
    mayBeFree: true,
    read: unparsed,
    take: unparsed,
    target: () => ({ provider, model: '' }),
    plan({ record, ticket, policy }) {
      if (ticket.isMetered && startsUncountedWork(method, path)) throw refusals.unmetered();
      return {
        kind: 'forward',
        dialect: 'passthrough',
        call: { method, path, headers },
        verbatim: true,
        body:
          bodyPieces === undefined
            ? nonEmpty(body)
            : new RecordedUpload(bodyPieces, { record, limitBytes: bodyLimitBytes, keep: policy.capture === 'full' }),
        repeatable:
          bodyPieces === undefined && (REPEATABLE.has(method) || request.headers['idempotency-key'] !== undefined),
        relay: () => passthroughRelay(begins),
      };
    },
    relayOfRecorded: () => passthroughRelay(begins),
    answerHeaders: (reply) => answerHeaders(reply, method, addedAnswerHeaders),
  };
}

/** The model that the body names; empty when it names none, is not whole, or is long. */
function modelIn(body: Buffer): string {
  if (body.length > MAX_PARSED_BYTES) return '';
  const model = parseChunk(body.toString())?.['model'];
  return typeof model === 'string' ? model.slice(0, MAX_MODEL_LENGTH) : '';
}

function nonEmpty(body: Buffer): Buffer | undefined {
  return body.length > 0 ? body : undefined;
}

function answerHeaders(reply: ReplyHead, method: string, added: ReadonlySet<string>): Record<string, string> {
  const headers = returnedHeaders(reply.headers, added);
  // The answer to HEAD states the length of a body that does not follow.
  const length = reply.headers['content-length'];
  if (method === 'HEAD' && length !== undefined) headers['content-length'] = length;
  return headers;
}
