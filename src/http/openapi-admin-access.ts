/** OpenAPI operations of access, managed keys and users. */
import { z } from 'zod';
import { asOf, ifMatchHeader, json, listPage, type Operation } from './openapi-operation.ts';

const keyMembers = {
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
    .describe('no request header names the user path; absent: one may, unless the key is bound to a path'),
  redacted_value: z.string(),
  previous_valid_until: z
    .string()
    .optional()
    .describe('until then the secret before the last rotation is accepted too; absent: only the newest is'),
  enabled: z.boolean(),
  expires_at: z.string().optional(),
  deactivated_at: z.string().optional(),
  created_at: z.string(),
  updated_at: z.string(),
  active: z.boolean(),
  revision: z.string(),
};
const key = z.object(keyMembers);
const keyRow = z.object({ ...keyMembers, restricted: z.boolean(), effective_models: z.array(z.string()) });
const newKey = z.object({ ...keyMembers, value: z.string().describe('the whole key, shown this once') });

const ofOneKey = { id: 'The id of the key, which is not the key itself' };

export const accessOperations: readonly Operation[] = [
  {
    operationId: 'listAuthKeys',
    methods: ['GET'],
    path: '/admin/auth-keys',
    summary: 'List the managed keys',
    description:
      'Newest first. `effective_models` is what may be used with the key, of the models that are listed now.',
    tag: 'admin',
    parameters: [asOf, ...listPage],
    success: { description: 'Every key in the scope of the caller, or a page of them', content: json(z.array(keyRow)) },
    errors: [400, 401, 403],
  },
  {
    operationId: 'getAuthKey',
    methods: ['GET'],
    path: '/admin/auth-keys/{id}',
    summary: 'One managed key',
    tag: 'admin',
    pathParameters: ofOneKey,
    parameters: [asOf],
    success: { description: 'It; `ETag` is its revision', content: json(keyRow) },
    errors: [400, 401, 403, 404],
  },
  {
    operationId: 'createAuthKey',
    methods: ['POST'],
    path: '/admin/auth-keys',
    summary: 'Make a managed key',
    description:
      'A key that is made with another key never has more models, or a later expiry, than that one: 403 ' +
      '`exceeds_own_access`. What is left out is as the other key has it.',
    tag: 'admin',
    request: {
      required: true,
      schema: z.object({
        name: z.string(),
        description: z.string().optional(),
        user_path: z.string().optional(),
        labels: z.array(z.string()).optional(),
        allowed_models: z.array(z.string()).optional(),
        dashboard_access: z.boolean().optional(),
        user_path_header: z.boolean().optional().describe('true when not given'),
        expires_at: z.string().optional().describe('a time as in RFC 3339'),
      }),
    },
    success: { status: 201, description: 'The key, shown this once', content: json(newKey) },
    errors: [400, 401, 403, 503],
  },
  {
    operationId: 'renameAuthKeyLabel',
    methods: ['PUT'],
    path: '/admin/auth-keys/labels/rename',
    summary: 'Rename a label on every key that has it',
    tag: 'admin',
    request: { required: true, schema: z.object({ from: z.string(), to: z.string() }) },
    success: {
      description: 'How many keys had it',
      content: json(z.object({ from: z.string(), to: z.string(), renamed: z.number().int() })),
    },
    errors: [400, 401, 403, 503],
  },
  change('labels', 'setAuthKeyLabels', 'Give a key other labels', z.object({ labels: z.array(z.string()) })),
  change(
    'allowed-models',
    'setAuthKeyAllowedModels',
    'Say which models a key may be used for; an empty list lifts the restriction',
    z.object({ allowed_models: z.array(z.string()) }),
  ),
  change(
    'dashboard-access',
    'setAuthKeyDashboardAccess',
    'Let a key into the admin API, or out of it',
    z.object({ dashboard_access: z.boolean() }),
  ),
  change(
    'user-path-header',
    'setAuthKeyUserPathHeader',
    'Say whether a request header may name the user path of requests with a key that is bound to none',
    z.object({ user_path_header: z.boolean() }),
  ),
  change(
    'name',
    'renameAuthKey',
    'Give a key another name, and another description unless that is left out',
    z.object({ name: z.string(), description: z.string().nullish() }),
  ),
  change(
    'expiry',
    'setAuthKeyExpiry',
    'Say when a key expires; null: never',
    z.object({ expires_at: z.string().nullable().describe('a time in the future, as in RFC 3339') }),
  ),
  {
    operationId: 'rotateAuthKey',
    methods: ['POST'],
    path: '/admin/auth-keys/{id}/rotate',
    summary: 'Give a key a new secret',
    description:
      'The id stays, and with it everything that the key owns. The secret until now is accepted for `grace_seconds` more, ' +
      'a secret before that no longer. `If-Match` keeps a repeated request from rotating twice.',
    tag: 'admin',
    pathParameters: ofOneKey,
    parameters: [ifMatchHeader],
    request: {
      required: true,
      schema: z.object({ grace_seconds: z.int().describe('0: the secret until now ends at once; at most 90 days') }),
    },
    success: { description: 'The key with its new secret, shown this once', content: json(newKey) },
    errors: [400, 401, 403, 404, 409, 503],
  },
  {
    operationId: 'deactivateAuthKey',
    methods: ['POST'],
    path: '/admin/auth-keys/{id}/deactivate',
    summary: 'Deactivate a key',
    tag: 'admin',
    pathParameters: ofOneKey,
    parameters: [ifMatchHeader],
    success: { status: 204, description: 'It is not accepted any more' },
    errors: [400, 401, 403, 404, 409, 503],
  },
  {
    operationId: 'reactivateAuthKey',
    methods: ['POST'],
    path: '/admin/auth-keys/{id}/reactivate',
    summary: 'Reactivate a key; its newest secret is accepted again',
    tag: 'admin',
    pathParameters: ofOneKey,
    parameters: [ifMatchHeader],
    success: { description: 'The key, as it is now', content: json(key) },
    errors: [400, 401, 403, 404, 409, 503],
  },
];

function change(path: string, operationId: string, summary: string, schema: z.ZodType): Operation {
  return {
    operationId,
    methods: ['PUT'],
    path: `/admin/auth-keys/{id}/${path}`,
    summary,
    tag: 'admin',
    pathParameters: ofOneKey,
    parameters: [ifMatchHeader],
    request: { required: true, schema },
    success: { description: 'The key, as it is now', content: json(key) },
    errors: [400, 401, 403, 404, 409, 503],
  };
}
