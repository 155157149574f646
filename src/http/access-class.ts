/**
 * Who may call a route. Every route declares it where it is declared, in `config.access`; a gateway with a route that
 * does not declare it does not start.
 */
import type { RouteOptions } from 'fastify';

export type AccessClass =
  /** Without a key. */
  | 'public'
  /** `METRICS_KEY`, and keys that see everything. */
  | 'metrics'
  /** Every accepted key. What exists for it is decided by its sight. */
  | 'any-key'
  /** Every accepted key that may use the provider; beyond stateless routes, those that see everything. */
  | 'passthrough'
  /** Keys that administer: a subtree, of which they see and change only what is in it, or everything. */
  | 'scoped-admin'
  /** Keys that administer the whole gateway. */
  | 'global-admin';

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: AccessClass;
  }
}

/** Options of a route for every key. */
export const anyKey = { config: { access: 'any-key' } } as const;

/** @throws Error for a route that does not declare its class, or one that its part of the API does not have */
export function requireAccessClass({ method, url, config }: Pick<RouteOptions, 'method' | 'url' | 'config'>): void {
  const access = config?.access;
  const route = `${[method].flat().join(', ')} ${url}`;
  if (access === undefined) throw new Error(`${route} does not declare who may call it`);
  const isAdmin = access === 'scoped-admin' || access === 'global-admin';
  if (isAdmin !== url.startsWith('/admin/') && access !== 'public') {
    throw new Error(`${route} is declared as ${access}, which routes of its part of the API are not`);
  }
}
