/** `/admin/auth-keys`: creates, lists, changes and deactivates managed keys. */
import { randomUUID } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { authorityOf } from '../../../commands/access/authority.ts';
import { mintKeySecret } from '../../../commands/access/key-directory.ts';
import { canonicalSelectors } from '../../../commands/access/selector.ts';
import { changeKey, type KeyCommand, keyNotFound, renameLabel } from '../../../commands/keys/key.ts';
import type { KeyAdministrator } from '../../../commands/keys/key-bounds.ts';
import { Refusal, refusals } from '../../../commands/refusal.ts';
import type { Position } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import type { KeyRecord, KeysState } from '../../../projections/keys.ts';
import type { RunningProjection } from '../../../projections/runner.ts';
import type { Routes } from '../../api/route-schema.ts';
import { sendRows } from '../../paging.ts';
import { optionalUserPath } from '../../request-head.ts';
import { callerOf, eventContextOf } from '../../server.ts';
import { isWithin, pathInScope, scopeOf } from '../admin-scope.ts';
import type { Moment } from '../as-of.ts';
import { ifMatch, sendETag } from '../conditional.ts';
import { pageOf } from '../parameters.ts';
import * as routes from './auth-key-fields.ts';
import { type EffectiveAccess, keyRow } from './auth-key-fields.ts';

/** The keys at a moment. */
interface KeysAsOf {
  readonly keys: Pick<KeysState, 'byId'>;
  readonly effective: EffectiveAccess;
  readonly moment: Pick<Moment, 'at'>;
}

interface AuthKeysOptions {
  readonly log: EventLog;
  readonly keys: Pick<RunningProjection<KeysState>, 'state' | 'whenProcessed'>;
  /** Current effective access; for one answer. */
  effective(): EffectiveAccess;
  /** The keys at the request's `as_of`; undefined without one. @throws Refusal 400 */
  asOf(asOf: string | undefined): Promise<KeysAsOf | undefined>;
  isProvider(name: string): boolean;
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
}

type OfOneKey = FastifyRequest<{ Params: { id: string } }>;

export function registerAuthKeys(admin: Routes, options: AuthKeysOptions): void {
  const { log, keys, now = Date.now } = options;

  /** @throws Refusal 404 for an unknown key, and for one outside the caller's scope */
  function known(request: OfOneKey, { byId }: Pick<KeysState, 'byId'> = keys.state): KeyRecord {
    const { id } = request.params;
    const key = byId.get(id);
    if (key === undefined || !isWithin(scopeOf(request), key.userPath)) throw keyNotFound(id);
    return key;
  }

  /** The current keys, or the keys at the given moment. */
  const keysAsOf = async (asOf: string | undefined): Promise<KeysAsOf> =>
    (await options.asOf(asOf)) ?? { keys: keys.state, effective: options.effective(), moment: { at: now() } };

  const whenProcessed = (position: Position) => keys.whenProcessed(position);

  /**
   * @param commandOf the command of the administrator as it is now
   * @returns the key after the command, at the revision sent as `ETag`
   */
  async function execute(
    id: string,
    commandOf: (by: By) => KeyCommand,
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<KeyRecord> {
    const { position, revision } = await changeKey(
      () => commandOf({ id, context: eventContextOf(request), by: administrator(request) }),
      { log, whenProcessed },
      request.routeOptions.config.ifMatch === undefined ? undefined : ifMatch(request),
    );
    if (position !== undefined) await keys.whenProcessed(position);
    sendETag(reply, revision);
    const key = keys.state.byId.get(id);
    if (key === undefined) throw keyNotFound(id);
    return key;
  }

  /** The caller as the administrator of a key command. */
  function administrator(request: FastifyRequest): KeyAdministrator {
    const caller = callerOf(request);
    const { byId } = keys.state;
    const directory = { byId: (id: string) => byId.get(id) };
    const authority = authorityOf(caller, directory);
    if (caller.key === undefined) return { authority, key: undefined };
    const key = directory.byId(caller.key.id);
    if (key === undefined) throw keyNotFound(caller.key.id);
    // Deactivated since the request was received.
    if (key.deactivatedAt !== undefined) throw refusals.wrongKey();
    return { authority, key };
  }

  function selectors(given: readonly string[]): readonly string[] {
    const canonical = canonicalSelectors(given, options.isProvider, 'allowed_models');
    if (canonical instanceof Refusal) throw canonical;
    return canonical;
  }

  /** Milliseconds since the epoch. @throws Refusal 400 for a time that has passed */
  function future(at: number): number {
    if (at > now()) return at;
    throw refusals.invalidRequest("'expires_at' must be a time in the future.", 'expires_at');
  }

  function rowNow(key: KeyRecord) {
    return keyRow(key, options.effective(), now());
  }

  async function change(request: OfOneKey, reply: FastifyReply, change: KeyChange) {
    const { id } = known(request);
    return rowNow(await execute(id, (by) => ({ ...by, ...change }), request, reply));
  }

  admin.get('/auth-keys', routes.listKeys, async (request, reply) => {
    const { keys, effective, moment } = await keysAsOf(request.query.as_of);
    const scope = scopeOf(request);
    const visible = [...keys.byId.values()].filter(({ userPath }) => isWithin(scope, userPath)).sort(newestFirst);
    const page = pageOf(visible, ({ id }) => id, request.query, reply);
    return sendRows(reply, keyRows(page, effective, moment.at));
  });

  admin.get('/auth-keys/:id', routes.getKey, async (request, reply) => {
    const { keys, effective, moment } = await keysAsOf(request.query.as_of);
    const key = known(request, keys);
    sendETag(reply, String(key.revision));
    return keyRow(key, effective, moment.at);
  });

  admin.post('/auth-keys', routes.createKey, async (request, reply) => {
    const input = request.body;
    const expiresAt = typeof input.expires_at === 'number' ? future(input.expires_at) : undefined;
    const given = optionalUserPath(input.user_path, 'user_path');
    const { value, secretHash, lastCharacters } = mintKeySecret();
    const facts = {
      kind: 'create',
      name: input.name,
      description: input.description ?? undefined,
      userPath: pathInScope(scopeOf(request), given),
      labels: input.labels,
      dashboardAccess: input.dashboard_access,
      secretHash,
      lastCharacters,
    } as const;
    const selected = input.allowed_models === undefined ? undefined : selectors(input.allowed_models);
    // Omitted members default to those of the creating key: a new key never exceeds its creator.
    const create = (by: By): KeyCommand => ({
      ...by,
      ...facts,
      allowedModels: selected ?? by.by.key?.allowedModels ?? [],
      userPathHeader: input.user_path_header ?? by.by.key?.userPathHeader ?? true,
      expiresAt: expiresAt ?? by.by.key?.expiresAt,
    });
    const key = await execute(randomUUID(), create, request, reply);
    return reply.code(201).send({ ...rowNow(key), value });
  });

  admin.put('/auth-keys/labels/rename', routes.renameLabels, async (request) => {
    const { from, to } = request.body;
    if (from === to) throw refusals.invalidRequest("'from' and 'to' are the same label.", 'to');
    const scope = scopeOf(request);
    const ids = [...keys.state.byId.values()]
      .filter((key) => key.labels.includes(from) && isWithin(scope, key.userPath))
      .map(({ id }) => id);
    const { renamed, position } = await renameLabel(
      ids,
      { from, to, context: eventContextOf(request), by: () => administrator(request) },
      { log, whenProcessed },
    );
    if (position !== undefined) await keys.whenProcessed(position);
    return { from, to, renamed };
  });

  admin.put('/auth-keys/:id/labels', routes.setLabels, (request, reply) =>
    change(request, reply, { kind: 'set labels', labels: request.body.labels }),
  );
  admin.put('/auth-keys/:id/allowed-models', routes.setAllowedModels, async (request, reply) =>
    change(request, reply, { kind: 'set allowed models', allowedModels: selectors(request.body.allowed_models) }),
  );
  admin.put('/auth-keys/:id/dashboard-access', routes.setDashboardAccess, (request, reply) =>
    change(request, reply, { kind: 'set dashboard access', dashboardAccess: request.body.dashboard_access }),
  );
  admin.put('/auth-keys/:id/user-path-header', routes.setUserPathHeader, (request, reply) =>
    change(request, reply, { kind: 'set user path header', userPathHeader: request.body.user_path_header }),
  );
  admin.put('/auth-keys/:id/name', routes.renameKey, (request, reply) =>
    change(request, reply, { kind: 'rename', ...request.body }),
  );
  admin.put('/auth-keys/:id/expiry', routes.setExpiry, async (request, reply) => {
    const { expires_at } = request.body;
    return change(request, reply, {
      kind: 'set expiry',
      expiresAt: expires_at === null ? undefined : future(expires_at),
    });
  });

  admin.post('/auth-keys/:id/rotate', routes.rotateKey, async (request, reply) => {
    const { id } = known(request);
    const { grace_seconds } = request.body;
    const { value, secretHash, lastCharacters } = mintKeySecret();
    const previousValidUntil = now() + grace_seconds * 1000;
    const rotate = { kind: 'rotate', secretHash, lastCharacters, previousValidUntil } as const;
    return { ...rowNow(await execute(id, (by) => ({ ...by, ...rotate }), request, reply)), value };
  });

  admin.post('/auth-keys/:id/deactivate', routes.deactivateKey, async (request, reply) => {
    const { id } = known(request);
    await execute(id, (by) => ({ ...by, kind: 'deactivate' }), request, reply);
    return reply.code(204).send();
  });

  admin.post('/auth-keys/:id/reactivate', routes.reactivateKey, async (request, reply) => {
    const { id } = known(request);
    return rowNow(await execute(id, (by) => ({ ...by, kind: 'reactivate' }), request, reply));
  });
}

type By = Pick<KeyCommand, 'id' | 'context' | 'by'>;

/** A key command without the members that all key commands share. */
type KeyChange = {
  [Kind in KeyCommand['kind']]: Omit<Extract<KeyCommand, { kind: Kind }>, 'id' | 'context' | 'by'>;
}['set labels' | 'set allowed models' | 'set dashboard access' | 'set user path header' | 'rename' | 'set expiry'];

function* keyRows(page: readonly KeyRecord[], effective: EffectiveAccess, now: number): Generator<object> {
  for (const key of page) yield keyRow(key, effective, now);
}

function newestFirst(a: KeyRecord, b: KeyRecord): number {
  if (a.createdAt !== b.createdAt) return b.createdAt - a.createdAt;
  if (a.name !== b.name) return a.name < b.name ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}
