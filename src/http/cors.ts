/**
 * Lets web pages of other origins use the gateway (Fetch Standard, "CORS protocol"). Off unless origins are configured:
 * no hook is added then. Keys are sent in a header and never as cookies, so answers allow no credentials.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { isAllowedOrigin } from './cross-site.ts';

const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE';
const MAX_AGE_SECONDS = 600;
const HEADER_NAMES = /^[\w!#$%&'*+.^`|~ ,-]{0,4096}$/;

/** Adds the hook that answers preflights without a key, before any other check of the request. */
export function allowOrigins(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  app.addHook('onRequest', (request, reply, done) => {
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
