/**
 * Records every request with a valid key that no exchange records. The server calls it for every answer that it sends
 * itself, so no route can be left out.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  type RefusalRecording,
  type RefusedRequests,
  recordRefusal,
} from '../commands/exchange/record/refused-requests.ts';
import type { ModelRequest } from '../commands/model-request/model-request.ts';
import { Refusal } from '../commands/refusal.ts';
import type { Metrics } from './metrics.ts';

export interface RequestRecorder {
  /** Counts a request that was answered by its handler. */
  answered(request: FastifyRequest, status: number): void;
  /**
   * Records a refusal of the client API (`/v1`, `/p`) like one of an exchange. Elsewhere it is counted by status and
   * code, and is not part of the figures on model requests.
   * @returns the id of the exchange recorded for the request; undefined when it was only counted */
  refused(request: FastifyRequest, refusal: Refusal): Promise<string | undefined>;
}

export interface RequestRecorderOptions extends RefusalRecording {
  readonly refused: RefusedRequests;
  readonly metrics: Pick<Metrics, 'observeExchange'>;
  modelRequestOf(request: FastifyRequest): ModelRequest;
}

/** Routes of the client API. */
const CLIENT_API = /^\/(v1|p)(\/|\?|$)/;
/** Name in place of a route, for a request without a matching one. */
const NO_ROUTE = 'unknown_route';

export function createRequestRecorder(options: RequestRecorderOptions): RequestRecorder {
  const { refused, metrics, modelRequestOf } = options;
  const count = (request: FastifyRequest, status: number, code?: string | null) => {
    const { caller, method } = request;
    if (caller === undefined) return;
    refused.countAnswered({ caller, method, endpoint: request.routeOptions.url ?? NO_ROUTE, status, code });
  };
  return {
    answered: (request, status) => count(request, status),
    async refused(request, refusal) {
      if (!CLIENT_API.test(request.url)) {
        count(request, refusal.status, refusal.code);
        return undefined;
      }
      const endpoint = request.routeOptions.url ?? NO_ROUTE;
      const durationMs = Math.round((performance.now() - request.arrivedAt) * 1000) / 1000;
      const noAttempt = { provider: undefined, model: undefined, firstByteMs: undefined, usage: undefined };
      metrics.observeExchange({ ...noAttempt, endpoint, status: refusal.status, stream: false, durationMs });
      return recordRefusal(modelRequestOf(request), endpoint, durationMs, refusal, options);
    },
  };
}

/** Records the server's answer. Exchanges record themselves. */
export function recordAnswers(reply: FastifyReply, recorder: RequestRecorder): Promise<void> | undefined {
  const { request } = reply;
  if (request.caller === undefined) return undefined;
  const refusal = request.refusal ?? (reply.statusCode >= 400 ? refusalOf(reply.statusCode) : undefined);
  if (refusal === undefined) {
    recorder.answered(request, reply.statusCode);
    return undefined;
  }
  return recorder.refused(request, refusal).then((id) => {
    if (id !== undefined) reply.header('x-exchange-id', id);
  });
}

/** The refusal of a handler that answered with an error status without throwing. */
function refusalOf(status: number): Refusal {
  const type = status >= 500 ? 'internal_error' : 'invalid_request_error';
  return new Refusal({ status, type, code: null, message: 'The request was answered with an error.' });
}
