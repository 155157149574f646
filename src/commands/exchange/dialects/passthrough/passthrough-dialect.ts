/** `ANY /p/{provider}/…`: a request to a provider's own API, recorded like any other. */
import { type BodyBounds, jsonProblem } from '../../../../json/body-scan.ts';
import type { Provider, ReplyHead } from '../../../../providers/provider.ts';
import type { PassedRequest } from '../../../model-request/admission.ts';
import { forwardOperations, requestedUnits } from '../../../model-request/forward-operations.ts';
import type { ModelRequest } from '../../../model-request/model-request.ts';
import { parseChunk } from '../../../model-request/parse-chunk.ts';
import { READ_MEMBERS, type ReadResult } from '../../../model-request/parsed-request.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import { returnedHeaders } from '../../delivery/answer-headers.ts';
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
  /** Of JSON that is read. */
  readonly bounds: BodyBounds;
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

/** The dialect of one passthrough request. The gateway reads its body only where a budget counts the request. */
export function passthroughDialect(call: Passthrough): ExchangeDialect {
  const { request, provider, path, headers, addedAnswerHeaders, bodyLimitBytes } = call;
  const { method, body, bodyPieces } = request;
  const begins = deferredWorkKind(method, path);
  let passed: { readonly request: PassedRequest | undefined } | undefined;
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
    passed() {
      passed ??= { request: method === 'POST' ? passedRequest(call) : undefined };
      return passed.request;
    },
    plan({ record, ticket, policy }) {
      if (ticket.isMetered && startsUncountedWork(method, path)) throw refusals.unmetered();
      return {
        kind: 'forward',
        dialect: 'passthrough',
        answer: 'anything',
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

/** Kinds of requests whose cost is estimated by their members, by the ends of their paths. The first one applies. */
const ENDPOINTS = [
  ...['/v1/chat/completions', '/v1/messages', '/v1/messages/count_tokens', '/v1/responses', '/v1/embeddings'],
  ...forwardOperations.map(({ endpoint }) => endpoint),
];

/** Undefined when the body is not JSON that names a model, or would take long to parse. */
function passedRequest({ request: { body }, provider, path, bounds }: Passthrough): PassedRequest | undefined {
  const problem = jsonProblem(body, bounds, true, READ_MEMBERS);
  const isAmbiguous = problem?.kind === 'repeated' || problem?.kind === 'ambiguous';
  const isWithin = problem === undefined || (isAmbiguous && jsonProblem(body, bounds, false) === undefined);
  const json = isWithin ? parseChunk(body.toString()) : undefined;
  const model = json?.['model'];
  if (json === undefined || typeof model !== 'string' || model === '') return undefined;
  const [route = ''] = path.split('?', 1);
  const endpoint = ENDPOINTS.find((one) => route.endsWith(one.slice('/v1'.length))) ?? route;
  const operation = forwardOperations.find((one) => one.endpoint === endpoint);
  return {
    endpoint,
    parsedRequest: { model, provider: undefined, stream: json['stream'] === true, json },
    candidates: [{ provider, model }],
    units: operation === undefined ? undefined : requestedUnits(operation, json),
    isAmbiguous,
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
