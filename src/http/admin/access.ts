/** `GET /admin/access`: what the caller may administer. */
import type { FastifyInstance } from 'fastify';
import { scopeOf } from './mount.ts';

export function registerAccess(admin: FastifyInstance): void {
  admin.get('/access', { config: { access: 'scoped-admin' } }, (request) => {
    const scope = scopeOf(request);
    return scope === undefined ? { scope: 'global' } : { scope: 'user_path', user_path: scope };
  });
}
