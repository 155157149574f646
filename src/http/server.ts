/** The HTTP server: what is true of every route. The routes themselves are a file each. */
import type { Socket } from 'node:net';
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import type { Caller } from '../commands/exchange/client.ts';
import { refusals } from '../commands/refusal.ts';
import type { Sight } from '../commands/visibility.ts';
import type { EventContext } from '../events/event.ts';
import { requireAccessClass } from './access-class.ts';
import type { Authenticator } from './auth.ts';
import { createErrorHandler, rawErrorAnswer } from './errors.ts';
import { redactUrl } from './redaction.ts';
import { requestIdOf } from './request-id.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Set on every route that needs a key, before its body is read. */
    caller: Caller | undefined;
  }
  interface FastifyContextConfig {
    /**
     * Of a writing route of the `/v1` API: who holds its requests against the rate limits. `exchange`: the exchange that
     * its handler runs. Every other such route is `request`: the server does it before the body is read.
     */
    limits?: 'exchange' | 'request';
  }
}

export interface ServerOptions {
  readonly bodyLimitBytes: number;
  readonly maxHeaderBytes: number;
  /** A request whose head, or whose whole, has not arrived after this long is answered 408. */
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly authenticator: Authenticator;
  /** Counts a request that begins no exchange in the rate limits. @throws Refusal 429 */
  readonly admitRequest: (caller: Caller, request: FastifyRequest) => void;
  /** Whether the gateway is stopping: kept-alive connections are then closed behind their next answer. */
  readonly isStopping: () => boolean;
  readonly logError: (error: unknown, context: { method: string; url: string; requestId: string }) => void;
}

/** Fastify answers 415 to a content type it cannot read, but bodies are bytes here and their name decides nothing. */
const MEDIA_TYPE = /^[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+\s*(;|$)/;

export function createServer(options: ServerOptions): FastifyInstance {
  const { bodyLimitBytes, authenticator } = options;
  const app = Fastify({
    logger: false,
    bodyLimit: bodyLimitBytes,
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: 75_000,
    http: {
      maxHeaderSize: options.maxHeaderBytes,
      headersTimeout: options.headersTimeoutMs,
      connectionsCheckingInterval: Math.min(1000, options.headersTimeoutMs),
      // A request without a host is refused below, in the envelope.
      requireHostHeader: false,
    },
    genReqId: requestIdOf,
    return503OnClosing: false,
    routerOptions: { maxParamLength: 1024 },
    forceCloseConnections: 'idle',
    clientErrorHandler(error, socket) {
      answerRaw(socket, (error as NodeJS.ErrnoException).code);
    },
    frameworkErrors(error, request, reply) {
      handleError(error, request, reply as never);
    },
  });
  const handleError = createErrorHandler(bodyLimitBytes, (error, request) =>
    options.logError(error, { method: request.method, url: redactUrl(request.url), requestId: String(request.id) }),
  );
  app.setErrorHandler(handleError);
  app.setNotFoundHandler((request) => {
    throw refusals.unknownRoute(request.method, request.url.split('?')[0] ?? '/');
  });

  // Bodies stay bytes: the exchange parses them once, and records them as they came. An empty body is no error here,
  // since some SDKs send a content type with nothing behind it.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));

  app.server.on('connect', (_request, socket) => socket.end(rawErrorAnswer('CONNECT')));
  app.decorateRequest('caller', undefined);
  app.addHook('onRoute', requireAccessClass);
  app.addHook('onRoute', (route) => {
    if (isWritingV1(route.url, route.method)) route.config = { limits: 'request', ...route.config };
  });
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id);
    if (options.isStopping()) reply.header('connection', 'close');
    if (request.headers.host === undefined && request.raw.httpVersion !== '1.0') throw refusals.noHost();
    const type = request.headers['content-type'];
    if (type !== undefined && !MEDIA_TYPE.test(type)) request.headers['content-type'] = 'application/octet-stream';
    const { access, limits } = request.routeOptions.config;
    if (access === 'metrics') authenticator.authorizeMetrics(request.headers);
    else if (access !== 'public') request.caller = authenticator.authenticate(request.headers);
    if (limits === 'request' && !READING.has(request.method)) options.admitRequest(callerOf(request), request);
    done();
  });
  return app;
}

const READING = new Set(['GET', 'HEAD', 'OPTIONS']);

function isWritingV1(url: string, methods: string | readonly string[]): boolean {
  return url.startsWith('/v1/') && [methods].flat().some((method) => !READING.has(method));
}

export function callerOf(request: FastifyRequest): Caller {
  if (request.caller === undefined) throw refusals.missingCredentials();
  return request.caller;
}

/** Who did it, for the events of what a request does. */
export function eventContextOf(request: FastifyRequest): EventContext {
  const { actor, userPath } = callerOf(request);
  return { actor, userPath, requestId: request.id };
}

/** Who sends the request, to what keeps objects. */
export function requesterOf(request: FastifyRequest): { readonly context: EventContext; readonly sight: Sight } {
  return { context: eventContextOf(request), sight: callerOf(request).sight };
}

/** The request's body, empty when there is none. */
export function bodyOf(request: FastifyRequest): Buffer {
  return Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
}

function answerRaw(socket: Socket, code: string | undefined): void {
  if (code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  socket.end(rawErrorAnswer(code));
}
