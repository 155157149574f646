/** The HTTP server with the rules for all routes. Each route is in a file of its own. */

import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import Fastify from 'fastify';
import { whyNotAdministrator } from '../commands/access/authority.ts';
import type { Caller } from '../commands/model-request/model-request.ts';
import { type Refusal, refusals } from '../commands/refusal.ts';
import { maySeeEverything, type VisibilityScope } from '../commands/visibility.ts';
import type { EventContext } from '../events/event.ts';
import { LogUnavailable } from '../events/log.ts';
import type { BodyBounds } from '../json/body-scan.ts';
import { withoutByteOrderMark } from '../json/body-scan.ts';
import { collectRoutes, type Registered } from './api/openapi.ts';
import type { Routes, ZodTypes } from './api/route-schema.ts';
import { validateNothing } from './api/validation.ts';
import { type Authenticator, isAllowedOrigin, requireAccessClass } from './auth.ts';
import {
  type BodyLimits,
  BodyMemory,
  checkEncoding,
  decodedRequestBody,
  limitOfRoute,
  refusalOfJson,
  UNCOUNTED_BYTES,
} from './bodies.ts';
import { createErrorHandler, rawErrorAnswer, toRefusal } from './errors.ts';
import { checkQuery, redactUrl, requestIdOf, urlWithout } from './request-head.ts';
import { type RequestRecorder, recordAnswers } from './request-recorder.ts';
import { routeUpgrades, upgradesAt } from './upgrade.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Set on every route that needs a key, before its body is read. */
    caller: Caller | undefined;
    /** Value of `performance.now()` when its head had been read. */
    arrivedAt: number;
    /** The refusal of an answer with an error. */
    refusal: Refusal | undefined;
    /** Response of this request: the body is held in memory until it is closed. */
    response: ServerResponse | undefined;
  }
  interface FastifyInstance {
    readonly bodyMemory: BodyMemory;
    /** For links: every route is below it. */
    readonly basePath: string;
    /** The declared routes, without the older addresses of the admin API. */
    readonly declaredRoutes: readonly Registered[];
    /**
     * For routes that few clients use: they are registered at the first request below the prefix, on a second server with the
     * same hooks and limits. The prefix ends with a slash, and no other route begins with it.
     */
    readonly registerLater: (prefix: string, register: (app: Routes) => void) => void;
  }
  interface FastifyContextConfig {
    /**
     * For a writing route of the `/v1` API: where its requests are checked against the rate limits. `exchange`: in the
     * exchange that its handler runs. `request`, for every other such route: in the server, before the body is read.
     */
    limits?: 'exchange' | 'request';
  }
}

export interface ServerOptions {
  readonly bodyLimits: BodyLimits;
  readonly bodyBounds: BodyBounds;
  /** Limit of large bodies that are held at the same time. */
  readonly bodyMemoryBytes: number;
  /** Below which every route is; empty: none. */
  readonly basePath?: string;
  /** The path of the metrics, where they and the admin API are served at another address than the other routes. */
  readonly separateMetrics?: string | undefined;
  /** Origins of web pages that may read answers; `*` for all. Read for each request, as `bodyBounds` is. */
  readonly corsOrigins?: readonly string[];
  readonly maxHeaderBytes: number;
  /** Time limits for the head of a request and for the whole request. Beyond them the answer is 408. */
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly authenticator: Authenticator;
  /** Counts a request that starts no exchange in the rate limits. @throws Refusal 429 */
  readonly admitRequest: (caller: Caller, request: FastifyRequest) => void;
  /** Records every request with a valid key that the server answers itself. Exchanges record themselves. */
  readonly recorder: RequestRecorder;
  /** Whether the gateway is stopping: kept-alive connections are then closed after their next answer. */
  readonly isStopping: () => boolean;
  readonly logError: (error: unknown, context: { method: string; url: string; requestId: string }) => void;
}

/** Fastify answers 415 to an unknown content type, but bodies are bytes here and their type does not matter. */
const MEDIA_TYPE = /^[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+\s*(;|$)/;

export function createServer(
  options: ServerOptions,
  bodyMemory: BodyMemory = new BodyMemory(options.bodyMemoryBytes),
  isFirst = true,
): Routes {
  const { bodyLimits, authenticator, basePath = '', separateMetrics } = options;
  const canHide = basePath !== '' || separateMetrics !== undefined;
  const later: { readonly prefix: string; server(): Promise<Routes> }[] = [];
  const rewriteUrl = ({ url = '/' }: IncomingMessage) => urlWithout(basePath, url) ?? url;
  const app = Fastify({
    logger: false,
    bodyLimit: bodyLimits.other,
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: 75_000,
    http: {
      maxHeaderSize: options.maxHeaderBytes,
      headersTimeout: options.headersTimeoutMs,
      connectionsCheckingInterval: Math.min(1000, options.headersTimeoutMs),
      // A request without a host is refused below, with the error envelope.
      requireHostHeader: false,
      shouldUpgradeCallback: upgradesAt(basePath),
    },
    genReqId: requestIdOf,
    ...(isFirst && basePath !== '' && { rewriteUrl }),
    return503OnClosing: false,
    routerOptions: { maxParamLength: 1024 },
    forceCloseConnections: 'idle',
    // Given here, so that Fastify does not load the compilers of JSON Schema.
    schemaController: {
      compilersFactory: { buildValidator: () => validateNothing as never, buildSerializer: () => () => JSON.stringify },
    },
    clientErrorHandler(error, socket) {
      answerRaw(socket, (error as NodeJS.ErrnoException).code);
    },
    // Called for an address that cannot be parsed: no hook runs.
    frameworkErrors(error, request, reply) {
      request.arrivedAt = performance.now();
      authenticateIfPossible(request);
      request.refusal = toRefusal(error);
      const answer = () => handleError(error, request, reply as never);
      const recorded = recordAnswers(reply as never, options.recorder);
      if (recorded === undefined) answer();
      else recorded.then(answer, answer);
    },
  }).withTypeProvider<ZodTypes>();
  /** For a request that is refused in any case: with a valid key it is recorded. */
  function authenticateIfPossible(request: FastifyRequest): void {
    try {
      request.caller = authenticator.authenticate(request);
    } catch {
      // The request has no valid key, so it is not recorded.
    }
  }
  /** Whether nothing is at this URL, at this address. */
  function isHidden({ url, originalUrl, routeOptions, raw }: FastifyRequest): boolean {
    // Below the base path the URL was changed.
    if (basePath !== '' && url === originalUrl) return true;
    const { url: route } = routeOptions;
    if (separateMetrics === undefined || route === undefined || route.startsWith('/health')) return false;
    const isOfAdmin = route.startsWith('/admin/') || route === separateMetrics;
    return isOfAdmin !== (raw.socket.arrival?.isAdmin === true);
  }
  const handleError = createErrorHandler((error, request) =>
    options.logError(error, { method: request.method, url: redactUrl(request.url), requestId: String(request.id) }),
  );
  app.setErrorHandler(handleError);
  const routes = new RouteMethods();
  app.setNotFoundHandler((request, reply) => {
    const path = pathOf(request);
    const found = routes.at(path);
    if (found === undefined) throw refusals.unknownRoute(request.method, path);
    reply.header('allow', found.methods.join(', '));
    throw refusals.wrongMethod(request.method, path, found.methods);
  });

  // Bodies stay bytes: the exchange parses them once, and records them unchanged. An empty body is not an error here,
  // since some SDKs send a content type without a body.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser<Buffer>('*', { parseAs: 'buffer' }, (request, body, done) => {
    if (request.headers['content-encoding'] === undefined) {
      try {
        if (body.length > UNCOUNTED_BYTES) holdBody(request, body);
        return done(null, checkedJson(request, body, options.bodyBounds));
      } catch (error) {
        return done(toRefusal(error));
      }
    }
    decodedWhole(request, body, bodyLimitOf(request)).then(
      (decoded) => {
        try {
          done(null, checkedJson(request, decoded, options.bodyBounds));
        } catch (error) {
          done(toRefusal(error));
        }
      },
      (error: Error) => done(error),
    );
  });

  answerHalfClosed(app.server);
  routeUpgrades(app.server, (request, response) => app.routing(request, response));
  app.server.on('connect', (_request, socket) => socket.end(rawErrorAnswer('CONNECT')));
  app.decorateRequest('caller', undefined);
  app.decorateRequest('arrivedAt', 0);
  app.decorateRequest('refusal', undefined);
  app.decorateRequest('response', undefined);
  app.decorate('bodyMemory', bodyMemory);
  app.decorate('basePath', basePath);
  app.decorate('registerLater', (prefix, register) => {
    let started: Promise<Routes> | undefined;
    const start = async () => {
      const server = createServer(options, bodyMemory, false);
      register(server);
      await server.ready();
      return server;
    };
    later.push({ prefix, server: () => (started ??= start()) });
    app.addHook('onClose', async () => void (await (await started)?.close()));
  });
  app.decorate('declaredRoutes', collectRoutes(app));
  app.addHook('onRoute', requireAccessClass);
  app.addHook('onRoute', (route) => {
    routes.add(route.url, route.method, route.config?.access === 'public');
    route.bodyLimit ??= limitOfRoute(route.url, bodyLimits);
    if (isWritingV1(route.url, route.method)) route.config = { limits: 'request', ...route.config };
  });
  allowOrigins(app, options);
  app.addHook('onRequest', (request, reply, done) => {
    const address = request.url.includes('%') ? decodedPath(request) : request.url;
    for (const { prefix, server } of later) {
      if (!address.startsWith(prefix)) continue;
      return void server().then((started) => {
        reply.hijack();
        started.routing(request.raw, reply.raw);
      }, done);
    }
    request.arrivedAt = performance.now();
    request.response = reply.raw;
    reply.header('x-request-id', request.id);
    if (canHide && isHidden(request)) {
      authenticateIfPossible(request);
      throw refusals.unknownRoute(request.method, pathOf(request));
    }
    if (options.isStopping()) reply.header('connection', 'close');
    const type = request.headers['content-type'];
    if (type !== undefined && !MEDIA_TYPE.test(type)) request.headers['content-type'] = 'application/octet-stream';
    const { access, limits } = request.routeOptions.config;
    if (access === 'metrics') {
      request.caller = authenticator.authenticateScraper(request);
      if (request.caller !== undefined) guardMetrics(request.caller);
    } else if (access === undefined ? !routes.at(pathOf(request))?.isPublic : access !== 'public') {
      request.caller = authenticator.authenticate(request);
    }
    if (request.headers.host === undefined && request.raw.httpVersion !== '1.0') throw refusals.noHost();
    if (access !== 'passthrough') {
      if (request.headers['content-encoding'] !== undefined) checkEncoding(request.headers);
      if (request.url.includes('%00')) checkQuery(request);
    }
    if (limits === 'request' && !READING.has(request.method)) options.admitRequest(callerOf(request), request);
    done();
  });
  app.addHook('onSend', (_request, reply, payload, done) => {
    const recorded = recordAnswers(reply, options.recorder);
    if (recorded === undefined) done(null, payload);
    else recorded.then(() => done(null, payload), done);
  });
  return app;
}

/** @throws Refusal 403 */
function guardMetrics(caller: Caller): void {
  if (!maySeeEverything(caller)) throw refusals.metricsDenied();
  if (whyNotAdministrator(caller) === 'previous secret') throw refusals.previousSecretDenied();
}

function pathOf({ url }: FastifyRequest): string {
  return url.split('?', 1)[0] ?? '/';
}

/** As the router compares it; unchanged where it is not valid: then no route is found. */
function decodedPath(request: FastifyRequest): string {
  const path = pathOf(request);
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}

/**
 * The body without a byte order mark, after a pass over the JSON in it, so that no route parses what would occupy the
 * process for long. @throws Refusal 400
 */
export function checkedJson({ routeOptions }: FastifyRequest, body: Buffer, bounds: BodyBounds): Buffer {
  const json = withoutByteOrderMark(body);
  const url = routeOptions.url ?? '';
  const refusal = refusalOfJson(json, url, bounds);
  if (refusal !== undefined) throw refusal;
  return json;
}

/** @throws Refusal 503 when large bodies already take too much memory */
function holdBody({ server, response }: FastifyRequest, body: Buffer): Buffer {
  if (response !== undefined) server.bodyMemory.hold(body.length, response);
  return body;
}

/**
 * A body that is completely in memory, decoded, and held until its response is closed.
 * @throws Refusal 400, 413, 415 as `decodedRequestBody`; 503 when large bodies already take too much memory
 */
export async function decodedWhole(request: FastifyRequest, body: Buffer, limitBytes: number): Promise<Buffer> {
  const decoded = await request.server.bodyMemory.decode(() => decodedRequestBody(request.headers, body, limitBytes));
  return holdBody(request, decoded);
}

const READING = new Set(['GET', 'HEAD', 'OPTIONS']);

function isWritingV1(url: string, methods: string | readonly string[]): boolean {
  return url.startsWith('/v1/') && [methods].flat().some((method) => !READING.has(method));
}

export function callerOf(request: FastifyRequest): Caller {
  if (request.caller === undefined) throw refusals.missingCredentials();
  return request.caller;
}

/** The actor of the request, for the events that it causes. */
export function eventContextOf(request: FastifyRequest): EventContext {
  const { actor, userPath } = callerOf(request);
  return { actor, userPath, requestId: request.id };
}

/** The sender of the request, for components that store objects. */
export function requesterOf(request: FastifyRequest): {
  readonly context: EventContext;
  readonly visibility: VisibilityScope;
} {
  return { context: eventContextOf(request), visibility: callerOf(request).visibility };
}

/** Size limit of the request's body, in bytes. */
export function bodyLimitOf({ routeOptions }: FastifyRequest): number {
  return routeOptions.bodyLimit ?? 0;
}

/** The request's body, empty when it has none. */
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

/**
 * Lets web pages of other origins use the gateway (Fetch Standard, "CORS protocol"). Off unless origins are configured:
 * no hook is added then. Keys are sent in a header and never as cookies, so answers allow no credentials.
 */
const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE';
const MAX_AGE_SECONDS = 600;
const HEADER_NAMES = /^[\w!#$%&'*+.^`|~ ,-]{0,4096}$/;

/** Adds the hook that answers preflights without a key, before any other check of the request. */
function allowOrigins(app: FastifyInstance, options: Pick<ServerOptions, 'corsOrigins'>): void {
  app.addHook('onRequest', (request, reply, done) => {
    const origins = options.corsOrigins;
    if (origins === undefined || origins.length === 0) return done();
    const { origin } = request.headers;
    // Set on the raw response, because exchanges answer without Fastify.
    reply.raw.setHeader('vary', 'Origin');
    if (origin === undefined || !isAllowedOrigin(origin, origins)) return done();
    reply.raw.setHeader('access-control-allow-origin', origins.includes('*') ? '*' : origin);
    reply.raw.setHeader('access-control-expose-headers', '*');
    if (!isPreflight(request)) return done();
    const requestedHeaders = request.headers['access-control-request-headers'];
    reply.headers({
      'access-control-allow-methods': METHODS,
      'access-control-max-age': String(MAX_AGE_SECONDS),
      'x-request-id': request.id,
    });
    // Vendors' clients send many different headers. All names are allowed: only a key grants rights.
    if (requestedHeaders !== undefined && HEADER_NAMES.test(requestedHeaders))
      reply.header('access-control-allow-headers', requestedHeaders);
    reply.code(204).send();
  });
}

function isPreflight({ method, headers }: FastifyRequest): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
}

/** The allowed methods of an address, for requests with another method (RFC 9110 §15.5.6). */
interface RoutePattern {
  readonly matches: RegExp;
  readonly methods: Set<string>;
  isPublic: boolean;
}

interface MethodsAt {
  readonly methods: readonly string[];
  /** Whether every route of the address needs no key. */
  readonly isPublic: boolean;
}

class RouteMethods {
  readonly #patterns = new Map<string, RoutePattern>();

  add(url: string, methods: string | readonly string[], isPublic: boolean): void {
    const known = this.#patterns.get(url);
    const pattern = known ?? { matches: patternOf(url), methods: new Set<string>(), isPublic: true };
    for (const method of [methods].flat()) pattern.methods.add(method);
    pattern.isPublic &&= isPublic;
    this.#patterns.set(url, pattern);
  }

  /** In alphabetical order; undefined when no route has the address. Tests every pattern: for refused requests only. */
  at(path: string): MethodsAt | undefined {
    const found = [...this.#patterns.values()].filter(({ matches }) => matches.test(path));
    if (found.length === 0) return undefined;
    const methods = [...new Set(found.flatMap((one) => [...one.methods]))].sort();
    return { methods, isPublic: found.every(({ isPublic }) => isPublic) };
  }
}

/** As Fastify matches `/v1/responses/:id` and `/v1/models/*`. */
function patternOf(url: string): RegExp {
  const escaped = url.replace(/[.+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${escaped.replace(/:\w+/g, '[^/]+').replaceAll('*', '.*')}$`);
}

// A client that ends its side of a connection while it waits for an answer has left, or sends nothing more and still reads
// (RFC 9112 §9.3; `shutdown(SHUT_WR)`). The two differ only when something is sent to them: the connection of one that
// has left is reset. So the client is sent interim answers (100, which every HTTP/1.1 client ignores), and is answered
// unless the connection is reset.

/**
 * Milliseconds after the end. Most answers are sent before the first interim answer. The reset is noticed at the second, or
 * at a later one on a slow connection.
 */
const INTERIM_ANSWERS = [300, 400, 1_500, 6_000];

/** Node's own setting, which its types lack: without it, the server ends its side when the client does. */
interface HalfOpenServer extends Server {
  httpAllowHalfOpen?: boolean;
}

function answerHalfClosed(server: HalfOpenServer): void {
  server.httpAllowHalfOpen = true;
  /** The newest answer of each connection. */
  const answers = new WeakMap<Socket, ServerResponse>();
  server.on('request', (_request, response) => {
    if (response.socket !== null) answers.set(response.socket, response);
  });
  server.on('connection', (socket: Socket) => {
    // A connection that another process has accepted lacks it.
    socket.allowHalfOpen = true;
    socket.once('end', () => {
      const response = answers.get(socket);
      if (response === undefined || response.writableEnded) return;
      // A client that has received a part of its answer and ends the connection has left.
      if (response.headersSent) socket.end();
      else sendInterimAnswers(response);
    });
  });
}

function sendInterimAnswers(response: ServerResponse): void {
  if (response.req.httpVersion !== '1.1') return;
  const timers = INTERIM_ANSWERS.map((ms) =>
    setTimeout(() => {
      if (!response.headersSent && !response.destroyed) response.writeContinue();
    }, ms).unref(),
  );
  response.once('close', () => {
    for (const timer of timers) clearTimeout(timer);
  });
}

// Routes that answer from the state of this gateway, and must know what other gateways have answered before.

/** Resolves when this gateway knows everything that was recorded before the call. @throws LogUnavailable */
export type ReadToPresent = () => Promise<void>;

/** Set when the log could not be read to its end: what other gateways have recorded may be missing. */
const STALE = 'x-stale';
const READ_METHODS = new Set(['GET', 'HEAD']);

/** Reads wait for it. While the log is unavailable they are answered from what was read, with `x-stale: true`. */
export function readAtPresent(routes: Routes, readToPresent: ReadToPresent): void {
  routes.addHook('preHandler', async (request, reply) => {
    if (!READ_METHODS.has(request.method)) return;
    try {
      await readToPresent();
    } catch (error) {
      if (!(error instanceof LogUnavailable)) throw error;
      reply.header(STALE, 'true');
    }
  });
}
