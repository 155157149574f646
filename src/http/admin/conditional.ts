/**
 * Conditional changes: a GET sends the revision of its resource as `ETag`; a change with that value in `If-Match` is
 * refused when a newer revision exists.
 *
 * A route that honours `If-Match` declares in `config.ifMatch` the GET route that shows its resource, which declares
 * `config.etag`. `ifMatch` reads the header for no other route, and a gateway in which such a GET is missing does not
 * start.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { refusals } from '../../commands/refusal.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Path below `/admin` of the GET route that shows what this route changes. */
    ifMatch?: string;
    /** The answer carries an `ETag`. */
    etag?: true;
  }
}

/** Revision of the resource; `noStream` when it was never changed. */
export type ShownRevision = bigint | string | 'noStream';

/** The ETag of a resource that was never changed: a change with it in `If-Match` succeeds only as the first one. */
const NEVER_CHANGED = 'none';

/**
 * The revision of the resource in `If-Match`; undefined without the header.
 * @throws Refusal 400 when it is not a revision
 */
export function ifMatch(request: FastifyRequest): bigint | 'noStream' | undefined {
  const { config, url } = request.routeOptions;
  if (config.ifMatch === undefined) throw new Error(`${request.method} ${url} does not declare what If-Match is about`);
  const value = request.headers['if-match'];
  if (value === undefined || value === '*') return undefined;
  const match = /^"?(\d{1,18}|none)"?$/.exec(value);
  if (match?.[1] === undefined) {
    throw refusals.invalidRequest('If-Match must be a revision, as the ETag of an answer gives it.', 'If-Match');
  }
  return match[1] === NEVER_CHANGED ? 'noStream' : BigInt(match[1]);
}

export function sendETag(reply: FastifyReply, revision: ShownRevision): void {
  reply.header('etag', `"${revision === 'noStream' ? NEVER_CHANGED : revision}"`);
}

/** @throws Error, when the gateway starts, for a route with `If-Match` without a GET route that sends the `ETag` */
export function requireETags(admin: FastifyInstance): void {
  const { prefix } = admin;
  const shown = new Set<string>();
  const conditional: Pick<RouteOptions, 'method' | 'url' | 'config'>[] = [];
  admin.addHook('onRoute', ({ method, url, config }) => {
    if (config?.etag === true && [method].flat().includes('GET')) shown.add(url);
    if (config?.ifMatch !== undefined) conditional.push({ method, url, config });
  });
  admin.addHook('onReady', async () => {
    for (const { method, url, config } of conditional) {
      if (shown.has(`${prefix}${config?.ifMatch}`)) continue;
      throw new Error(`${method} ${url} honours If-Match, and GET ${prefix}${config?.ifMatch} gives no ETag`);
    }
  });
}
