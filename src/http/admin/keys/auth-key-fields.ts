/** Declarations of the routes at `/admin/auth-keys`. */
import { z } from 'zod';
import { KEY_PREFIX, whyNotAccepted } from '../../../commands/access/key-directory.ts';
import type { UserPath } from '../../../events/event.ts';
import type { KeyRecord } from '../../../projections/keys.ts';
import { queryOfParameters } from '../../api/parameters.ts';
import { emptyAnswer, jsonAnswer, pathParameters, scopedAdmin } from '../../api/route-schema.ts';
import { timeOf, timeText } from '../../dates.ts';
import { asOfParameter, listPageParameters, oneAsOf } from '../parameters.ts';

// Managed keys as rows of the admin API.

/** Effective access of a key, computed by the authorizer that model requests use. */
export interface EffectiveAccess {
  restricts(path: UserPath | undefined): boolean;
  of(path: UserPath | undefined, keyList: readonly string[]): readonly string[];
}

const members = {
  id: z.string(),
  name: z.string(),
  description: z.string().optional(),
  user_path: z.string().optional(),
  labels: z.array(z.string()),
  allowed_models: z.array(z.string()),
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

export const keyRowSchema = z.object({
  ...members,
  restricted: z.boolean(),
  effective_models: z.array(z.string()).describe('The listed models that may be used with the key'),
});
export const newKeySchema = keyRowSchema.extend({ value: z.string().describe('The secret; shown only once') });

/** @param now milliseconds since the epoch */
export function keyRow(key: KeyRecord, effective: EffectiveAccess, now: number) {
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
    restricted: key.allowedModels.length > 0 || effective.restricts(key.userPath),
    effective_models: effective.of(key.userPath, key.allowedModels),
  };
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
  dashboard_access: z.boolean().default(false),
  user_path_header: z.boolean().optional().describe('Default: as the creating key; true for the master key'),
  expires_at: time.nullish().describe('A future time as in RFC 3339. Default: as the creating key'),
});

const ofOneKey = pathParameters({ id: 'Id of the key, which is not its secret' });
const changesOfKey = { ifMatch: '/auth-keys/:id', params: ofOneKey, errors: [404] } as const;
const changed = jsonAnswer('The changed key', keyRowSchema);

export const listKeys = scopedAdmin('listAuthKeys', 'List managed keys', {
  description: 'Newest first.',
  querystring: queryOfParameters({ as_of: asOfParameter, ...listPageParameters }),
  response: { 200: jsonAnswer('Every key in the scope of the caller, or a page of them', z.array(keyRowSchema)) },
});

export const getKey = scopedAdmin('getAuthKey', 'Get one managed key', {
  ...oneAsOf,
  params: ofOneKey,
  response: { 200: jsonAnswer('The key', keyRowSchema) },
});

export const createKey = scopedAdmin('createAuthKey', 'Create a managed key', {
  description:
    'A key that is created with another key never has more models or a later expiry than that one: 403 ' +
    '`exceeds_own_access`.',
  body: newKey,
  example: { name: 'team alpha', user_path: '/team/alpha', allowed_models: ['openai/gpt-4o'] },
  response: { 201: jsonAnswer('The key with its secret, which is shown only once', newKeySchema) },
});

export const renameLabels = scopedAdmin('renameAuthKeyLabel', 'Rename a label on every key that has it', {
  body: z.strictObject({ from: label, to: label }),
  example: { from: 'trial', to: 'customer' },
  response: {
    200: jsonAnswer('The number of changed keys', z.object({ from: z.string(), to: z.string(), renamed: z.int() })),
  },
});

export const setLabels = changeOf('setAuthKeyLabels', 'Replace the labels of a key', z.strictObject({ labels }), {
  labels: ['customer'],
});
export const setAllowedModels = changeOf(
  'setAuthKeyAllowedModels',
  'Set the models that a key may be used for',
  z.strictObject({ allowed_models: allowedModels }),
  { allowed_models: ['openai/gpt-4o'] },
);
export const setDashboardAccess = changeOf(
  'setAuthKeyDashboardAccess',
  'Allow or deny a key the admin API',
  z.strictObject({ dashboard_access: z.boolean() }),
  { dashboard_access: true },
);
export const setUserPathHeader = changeOf(
  'setAuthKeyUserPathHeader',
  'Set whether a request header may set the user path of a key that is bound to none',
  z.strictObject({ user_path_header: z.boolean() }),
  { user_path_header: false },
);
export const renameKey = changeOf(
  'renameAuthKey',
  'Change the name of a key, and its description unless that is omitted',
  z.strictObject({ name, description }),
  { name: 'team beta' },
);
export const setExpiry = changeOf(
  'setAuthKeyExpiry',
  'Set when a key expires',
  z.strictObject({ expires_at: time.nullable().describe(expiry) }),
  { expires_at: null },
);

export const rotateKey = scopedAdmin('rotateAuthKey', 'Give a key a new secret', {
  ...changesOfKey,
  description:
    'The id and everything that the key owns stay. The current secret is accepted for `grace_seconds` more; an older ' +
    'one is no longer accepted. `If-Match` keeps a repeated request from rotating twice.',
  body: z.strictObject({
    grace_seconds: z.int().min(0).max(MAX_GRACE_SECONDS).describe('0: the current secret ends at once'),
  }),
  example: { grace_seconds: 3600 },
  response: { 200: jsonAnswer('The key with its new secret, which is shown only once', newKeySchema) },
});

export const deactivateKey = scopedAdmin('deactivateAuthKey', 'Deactivate a key', {
  ...changesOfKey,
  response: { 204: emptyAnswer('The key is no longer accepted') },
});

export const reactivateKey = scopedAdmin('reactivateAuthKey', 'Reactivate a key; its newest secret is accepted again', {
  ...changesOfKey,
  response: { 200: changed },
});

function changeOf<Body extends z.ZodType>(operationId: string, summary: string, body: Body, example: object) {
  return scopedAdmin(operationId, summary, { ...changesOfKey, body, example, response: { 200: changed } });
}
