/**
 * Which callers may call a route. Every route declares its class in `config.access`; a gateway with a route that does
 * not declare one does not start.
 */
import type { RouteOptions } from 'fastify';

export type AccessClass =
  /** Without a key. */
  | 'public'
  /** `METRICS_KEY`, and keys with unrestricted sight. */
  | 'metrics'
  /** Every accepted key. The key's sight decides which objects exist for it. */
  | 'any-key'
  /** Every accepted key that may use the provider; routes that are not stateless, only keys with unrestricted sight. */
  | 'passthrough'
  /** Keys that administer a subtree, of which they see and change only its content, or everything. */
  | 'scoped-admin'
  /** Keys that administer the whole gateway. */
  | 'global-admin';

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: AccessClass;
  }
}

/** @throws Error for a route that does not declare its class, or one that its part of the API does not allow */
export function requireAccessClass({ method, url, config }: Pick<RouteOptions, 'method' | 'url' | 'config'>): void {
  const access = config?.access;
  const route = `${[method].flat().join(', ')} ${url}`;
  if (access === undefined) throw new Error(`${route} does not declare who may call it`);
  const isAdmin = access === 'scoped-admin' || access === 'global-admin';
  if (isAdmin !== url.startsWith('/admin/') && access !== 'public') {
    throw new Error(`${route} is declared as ${access}, which routes of its part of the API are not`);
  }
}
