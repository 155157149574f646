/**
 * Lets web pages of other origins use the gateway (Fetch Standard, "CORS protocol"). Off unless origins are configured:
 * no hook is added then. Keys are sent in a header and never as cookies, so answers allow no credentials.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { isAllowedOrigin } from './cross-site.ts';

const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE';
const MAX_AGE_SECONDS = 600;
const HEADER_NAMES = /^[\w!#$%&'*+.^`|~ ,-]{0,4096}$/;

/** Adds the hook that answers preflights without a key, before anything else of the request is looked at. */
export function allowOrigins(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  app.addHook('onRequest', (request, reply, done) => {
    const { origin } = request.headers;
    // Raw, because exchanges answer without Fastify.
    reply.raw.setHeader('vary', 'Origin');
    if (origin === undefined || !isAllowedOrigin(origin, origins)) return done();
    reply.raw.setHeader('access-control-allow-origin', origins.includes('*') ? '*' : origin);
    reply.raw.setHeader('access-control-expose-headers', '*');
    if (!isPreflight(request)) return done();
    const asked = request.headers['access-control-request-headers'];
    reply.headers({
      'access-control-allow-methods': METHODS,
      'access-control-max-age': String(MAX_AGE_SECONDS),
      'x-request-id': request.id,
    });
    // The clients of vendors send headers of many names. None of them gives a right; a key does.
    if (asked !== undefined && HEADER_NAMES.test(asked)) reply.header('access-control-allow-headers', asked);
    reply.code(204).send();
  });
}

function isPreflight({ method, headers }: FastifyRequest): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
}
