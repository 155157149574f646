/** Errors in HTTP answers: all of them have the same envelope, in the format of the client's dialect. */
import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { messagesErrorBody } from '../commands/messages/error-object.ts';
import { Refusal, refusals } from '../commands/refusal.ts';
import { LogUnavailable } from '../events/log.ts';
import { ACCEPTED_ENCODINGS } from './bodies.ts';

/** Headers of a refusal. */
export function refusalHeaders(refusal: Refusal): Record<string, string> {
  const headers: Record<string, string> = {};
  if (refusal.retryAfterSeconds !== undefined) headers['retry-after'] = String(Math.ceil(refusal.retryAfterSeconds));
  if (refusal.retryHelps === false) headers['x-should-retry'] = 'false';
  if (refusal.status === 415) headers['accept-encoding'] = ACCEPTED_ENCODINGS;
  if (refusal.status === 401) headers['www-authenticate'] = 'Bearer';
  return headers;
}

/** Any thrown value as a refusal. An unknown error becomes a 500 without internal details. */
export function toRefusal(error: unknown, bodyLimitBytes = 0): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof LogUnavailable) return refusals.logUnavailable(error);
  const { code, statusCode } = error as Partial<FastifyError>;
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return refusals.bodyTooLarge(bodyLimitBytes);
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500 && error instanceof Error) {
    return new Refusal({
      status: statusCode,
      type: 'invalid_request_error',
      code: 'bad_request',
      message: error.message,
    });
  }
  return refusals.internal(error);
}

export function createErrorHandler(logError: (error: unknown, request: FastifyRequest) => void) {
  return (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const thrown = toRefusal(error, request.routeOptions.bodyLimit);
    // OpenAI's errors may have no code; those of the admin API always do.
    const isAdmin = request.url.startsWith('/admin/');
    const refusal = isAdmin ? thrown.withCode(thrown.status === 404 ? 'not_found' : 'invalid_request') : thrown;
    request.refusal = refusal;
    if (refusal.code === 'internal_error' || refusal.code === 'log_damaged') logError(refusal.cause ?? error, request);
    if (isStillSending(request.raw)) reply.header('connection', 'close');
    const clientErrorFormat = clientErrorFormatOf(request);
    const { idHeader } = clientErrorFormat;
    const headers: Record<string, string> = { ...refusalHeaders(refusal), 'x-request-id': request.id };
    if (idHeader !== undefined) headers[idHeader] = request.id;
    reply.code(refusal.status).headers(headers).send(clientErrorFormat.errorBody(refusal, request.id));
  };
}

/** A body of at most this size is read to its end, so that the connection can be used again. */
const DRAINED_BYTES = 64 * 1024;

/** Whether the client is still sending a body that is too long to read and discard. */
export function isStillSending(request: IncomingMessage): boolean {
  if (request.complete) return false;
  const length = request.headers['content-length'];
  return length === undefined ? request.headers['transfer-encoding'] !== undefined : Number(length) > DRAINED_BYTES;
}

/** The refusal of a request that could not be parsed: a broken request line, too many headers, a timeout. */
export function rawRefusal(code: string | undefined): Refusal {
  const [status, message] =
    code === 'HPE_HEADER_OVERFLOW'
      ? [431, 'The request headers are larger than the limit.']
      : code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? [408, 'The request did not arrive in time.']
        : code === 'CONNECT'
          ? [405, 'CONNECT tunnels are not supported.']
          : [400, 'The request is not valid HTTP.'];
  return new Refusal({ status, type: 'invalid_request_error', code: 'bad_request', message });
}

export function rawErrorAnswer(code: string | undefined): string {
  const refusal = rawRefusal(code);
  const { status } = refusal;
  const body = JSON.stringify(refusal.envelope());
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    ...(status === 405 ? ['allow: '] : []),
    'connection: close',
    '',
    body,
  ].join('\r\n');
}

export interface ClientErrorFormat {
  errorBody(refusal: Refusal, requestId: string | undefined): object;
  /** The header from which such clients read the id of a request, besides `x-request-id`. */
  readonly idHeader: string | undefined;
}

const openAi: ClientErrorFormat = { errorBody: (refusal) => refusal.envelope(), idHeader: undefined };
const anthropic: ClientErrorFormat = { errorBody: messagesErrorBody, idHeader: 'request-id' };

const MESSAGES_PATH = /^\/v1\/messages(?:[/?]|$)/;
const MODELS_PATH = /^\/v1\/models(?:[/?]|$)/;

/** Chosen by the address, so that it also works for an unknown route and before authentication. */
export function clientErrorFormatOf(request: { readonly url: string; readonly headers: object }): ClientErrorFormat {
  if (MESSAGES_PATH.test(request.url)) return anthropic;
  return MODELS_PATH.test(request.url) && isAnthropicClient(request) ? anthropic : openAi;
}

/** OpenAI and Anthropic both list models at `/v1/models`; only Anthropic's clients send a version header. */
export function isAnthropicClient({ headers }: { readonly headers: object }): boolean {
  return 'anthropic-version' in headers;
}
