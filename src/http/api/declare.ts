/** The declaration of a route: access class, operation id, summary, and everything else that describes it. */
import type { FastifyContextConfig, FastifySchema } from 'fastify';

/** What a declaration consists of beside its access class, `operationId` (camel case, unique) and `summary`. */
interface Declaration extends FastifySchema, Pick<FastifyContextConfig, 'etag' | 'ifMatch'> {
  /** Whether HEAD is answered too; default: yes for GET. */
  readonly exposeHeadRoute?: boolean;
}

const routeFor =
  (access: FastifyContextConfig) =>
  <const Declared extends Declaration>(operationId: string, summary: string, declared: Declared) => {
    const { etag, ifMatch, exposeHeadRoute = true, ...schema } = declared;
    const conditions = { ...(etag && { etag }), ...(ifMatch !== undefined && { ifMatch }) };
    return { exposeHeadRoute, config: { ...access, ...conditions }, schema: { operationId, summary, ...schema } };
  };

/** A route without a key. */
export const publicRoute = routeFor({ access: 'public' });

/** A route for every key. */
export const anyKey = routeFor({ access: 'any-key' });

/** A route for every key that runs an exchange, which checks the rate limits. */
export const exchangeRoute = routeFor({ access: 'any-key', limits: 'exchange' });

/** A route for administrators of a subtree, who see and change only its content, and of the whole gateway. */
export const scopedAdmin = routeFor({ access: 'scoped-admin' });

/** A route for administrators of the whole gateway. */
export const globalAdmin = routeFor({ access: 'global-admin' });
