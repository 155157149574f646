/** One row of the table of all routes, and the callers whose answers it holds. */
import type { StoredObjectMaker } from './stored-objects.ts';

/**
 * The key that is bound to a path is of /team/a, the scoped administrator of /team; the other tenant is /rival. Objects
 * in a row belong to another key of /team/a, or to /third, a tenant without a caller.
 */
export const callers = [
  'no key',
  'unbound plain key',
  'bound plain key',
  "other tenant's key",
  'scoped admin',
  'global admin',
  'master',
] as const;
export type CallerName = (typeof callers)[number];

/** One for each caller, in their order. */
export type ByCaller<T> = readonly [T, T, T, T, T, T, T];

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'HEAD' | 'OPTIONS';

export interface Row {
  /** As it is registered. */
  readonly route: `${Method} /${string}`;
  /** What distinguishes it from other rows of the route. */
  readonly about?: string;
  /** The status for each caller. */
  readonly answers: ByCaller<number>;
  /** Creates the object that the request names, anew for each caller, and returns its id. */
  readonly make?: StoredObjectMaker;
  /** Path and query; default: the registered path with the id in it. */
  readonly path?: (id: string) => string;
  /** Sent as JSON, or unchanged when it is a form. */
  readonly body?: (id: string) => object;
  /** Whether the answer contains the id; only for callers that may use the route. */
  readonly shows?: ByCaller<boolean>;
}
