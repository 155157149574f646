/** `POST /admin/cache/purge`: removes answers from the response cache. */
import { z } from 'zod';
import type { PurgeSelection } from '../../commands/exchange/caching/response-cache.ts';
import { refusals } from '../../commands/refusal.ts';
import type { EventContext, UserPath } from '../../events/event.ts';
import { scopedAdmin } from '../api/declare.ts';
import { jsonAnswer, type Routes } from '../api/route-schema.ts';
import { parseUserPath } from '../request-head.ts';
import { eventContextOf } from '../server.ts';
import { pathInScope, scopeOf } from './admin-scope.ts';

/** @returns how many answers were removed */
export type Purge = (selection: PurgeSelection, context: EventContext) => Promise<number>;

const name = z.string().min(1).max(512);

const purgeBody = z.strictObject({
  user_path: z.string().min(1).optional().describe('Answers of requests at this path or below'),
  model: name.optional().describe("The provider's own id of the model"),
  provider: name.optional().describe('Name of the provider'),
  all: z.literal(true).optional().describe('Every answer; not with another member'),
});

const postPurge = scopedAdmin('purgeCache', 'Remove answers from the response cache', {
  description:
    'Removed are the answers that match every given member; at least one is required. An administrator of a subtree ' +
    'has to name a path in it: `403 admin_scope_denied` otherwise.',
  body: purgeBody,
  example: { user_path: '/team' },
  response: { 200: jsonAnswer('The purge is in force', z.object({ purged: z.int().describe('Removed answers') })) },
});

/** @param purge undefined while the gateway has no response cache */
export function registerCachePurge(admin: Routes, purge: Purge | undefined): void {
  admin.post('/cache/purge', postPurge, async (request) => {
    const selection = selectionOf(request.body, scopeOf(request));
    if (purge === undefined) throw refusals.featureUnavailable('The gateway does not cache answers.');
    return { purged: await purge(selection, eventContextOf(request)) };
  });
}

/** @throws Refusal 400, 403 */
function selectionOf(
  { user_path, model, provider, all }: z.infer<typeof purgeBody>,
  scope: UserPath | undefined,
): PurgeSelection {
  const isNamed = user_path !== undefined || model !== undefined || provider !== undefined;
  if (all === undefined && !isNamed) {
    throw refusals.invalidRequest("One of 'user_path', 'model', 'provider' and 'all' is needed.", null);
  }
  if (all !== undefined && isNamed) throw refusals.invalidRequest("'all' goes with no other member.", 'all');
  if (user_path === undefined && scope !== undefined) throw refusals.adminScopeDenied();
  const given = user_path === undefined ? undefined : parseUserPath(user_path, 'user_path');
  return { userPath: pathInScope(scope, given), model, provider };
}
