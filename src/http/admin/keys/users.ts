/** `/admin/users`: the models that may be used at each user path. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { authorityAt } from '../../../commands/access/authority.ts';
import { type EffectiveModels, pathAndAbove } from '../../../commands/access/authorizer.ts';
import { canonicalSelectors } from '../../../commands/access/selector.ts';
import { Refusal, refusals } from '../../../commands/refusal.ts';
import {
  type UserPolicies,
  type UserPolicyCommand,
  userPolicyDecider,
  userStream,
} from '../../../commands/users/user-policy.ts';
import type { UserPath } from '../../../events/event.ts';
import { newestEvent } from '../../../events/log.ts';
import type { KeysState } from '../../../projections/keys.ts';
import type { RunningProjection } from '../../../projections/runner.ts';
import { queryOfParameters, textParameter } from '../../api/parameters.ts';
import { jsonAnswer, pathParameters, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { sendRows } from '../../paging.ts';
import { optionalUserPath, parseUserPath } from '../../request-head.ts';
import { callerOf, eventContextOf } from '../../server.ts';
import { isWithin, pathInScope, scopeOf } from '../admin-scope.ts';
import { sendETag } from '../conditional.ts';
import { asOfParameter, type ListPage, listPageParameters, oneAsOf, pageOf } from '../parameters.ts';
import { executeChange, savedMembers } from '../resource.ts';
import type { AccessRoutesOptions } from './auth-keys.ts';

/** The policies at a moment, and the effective access they result in. */
interface UsersAt {
  readonly policies: UserPolicies;
  readonly keys: Pick<KeysState, 'byId'>;
  readonly effective: EffectiveModels;
}

interface UsersOptions extends AccessRoutesOptions<UsersAt> {
  readonly users: Pick<RunningProjection<unknown>, 'whenProcessed'>;
  /** In force. */
  readonly policies: UserPolicies;
}

const newPolicy = z.strictObject({
  user_path: z.string().optional(),
  allowed_models: z.array(z.string()),
  description: z.string().max(2000).nullish(),
});

const user = z.object({
  user_path: z.string(),
  allowed_models: z.array(z.string()),
  description: z.string().optional(),
  configured: z.boolean(),
  key_count: z.int(),
  inherited_from: z.array(z.string()),
  restricted: z.boolean(),
  effective_models: z.array(z.string()),
  created_at: z.string().optional(),
  updated_at: z.string().optional(),
  revision: z.string().optional(),
  managed: z.boolean(),
});
const tree = z.object({ users: z.array(user) });
const changes = { ifMatch: '/users/:user_path' } as const;

const listUsers = scopedAdmin('listUsers', 'List user paths with their model policies', {
  querystring: queryOfParameters({ as_of: asOfParameter, ...listPageParameters }),
  response: { 200: jsonAnswer('Every path in the scope of the caller, or a page of them', tree) },
});

const getUser = scopedAdmin('getUser', 'Get one user path with its model policy', {
  ...oneAsOf,
  params: pathParameters({ user_path: 'The user path, percent-encoded' }),
  response: { 200: jsonAnswer('The path with its effective models', user) },
});

const setUser = scopedAdmin('setUserPolicy', 'Set the models that may be used at a user path', {
  ...changes,
  body: newPolicy,
  example: { user_path: '/team/alpha', allowed_models: ['openai/gpt-4o'] },
  response: { 200: jsonAnswer('Every path in the scope of the caller', tree) },
});

const deleteUser = scopedAdmin('removeUserPolicy', 'Delete the model policy of a user path', {
  ...changes,
  querystring: queryOfParameters({ user_path: textParameter("Default: the root of the caller's scope") }),
  response: { 200: jsonAnswer('Every path in the scope of the caller', tree) },
  errors: [404, 409],
});

export function registerUsers(admin: Routes, options: UsersOptions): void {
  const { log, users, keys, policies } = options;

  const now = (): UsersAt => ({ policies, keys: keys.state, effective: options.effective() });

  /** All paths in the caller's scope, or the requested page of them. */
  function sendTree(request: FastifyRequest, reply: FastifyReply, page: ListPage = {}, state = now()): FastifyReply {
    const tree = treeOf(state);
    const scope = scopeOf(request);
    const visible = tree.paths.filter((path) => isWithin(scope, path));
    const paths = pageOf(visible, (path) => path, page, reply);
    return sendRows(reply, nodesAt(tree, paths), ['{"users":', '}']);
  }

  /** @throws Refusal 409 for a policy of the configuration */
  async function execute(command: UserPolicyCommand, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { userPath } = command;
    if (policies.isDeclared(userPath)) throw refusals.userManaged(userPath);
    const { whenProcessed } = users;
    const stream = userStream(userPath);
    await executeChange(userPolicyDecider, command, { log, stream, whenProcessed }, { request, reply });
  }

  const directory = { byId: (id: string) => keys.state.byId.get(id) };
  const byOf = (request: FastifyRequest, userPath: UserPath) => ({
    context: eventContextOf(request),
    authority: authorityAt(userPath, callerOf(request), directory),
  });

  admin.get('/users', listUsers, async (request, reply) =>
    sendTree(request, reply, request.query, (await options.asOf(request.query.as_of)) ?? now()),
  );

  admin.get('/users/:user_path', getUser, async (request, reply) => {
    const path = parseUserPath(request.params.user_path, 'user_path');
    pathInScope(scopeOf(request), path);
    // Read before the policy: an ETag newer than its content would let a change overwrite another.
    const newest = await newestEvent(userStream(path), log);
    const { paths, node } = treeOf((await options.asOf(request.query.as_of)) ?? now());
    if (!paths.includes(path)) throw refusals.notFound('user path', path);
    const user = node(path);
    if (!user.managed) sendETag(reply, user.revision ?? newest?.revision ?? 'noStream');
    return user;
  });

  admin.put('/users', setUser, async (request, reply) => {
    const input = request.body;
    const userPath = userPathIn(request, input.user_path);
    const allowedModels = canonicalSelectors(input.allowed_models, options.isProvider, 'allowed_models');
    if (allowedModels instanceof Refusal) throw allowedModels;
    const description = input.description ?? undefined;
    const command = { kind: 'set', userPath, allowedModels, description, ...byOf(request, userPath) } as const;
    await execute(command, request, reply);
    return sendTree(request, reply);
  });

  admin.delete('/users', deleteUser, async (request, reply) => {
    const userPath = userPathIn(request, request.query.user_path);
    await execute({ kind: 'remove', userPath, ...byOf(request, userPath) }, request, reply);
    return sendTree(request, reply);
  });
}

/** The given path, or else the root of the caller's scope. @throws Refusal */
function userPathIn(request: FastifyRequest, given: string | undefined): UserPath {
  const path = pathInScope(scopeOf(request), optionalUserPath(given, 'user_path'));
  if (path === undefined) throw refusals.missingParameter('user_path');
  return path;
}

/** Every known user path, with the policy in force there. */
function treeOf({ policies, keys, effective }: UsersAt) {
  const keyCounts = new Map<UserPath, number>();
  for (const { userPath } of keys.byId.values()) {
    if (userPath !== undefined) keyCounts.set(userPath, (keyCounts.get(userPath) ?? 0) + 1);
  }
  const paths = new Set<UserPath>(['/' as UserPath]);
  for (const known of [policies.keys as UserPath[], keyCounts.keys()]) {
    for (const path of known) for (const one of pathAndAbove(path)) paths.add(one);
  }
  return {
    /** Sorted. */
    paths: [...paths].sort(),
    /** Computed on demand. */
    node(path: UserPath) {
      const policy = policies.get(path);
      return {
        user_path: path,
        allowed_models: policy?.allowedModels ?? [],
        description: policy?.description,
        configured: policy !== undefined,
        key_count: keyCounts.get(path) ?? 0,
        inherited_from: effective.inheritedFrom(path),
        restricted: effective.restricts(path),
        effective_models: effective.of(path),
        ...savedMembers(policies.savedAs(path)),
        managed: policies.isDeclared(path),
      };
    },
  };
}

function* nodesAt({ node }: ReturnType<typeof treeOf>, paths: readonly UserPath[]): Generator<object> {
  for (const path of paths) yield node(path);
}
