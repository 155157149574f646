/** `/admin/auth-keys`: creates, lists, changes and deactivates managed keys. */

import { randomUUID } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { authorityOf } from '../../commands/access/authority.ts';
import { whyNotAccepted } from '../../commands/access/key-directory.ts';
import { KEY_PREFIX, mintKeySecret } from '../../commands/access/key-secret.ts';
import { canonicalSelectors } from '../../commands/access/selector.ts';
import { executeCommand } from '../../commands/handle-command.ts';
import { type KeyCommand, keyDecider, keyNotFound, keyStream } from '../../commands/keys/key.ts';
import type { KeyAdministrator } from '../../commands/keys/key-bounds.ts';
import { renameLabel } from '../../commands/keys/rename-label.ts';
import { Refusal, refusals } from '../../commands/refusal.ts';
import type { UserPath } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import type { KeyRecord } from '../../projections/key-record.ts';
import type { KeysState } from '../../projections/keys.ts';
import type { RunningProjection } from '../../projections/runner.ts';
import type { Routes } from '../api/route-schema.ts';
import { timeOf } from '../dates.ts';
import { sendRows } from '../send-rows.ts';
import { callerOf, eventContextOf } from '../server.ts';
import { timeText } from '../time-text.ts';
import { optionalUserPath } from '../user-path.ts';
import type { Moment } from './as-of.ts';
import { ifMatch, sendETag } from './conditional.ts';
import { isWithin, pathInScope, scopeOf } from './mount.ts';
import { pageOf, requestedAsOf, requestedPage } from './page.ts';
import { readBody } from './read-body.ts';

/** Effective access of a key, computed by the authorizer that model requests use. */
export interface EffectiveAccess {
  restricts(path: UserPath | undefined): boolean;
  of(path: UserPath | undefined, keyList: readonly string[]): readonly string[];
}

/** The keys at a moment. */
export interface KeysAsOf {
  readonly keys: Pick<KeysState, 'byId'>;
  readonly effective: EffectiveAccess;
  readonly moment: Pick<Moment, 'at'>;
}

export interface AuthKeysOptions {
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

interface ById {
  Params: { id: string };
}

const MAX_LABELS = 100;
/** How long a secret is accepted beside the one that replaced it: 90 days. */
const MAX_GRACE_SECONDS = 90 * 24 * 3600;

/** Without control characters, and not only spaces. */
const words = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^\P{Cc}*\S\P{Cc}*$/u, 'it must have visible characters, and no control characters');
const label = words(128).transform((text) => text.trim());
const labels = z
  .array(label)
  .max(MAX_LABELS)
  .transform((all) => [...new Set(all)]);
const allowedModels = z.array(z.string());

const name = words(200).transform((text) => text.trim());
const description = z.string().max(2000).nullish();
const noTime = 'it must be a time as in RFC 3339';
/** Milliseconds since the epoch. */
const time = z.string({ error: noTime }).transform((text, context) => {
  const at = timeOf(text);
  if (at !== undefined) return at;
  context.addIssue({ code: 'custom', message: noTime });
  return z.NEVER;
});

const newKey = z.strictObject({
  name,
  description,
  user_path: z.string().nullish(),
  labels: labels.default([]),
  allowed_models: allowedModels.optional(),
  dashboard_access: z.boolean().default(false),
  user_path_header: z.boolean().optional(),
  expires_at: time.nullish(),
});

const newLabels = z.strictObject({ labels });
const newAllowedModels = z.strictObject({ allowed_models: allowedModels });
const newDashboardAccess = z.strictObject({ dashboard_access: z.boolean() });
const newUserPathHeader = z.strictObject({ user_path_header: z.boolean() });
const newName = z.strictObject({ name, description });
const newExpiry = z.strictObject({ expires_at: time.nullable() });
const rotation = z.strictObject({ grace_seconds: z.int().min(0).max(MAX_GRACE_SECONDS) });
const rename = z.strictObject({ from: label, to: label });

const scoped = { config: { access: 'scoped-admin' } } as const;
const shown = { config: { access: 'scoped-admin', etag: true } } as const;
const changes = { config: { access: 'scoped-admin', ifMatch: '/auth-keys/:id' } } as const;

export function registerAuthKeys(admin: Routes, options: AuthKeysOptions): void {
  const { log, keys, now = Date.now } = options;

  /** @throws Refusal 404 for an unknown key, and for one outside the caller's scope */
  function known(request: FastifyRequest<ById>, { byId } = keys.state as Pick<KeysState, 'byId'>): KeyRecord {
    const { id } = request.params;
    const key = byId.get(id);
    if (key === undefined || !isWithin(scopeOf(request), key.userPath)) throw keyNotFound(id);
    return key;
  }

  /** The current keys, or the keys at the request's `as_of`. */
  const keysAsOf = async (request: FastifyRequest): Promise<KeysAsOf> =>
    (await options.asOf(requestedAsOf(request))) ?? {
      keys: keys.state,
      effective: options.effective(),
      moment: { at: now() },
    };

  /** @returns the key after the command, at the revision sent as `ETag` */
  async function execute(command: KeyCommand, request: FastifyRequest, reply: FastifyReply): Promise<KeyRecord> {
    const { id } = command;
    const stream = keyStream(id);
    const { position, revision } = await executeCommand(keyDecider, command, {
      log,
      stream,
      ifRevision: command.kind === 'create' ? undefined : ifMatch(request),
    });
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

  function change(path: string, read: (request: FastifyRequest) => KeyChange): void {
    admin.put<ById>(`/auth-keys/:id/${path}`, changes, async (request, reply) => {
      const { id } = known(request);
      const command = { id, context: eventContextOf(request), by: administrator(request), ...read(request) };
      return keyView(await execute(command, request, reply), now());
    });
  }

  admin.get('/auth-keys', scoped, async (request, reply) => {
    const { keys, effective, moment } = await keysAsOf(request);
    const scope = scopeOf(request);
    const visible = [...keys.byId.values()].filter(({ userPath }) => isWithin(scope, userPath)).sort(newestFirst);
    const page = pageOf(visible, ({ id }) => id, requestedPage(request), reply);
    return sendRows(reply, keyRows(page, effective, moment.at));
  });

  admin.get<ById>('/auth-keys/:id', shown, async (request, reply) => {
    const { keys, effective, moment } = await keysAsOf(request);
    const key = known(request, keys);
    sendETag(reply, String(key.revision));
    return keyRow(key, effective, moment.at);
  });

  admin.post('/auth-keys', scoped, async (request, reply) => {
    const input = readBody(request, newKey);
    const expiresAt = typeof input.expires_at === 'number' ? future(input.expires_at) : undefined;
    const given = optionalUserPath(input.user_path, 'user_path');
    const { value, secretHash, lastCharacters } = mintKeySecret();
    const by = administrator(request);
    // Omitted members default to those of the creating key: a new key never exceeds its creator.
    const { allowedModels = [], userPathHeader = true, expiresAt: latest } = by.key ?? {};
    const command = {
      kind: 'create',
      id: randomUUID(),
      context: eventContextOf(request),
      by,
      name: input.name,
      description: input.description ?? undefined,
      userPath: pathInScope(scopeOf(request), given),
      labels: input.labels,
      allowedModels: input.allowed_models === undefined ? allowedModels : selectors(input.allowed_models),
      dashboardAccess: input.dashboard_access,
      userPathHeader: input.user_path_header ?? userPathHeader,
      secretHash,
      lastCharacters,
      expiresAt: expiresAt ?? latest,
    } as const;
    const key = await execute(command, request, reply);
    return reply.code(201).send({ ...keyView(key, now()), value });
  });

  admin.put('/auth-keys/labels/rename', scoped, async (request) => {
    const { from, to } = readBody(request, rename);
    if (from === to) throw refusals.invalidRequest("'from' and 'to' are the same label.", 'to');
    const scope = scopeOf(request);
    const ids = [...keys.state.byId.values()]
      .filter((key) => key.labels.includes(from) && isWithin(scope, key.userPath))
      .map(({ id }) => id);
    const { renamed, position } = await renameLabel(
      ids,
      { from, to, context: eventContextOf(request), by: administrator(request) },
      log,
    );
    if (position !== undefined) await keys.whenProcessed(position);
    return { from, to, renamed };
  });

  change('labels', (request) => ({ kind: 'set labels', labels: readBody(request, newLabels).labels }));
  change('allowed-models', (request) => ({
    kind: 'set allowed models',
    allowedModels: selectors(readBody(request, newAllowedModels).allowed_models),
  }));
  change('dashboard-access', (request) => ({
    kind: 'set dashboard access',
    dashboardAccess: readBody(request, newDashboardAccess).dashboard_access,
  }));
  change('user-path-header', (request) => ({
    kind: 'set user path header',
    userPathHeader: readBody(request, newUserPathHeader).user_path_header,
  }));

  change('name', (request) => ({ kind: 'rename', ...readBody(request, newName) }));
  change('expiry', (request) => {
    const { expires_at } = readBody(request, newExpiry);
    return { kind: 'set expiry', expiresAt: expires_at === null ? undefined : future(expires_at) };
  });

  admin.post<ById>('/auth-keys/:id/rotate', changes, async (request, reply) => {
    const { id } = known(request);
    const { grace_seconds } = readBody(request, rotation);
    const { value, secretHash, lastCharacters } = mintKeySecret();
    const by = administrator(request);
    const previousValidUntil = now() + grace_seconds * 1000;
    const secrets = { secretHash, lastCharacters, previousValidUntil };
    const command = { kind: 'rotate', id, context: eventContextOf(request), by, ...secrets } as const;
    return { ...keyView(await execute(command, request, reply), now()), value };
  });

  admin.post<ById>('/auth-keys/:id/deactivate', changes, async (request, reply) => {
    const { id } = known(request);
    const by = administrator(request);
    await execute({ kind: 'deactivate', id, context: eventContextOf(request), by }, request, reply);
    return reply.code(204).send();
  });

  admin.post<ById>('/auth-keys/:id/reactivate', changes, async (request, reply) => {
    const { id } = known(request);
    const by = administrator(request);
    const command = { kind: 'reactivate', id, context: eventContextOf(request), by } as const;
    return keyView(await execute(command, request, reply), now());
  });
}

/** A key command without the members that all key commands share. */
type KeyChange = {
  [Kind in KeyCommand['kind']]: Omit<Extract<KeyCommand, { kind: Kind }>, 'id' | 'context' | 'by'>;
}['set labels' | 'set allowed models' | 'set dashboard access' | 'set user path header' | 'rename' | 'set expiry'];

function* keyRows(page: readonly KeyRecord[], effective: EffectiveAccess, now: number): Generator<object> {
  for (const key of page) yield keyRow(key, effective, now);
}

function keyRow(key: KeyRecord, effective: EffectiveAccess, now: number) {
  return {
    ...keyView(key, now),
    restricted: key.allowedModels.length > 0 || effective.restricts(key.userPath),
    effective_models: effective.of(key.userPath, key.allowedModels),
  };
}

function newestFirst(a: KeyRecord, b: KeyRecord): number {
  if (a.createdAt !== b.createdAt) return b.createdAt - a.createdAt;
  if (a.name !== b.name) return a.name < b.name ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}

function keyView(key: KeyRecord, now: number) {
  const { description, userPath, expiresAt, deactivatedAt, previousSecret } = key;
  return {
    id: key.id,
    name: key.name,
    ...(description === undefined ? {} : { description }),
    ...(userPath === undefined ? {} : { user_path: userPath }),
    labels: key.labels,
    allowed_models: key.allowedModels,
    dashboard_access: key.dashboardAccess,
    ...(key.userPathHeader ? {} : { user_path_header: false }),
    redacted_value: `${KEY_PREFIX}...${key.lastCharacters}`,
    ...(previousSecret !== undefined && now < previousSecret.validUntil
      ? { previous_valid_until: timeText(previousSecret.validUntil) }
      : {}),
    enabled: deactivatedAt === undefined,
    ...(expiresAt === undefined ? {} : { expires_at: timeText(expiresAt) }),
    ...(deactivatedAt === undefined ? {} : { deactivated_at: timeText(deactivatedAt) }),
    created_at: timeText(key.createdAt),
    updated_at: timeText(key.updatedAt),
    active: whyNotAccepted(key, now) === undefined,
    revision: String(key.revision),
  };
}
