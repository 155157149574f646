/** `/admin/auth-keys`: creates, lists, changes and deactivates managed keys. */
import { randomUUID } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { authorityOf } from '../../../commands/access/authority.ts';
import type { EffectiveModels } from '../../../commands/access/authorizer.ts';
import {
  importedHash,
  importedKeyId,
  KEY_PREFIX,
  mintKeySecret,
  whyNotAccepted,
} from '../../../commands/access/key-directory.ts';
import { canonicalSelectors } from '../../../commands/access/selector.ts';
import { changeKey, type KeyCommand, keyNotFound, renameLabel } from '../../../commands/keys/key.ts';
import type { KeyAdministrator } from '../../../commands/keys/key-bounds.ts';
import { Refusal, refusals } from '../../../commands/refusal.ts';
import type { EpochMs, Position, UserPath } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import { networkOf } from '../../../network/networks.ts';
import { importedPrefixOf, type KeyRecord, type KeysState } from '../../../projections/keys.ts';
import type { RunningProjection } from '../../../projections/runner.ts';
import { queryOfParameters } from '../../api/parameters.ts';
import { emptyAnswer, jsonAnswer, pathParameters, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { timeOf, timeText } from '../../dates.ts';
import { sendRows } from '../../paging.ts';
import { optionalUserPath } from '../../request-head.ts';
import { callerOf, eventContextOf } from '../../server.ts';
import { isWithin, pathInScope, scopeOf } from '../admin-scope.ts';
import type { Moment } from '../as-of.ts';
import { ifMatch, sendETag } from '../conditional.ts';
import { asOfParameter, listPageParameters, oneAsOf, pageOf } from '../parameters.ts';

// Managed keys as rows of the admin API.

const members = {
  id: z.string(),
  name: z.string(),
  description: z.string().optional(),
  user_path: z.string().optional(),
  labels: z.array(z.string()),
  allowed_models: z.array(z.string()),
  allowed_cidrs: z
    .array(z.string())
    .optional()
    .describe('Networks of the clients that may use the key. Absent: it may be used from every address'),
  dashboard_access: z.boolean(),
  user_path_header: z
    .literal(false)
    .optional()
    .describe('No request header sets the user path. Absent: one may, unless the key is bound to a path'),
  redacted_value: z.string(),
  previous_valid_until: z.iso
    .datetime()
    .optional()
    .describe('Until then the secret before the last rotation is accepted too. Absent: only the newest secret is'),
  enabled: z.boolean(),
  expires_at: z.iso.datetime().optional(),
  deactivated_at: z.iso.datetime().optional(),
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
  active: z.boolean().describe('The key is accepted now'),
  revision: z.string(),
};

const keyRowSchema = z.object({
  ...members,
  restricted: z.boolean(),
  effective_models: z.array(z.string()).describe('The listed models that may be used with the key'),
});
const secret = z.string().describe('The secret; shown only once');
const rotatedKeySchema = keyRowSchema.extend({ value: secret });
const newKeySchema = keyRowSchema.extend({
  value: secret.optional().meta({ description: 'Absent with `secret_sha256`' }),
});

/** @param now milliseconds since the epoch */
function keyRow(key: KeyRecord, effective: EffectiveModels, now: number) {
  const { description, userPath, expiresAt, deactivatedAt, previousSecret } = key;
  return {
    id: key.id,
    name: key.name,
    ...(description === undefined ? {} : { description }),
    ...(userPath === undefined ? {} : { user_path: userPath }),
    labels: key.labels,
    allowed_models: key.allowedModels,
    ...(key.allowedCidrs.length === 0 ? {} : { allowed_cidrs: key.allowedCidrs }),
    dashboard_access: key.dashboardAccess,
    ...(key.userPathHeader ? {} : { user_path_header: false }),
    redacted_value: redacted(key),
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
    restricted: key.allowedModels.length > 0 || effective.restricts(key.userPath),
    effective_models: effective.of(key.userPath, key.allowedModels),
  };
}

/** Of another gateway's key only the hash is known. */
function redacted({ secretHash, lastCharacters }: KeyRecord): string {
  const prefix = importedPrefixOf(secretHash);
  return prefix === undefined ? `${KEY_PREFIX}...${lastCharacters}` : `${prefix}... (SHA-256 ...${lastCharacters})`;
}

const MAX_LABELS = 100;
/** How long a secret is accepted beside the one that replaced it: 90 days. */
const MAX_GRACE_SECONDS = 90 * 24 * 3600;

/** Without control characters, and not only spaces. */
const words = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^\P{Cc}*[^\s\p{Cc}]\P{Cc}*$/u, 'it must have visible characters, and no control characters');
const label = words(128).transform((text) => text.trim());
const labels = z
  .array(label)
  .max(MAX_LABELS)
  .transform((all) => [...new Set(all)]);
const MAX_NETWORKS = 100;
const noNetwork = 'it must be a network as in 10.0.0.0/8 or 2001:db8::/32, or an address';
const allowedCidrs = z
  .array(
    z.string().transform((text, context) => {
      const network = networkOf(text);
      if (network !== undefined) return network;
      context.addIssue({ code: 'custom', message: noNetwork });
      return z.NEVER;
    }),
  )
  .max(MAX_NETWORKS)
  .transform((all) => [...new Set(all)])
  .describe('Networks of the clients that may use the key; an empty list allows every address');
const allowedModels = z.array(z.string()).describe('Selectors; an empty list allows every model');

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
const expiry = 'A future time as in RFC 3339; null: the key never expires';

const newKey = z.strictObject({
  name,
  description,
  user_path: z.string().nullish().describe("Default: the root of the caller's scope"),
  labels: labels.default([]),
  allowed_models: allowedModels.optional().describe('Selectors. Default: those of the creating key'),
  allowed_cidrs: allowedCidrs.optional().describe('Networks in CIDR notation. Default: those of the creating key'),
  dashboard_access: z.boolean().default(false),
  user_path_header: z.boolean().optional().describe('Default: as the creating key; true for the master key'),
  expires_at: time.nullish().describe('A future time as in RFC 3339. Default: as the creating key'),
  secret_sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/i, 'it must be a SHA-256 in 64 hexadecimal digits')
    .optional()
    .describe('Hash of the secret of another gateway, which is accepted from now on. Only for global administrators'),
  secret_prefix: z
    .string()
    .regex(/^[\x21-\x39\x3b-\x7e]{1,32}$/, 'it must be at most 32 visible ASCII characters without a colon')
    .optional()
    .describe(
      'What that secret begins with and its hash leaves out. Default: nothing, the hash is of the whole secret',
    ),
});

const ofOneKey = pathParameters({ id: 'Id of the key, which is not its secret' });
const changesOfKey = { ifMatch: '/auth-keys/:id', params: ofOneKey, errors: [404] } as const;
const changed = jsonAnswer('The changed key', keyRowSchema);

const listKeys = scopedAdmin('listAuthKeys', 'List managed keys', {
  description: 'Newest first.',
  querystring: queryOfParameters({ as_of: asOfParameter, ...listPageParameters }),
  response: { 200: jsonAnswer('Every key in the scope of the caller, or a page of them', z.array(keyRowSchema)) },
});

const getKey = scopedAdmin('getAuthKey', 'Get one managed key', {
  ...oneAsOf,
  params: ofOneKey,
  response: { 200: jsonAnswer('The key', keyRowSchema) },
});

const createKey = scopedAdmin('createAuthKey', 'Create a managed key', {
  description:
    'A key that is created with another key never has more models, more networks or a later expiry than that one: 403 ' +
    '`exceeds_own_access`. With `secret_sha256` the secret of another gateway is accepted: 409 `key_exists` when a key has ' +
    'or had that hash.',
  body: newKey,
  example: { name: 'team alpha', user_path: '/team/alpha', allowed_models: ['openai/gpt-4o'] },
  response: { 201: jsonAnswer('The key with its secret, which is shown only once', newKeySchema) },
  errors: [409],
});

const renameLabels = scopedAdmin('renameAuthKeyLabel', 'Rename a label on every key that has it', {
  body: z.strictObject({ from: label, to: label }),
  example: { from: 'trial', to: 'customer' },
  response: {
    200: jsonAnswer('The number of changed keys', z.object({ from: z.string(), to: z.string(), renamed: z.int() })),
  },
});

const setLabels = changeOf('setAuthKeyLabels', 'Replace the labels of a key', z.strictObject({ labels }), {
  labels: ['customer'],
});
const setAllowedModels = changeOf(
  'setAuthKeyAllowedModels',
  'Set the models that a key may be used for',
  z.strictObject({ allowed_models: allowedModels }),
  { allowed_models: ['openai/gpt-4o'] },
);
const setAllowedCidrs = changeOf(
  'setAuthKeyAllowedCidrs',
  'Set the networks of the clients that may use a key',
  z.strictObject({ allowed_cidrs: allowedCidrs }),
  { allowed_cidrs: ['10.0.0.0/8', '2001:db8::/32'] },
);
const setDashboardAccess = changeOf(
  'setAuthKeyDashboardAccess',
  'Allow or deny a key the admin API',
  z.strictObject({ dashboard_access: z.boolean() }),
  { dashboard_access: true },
);
const setUserPathHeader = changeOf(
  'setAuthKeyUserPathHeader',
  'Set whether a request header may set the user path of a key that is bound to none',
  z.strictObject({ user_path_header: z.boolean() }),
  { user_path_header: false },
);
const renameKey = changeOf(
  'renameAuthKey',
  'Change the name of a key, and its description unless that is omitted',
  z.strictObject({ name, description }),
  { name: 'team beta' },
);
const setExpiry = changeOf(
  'setAuthKeyExpiry',
  'Set when a key expires',
  z.strictObject({ expires_at: time.nullable().describe(expiry) }),
  { expires_at: null },
);

const rotateKey = scopedAdmin('rotateAuthKey', 'Give a key a new secret', {
  ...changesOfKey,
  description:
    'The id and everything that the key owns stay. The current secret is accepted for `grace_seconds` more; an older ' +
    'one is no longer accepted. `If-Match` keeps a repeated request from rotating twice.',
  body: z.strictObject({
    grace_seconds: z.int().min(0).max(MAX_GRACE_SECONDS).describe('0: the current secret ends at once'),
  }),
  example: { grace_seconds: 3600 },
  response: { 200: jsonAnswer('The key with its new secret, which is shown only once', rotatedKeySchema) },
});

const deactivateKey = scopedAdmin('deactivateAuthKey', 'Deactivate a key', {
  ...changesOfKey,
  response: { 204: emptyAnswer('The key is no longer accepted') },
});

const reactivateKey = scopedAdmin('reactivateAuthKey', 'Reactivate a key; its newest secret is accepted again', {
  ...changesOfKey,
  response: { 200: changed },
});

function changeOf<Body extends z.ZodType>(operationId: string, summary: string, body: Body, example: object) {
  return scopedAdmin(operationId, summary, { ...changesOfKey, body, example, response: { 200: changed } });
}

/** The keys at a moment, and the effective access of users and keys. */
export interface KeysAt {
  readonly keys: Pick<KeysState, 'byId'>;
  readonly effective: EffectiveModels;
  readonly moment: Pick<Moment, 'at'>;
}

/** @template At what is known of a moment */
export interface AccessRoutesOptions<At> {
  readonly log: EventLog;
  readonly keys: Pick<RunningProjection<KeysState>, 'state' | 'whenProcessed'>;
  /** Now; for one answer. */
  effective(): EffectiveModels;
  /** At the `as_of` of a query; undefined without one. @throws Refusal 400 */
  asOf(asOf: string | undefined): Promise<At | undefined>;
  isProvider(name: string): boolean;
}

interface AuthKeysOptions extends AccessRoutesOptions<KeysAt> {
  readonly now?: () => EpochMs;
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
  const keysAsOf = async (asOf: string | undefined): Promise<KeysAt> =>
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

  admin.get('/auth-keys', listKeys, async (request, reply) => {
    const { keys, effective, moment } = await keysAsOf(request.query.as_of);
    const scope = scopeOf(request);
    const visible = [...keys.byId.values()].filter(({ userPath }) => isWithin(scope, userPath)).sort(newestFirst);
    const page = pageOf(visible, ({ id }) => id, request.query, reply);
    return sendRows(reply, keyRows(page, effective, moment.at));
  });

  admin.get('/auth-keys/:id', getKey, async (request, reply) => {
    const { keys, effective, moment } = await keysAsOf(request.query.as_of);
    const key = known(request, keys);
    sendETag(reply, String(key.revision));
    return keyRow(key, effective, moment.at);
  });

  admin.post('/auth-keys', createKey, async (request, reply) => {
    const input = request.body;
    const expiresAt = typeof input.expires_at === 'number' ? future(input.expires_at) : undefined;
    const given = optionalUserPath(input.user_path, 'user_path');
    const { id, value, secretHash, lastCharacters } = newSecret(request.body, scopeOf(request));
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
      allowedCidrs: input.allowed_cidrs ?? by.by.key?.allowedCidrs ?? [],
      userPathHeader: input.user_path_header ?? by.by.key?.userPathHeader ?? true,
      expiresAt: expiresAt ?? by.by.key?.expiresAt,
    });
    const key = await execute(id, create, request, reply);
    return reply.code(201).send({ ...rowNow(key), value });
  });

  admin.put('/auth-keys/labels/rename', renameLabels, async (request) => {
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

  admin.put('/auth-keys/:id/labels', setLabels, (request, reply) =>
    change(request, reply, { kind: 'set labels', labels: request.body.labels }),
  );
  admin.put('/auth-keys/:id/allowed-models', setAllowedModels, async (request, reply) =>
    change(request, reply, { kind: 'set allowed models', allowedModels: selectors(request.body.allowed_models) }),
  );
  admin.put('/auth-keys/:id/allowed-cidrs', setAllowedCidrs, (request, reply) =>
    change(request, reply, { kind: 'set allowed cidrs', allowedCidrs: request.body.allowed_cidrs }),
  );
  admin.put('/auth-keys/:id/dashboard-access', setDashboardAccess, (request, reply) =>
    change(request, reply, { kind: 'set dashboard access', dashboardAccess: request.body.dashboard_access }),
  );
  admin.put('/auth-keys/:id/user-path-header', setUserPathHeader, (request, reply) =>
    change(request, reply, { kind: 'set user path header', userPathHeader: request.body.user_path_header }),
  );
  admin.put('/auth-keys/:id/name', renameKey, (request, reply) =>
    change(request, reply, { kind: 'rename', ...request.body }),
  );
  admin.put('/auth-keys/:id/expiry', setExpiry, async (request, reply) => {
    const { expires_at } = request.body;
    return change(request, reply, {
      kind: 'set expiry',
      expiresAt: expires_at === null ? undefined : future(expires_at),
    });
  });

  admin.post('/auth-keys/:id/rotate', rotateKey, async (request, reply) => {
    const { id } = known(request);
    const { grace_seconds } = request.body;
    const { value, secretHash, lastCharacters } = mintKeySecret();
    const previousValidUntil = now() + grace_seconds * 1000;
    const rotate = { kind: 'rotate', secretHash, lastCharacters, previousValidUntil } as const;
    return { ...rowNow(await execute(id, (by) => ({ ...by, ...rotate }), request, reply)), value };
  });

  admin.post('/auth-keys/:id/deactivate', deactivateKey, async (request, reply) => {
    const { id } = known(request);
    await execute(id, (by) => ({ ...by, kind: 'deactivate' }), request, reply);
    return reply.code(204).send();
  });

  admin.post('/auth-keys/:id/reactivate', reactivateKey, async (request, reply) => {
    const { id } = known(request);
    return rowNow(await execute(id, (by) => ({ ...by, kind: 'reactivate' }), request, reply));
  });
}

/** The made secret of a new key, or the given hash of one. @throws Refusal 400, 403 */
function newSecret(
  { secret_sha256: sha256, secret_prefix: prefix }: z.infer<typeof newKey>,
  scope: UserPath | undefined,
) {
  if (sha256 === undefined) {
    if (prefix !== undefined) throw refusals.missingParameter('secret_sha256');
    return { id: randomUUID(), ...mintKeySecret() };
  }
  if (scope !== undefined) throw refusals.adminScopeDenied();
  const secretHash = importedHash(prefix ?? '', sha256.toLowerCase());
  return { id: importedKeyId(secretHash), value: undefined, secretHash, lastCharacters: secretHash.slice(-4) };
}

type By = Pick<KeyCommand, 'id' | 'context' | 'by'>;

/** A key command without the members that all key commands share. */
type KeyChange = {
  [Kind in KeyCommand['kind']]: Omit<Extract<KeyCommand, { kind: Kind }>, 'id' | 'context' | 'by'>;
}[Exclude<KeyCommand['kind'], 'create' | 'rename label' | 'rotate' | 'deactivate' | 'reactivate'>];

function* keyRows(page: readonly KeyRecord[], effective: EffectiveModels, now: number): Generator<object> {
  for (const key of page) yield keyRow(key, effective, now);
}

function newestFirst(a: KeyRecord, b: KeyRecord): number {
  if (a.createdAt !== b.createdAt) return b.createdAt - a.createdAt;
  if (a.name !== b.name) return a.name < b.name ? -1 : 1;
  return a.id < b.id ? -1 : 1;
}
