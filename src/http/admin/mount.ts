/**
 * The admin API, mounted at `/admin` and, for older clients, at `/admin/api/v1`.
 *
 * `guardAdmin` checks the access class of a route before its body is read.
 */
import type { FastifyRequest } from 'fastify';
import { whyNotAdministrator } from '../../commands/access/administration.ts';
import type { Caller } from '../../commands/model-request/caller.ts';
import { refusals } from '../../commands/refusal.ts';
import { subtreeOf } from '../../commands/visibility.ts';
import type { UserPath } from '../../events/event.ts';
import type { Routes, ZodTypes } from '../api/route-schema.ts';
import { validateBySchema } from '../api/validation.ts';
import { callerOf } from '../server.ts';
import { requireETags } from './conditional.ts';

const LEGACY = {
  deprecation: 'true',
  sunset: 'Sun, 09 Aug 2026 00:00:00 GMT',
  link: '</admin/>; rel="successor-version"',
};

/** @param register gives each route its path below `/admin`, and its access class. It is called twice. */
export function mountAdmin(app: Routes, register: (admin: Routes) => void): void {
  const mount = (prefix: string, headers: Record<string, string> | undefined) =>
    app.register(
      async (plugin) => {
        const admin = plugin.withTypeProvider<ZodTypes>();
        admin.setValidatorCompiler(validateBySchema);
        admin.addHook('onRequest', async (request, reply) => {
          if (headers !== undefined) reply.headers(headers);
          guardAdmin(request);
        });
        requireETags(admin);
        register(admin);
      },
      { prefix },
    );
  mount('/admin', undefined);
  mount('/admin/api/v1', LEGACY);
}

/** @throws Refusal 403 */
function guardAdmin(request: FastifyRequest): void {
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
