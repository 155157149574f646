/** `GET /admin/access`: the scope that the caller administers. */
import { z } from 'zod';
import { scopedAdmin } from '../api/declare.ts';
import { jsonAnswer, type Routes } from '../api/route-schema.ts';
import { scopeOf } from './admin-scope.ts';

const access = z.object({ scope: z.enum(['global', 'user_path']), user_path: z.string().optional() });

const getAccess = scopedAdmin('getAdminAccess', 'The scope that the caller administers', {
  response: { 200: jsonAnswer('Everything, or one subtree', access) },
});

export function registerAccess(admin: Routes): void {
  admin.get('/access', getAccess, (request) => {
    const scope = scopeOf(request);
    return scope === undefined ? { scope: 'global' } : { scope: 'user_path', user_path: scope };
  });
}
