/** The subtree of a report on usage or requests. */
import type { FastifyRequest } from 'fastify';
import type { UserPath } from '../../events/event.ts';
import { queryOf } from '../query.ts';
import { userPathFilter } from '../user-path.ts';
import { pathInScope, scopeOf } from './mount.ts';

/**
 * The `user_path` of the query, or the caller's scope; undefined is everything, also requests without a user path.
 * @throws Refusal 400 `invalid_user_path`, 403 `user_path_out_of_scope`
 */
export function reportSubtree(request: FastifyRequest): UserPath | undefined {
  const path = pathInScope(scopeOf(request), userPathFilter(queryOf(request)));
  return path === '/' ? undefined : path;
}
