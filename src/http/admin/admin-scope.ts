/**
 * Where administrators are refused: by the access class of a route (`guardAdmin`), and by the user path that a request
 * names (`pathInScope`). Objects outside the scope of an administrator are 404 in the routes that look them up.
 */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { whyNotAdministrator } from '../../commands/access/authority.ts';
import type { Caller } from '../../commands/model-request/model-request.ts';
import { refusals } from '../../commands/refusal.ts';
import { subtreeOf } from '../../commands/visibility.ts';
import type { UserPath } from '../../events/event.ts';
import type { KeyRecord } from '../../projections/keys.ts';
import { jsonAnswer, type Routes, scopedAdmin } from '../api/route-schema.ts';
import { callerOf } from '../server.ts';

/**
 * Checks the access class of a route before its body is read.
 * @throws Refusal 403 `admin_scope_denied`, `dashboard_access_denied`, `previous_secret_denied`
 */
export function guardAdmin(request: FastifyRequest): void {
  const { access } = request.routeOptions.config;
  if (access !== 'scoped-admin' && access !== 'global-admin') return;
  const caller = callerOf(request);
  const why = whyNotAdministrator(caller);
  if (why === 'no dashboard access') throw refusals.dashboardAccessDenied();
  if (why === 'previous secret') throw refusals.previousSecretDenied();
  if (access === 'global-admin' && adminScope(caller) !== undefined) throw refusals.adminScopeDenied();
}

/** The subtree that the caller administers; undefined: everything. It depends on the credential, never on a header. */
function adminScope({ key }: Caller): UserPath | undefined {
  return subtreeOf(key);
}

/** The scope of the request's caller. */
export function scopeOf(request: FastifyRequest): UserPath | undefined {
  return adminScope(callerOf(request));
}

export function isWithin(scope: UserPath | undefined, path: UserPath | undefined): boolean {
  if (scope === undefined) return true;
  return path !== undefined && (path === scope || path.startsWith(`${scope}/`));
}

/** Of the user paths in a rule for the whole gateway, those that concern the scope: in it, or above it. */
export function pathsVisibleTo(scope: UserPath | undefined, paths: readonly string[]): readonly string[] {
  if (scope === undefined) return paths;
  return paths.filter((path) => isWithin(scope, path as UserPath) || path === '/' || scope.startsWith(`${path}/`));
}

/**
 * The given path when it is in the scope; the root of the scope when none is given.
 * @throws Refusal 403 `user_path_out_of_scope`
 */
export function pathInScope(
  scope: UserPath | undefined,
  given: UserPath | undefined,
  param = 'user_path',
): UserPath | undefined {
  if (given === undefined) return scope;
  if (scope !== undefined && !isWithin(scope, given)) throw refusals.userPathOutOfScope(given, scope, param);
  return given;
}

/** `GET /admin/access`: the scope that the caller administers. */
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

/** Names of managed keys in reports, for callers who may see the key. */
export interface VisibleKeys {
  /** @param scope of the caller. @returns undefined for an unknown key, and for one outside the scope */
  nameOf(keyId: string, scope: UserPath | undefined): string | undefined;
}

export function visibleKeys(byId: (keyId: string) => Pick<KeyRecord, 'name' | 'userPath'> | undefined): VisibleKeys {
  return {
    nameOf(keyId, scope) {
      const key = byId(keyId);
      return key !== undefined && isWithin(scope, key.userPath) ? key.name : undefined;
    },
  };
}
