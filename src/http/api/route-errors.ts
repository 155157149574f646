/** The error statuses of a route: those that follow from its declaration, and those that it names. */
import type { RouteOptions } from 'fastify';

export const errorTexts: Readonly<Record<number, string>> = {
  400: 'The request is not valid',
  401: 'The request has no valid key',
  403: 'The key does not permit this request',
  404: 'The object does not exist, or the key does not see it',
  405: 'The address does not have this method; `Allow` lists its methods',
  408: 'The request did not arrive in time',
  409: 'The object was changed at the same time, or the idempotency key belongs to another request',
  413: 'The request body is too large',
  415: 'The encoding of the request body is not supported; `Accept-Encoding` lists the supported ones',
  429: 'A rate limit or a budget is exhausted; `Retry-After` says when to try again',
  499: 'The client closed the request',
  500: 'An internal error',
  501: 'The provider does not support the operation',
  502: 'The provider could not be reached, or its answer was not usable',
  503: 'The gateway cannot serve the request now: the log cannot be written, a provider is unavailable, the feature is off, or the gateway stops',
  504: 'The provider did not answer in time',
};

type Declared = Pick<RouteOptions, 'method' | 'url' | 'config' | 'schema'>;

const READING = new Set(['GET', 'HEAD', 'OPTIONS']);

/** In ascending order. A request is refused with 400 also for its query and headers (`checkQuery`). */
export function errorsOf({ method, config, schema }: Declared): readonly number[] {
  const statuses = new Set(schema?.errors ?? []);
  const access = config?.access;
  // Also on a route for every key: a web page of another site is refused (`createCrossSiteCheck`).
  if (access !== 'public') for (const status of [400, 401, 403, 503]) statuses.add(status);
  if (config?.ifMatch !== undefined) statuses.add(409);
  const writes = [method].flat().some((one) => !READING.has(one));
  if (writes) for (const status of [413, 415]) statuses.add(status);
  if (writes && access === 'any-key') statuses.add(429);
  return [...statuses].sort((a, b) => a - b);
}
