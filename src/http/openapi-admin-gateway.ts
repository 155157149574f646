/** OpenAPI operations of the admin routes for the gateway itself. */
import { z } from 'zod';
import { credentialSchema } from '../commands/credentials/credential-fields.ts';
import { taggingSettingsSchema } from './admin/tagging.ts';
import { ifMatchHeader, json, listPage, type Operation, query } from './openapi-operation.ts';

const time = z.iso.datetime();
const health = z.enum(['healthy', 'degraded', 'unhealthy']);

const credentialRow = z.looseObject({
  name: z.string(),
  type: z.string(),
  api_keys: z.array(z.string()).optional().describe('a mask for each'),
  base_url: z.string().optional(),
  proxy_url: z.string().optional(),
  models: z.array(z.string()).optional(),
  models_mode: z.string().optional(),
  session_sticky_keys: z.boolean(),
  enabled: z.boolean(),
  managed: z.boolean().describe('part of the configuration, and changed there'),
  problem: z.string().optional().describe('why it is not in force'),
  created_at: time.optional(),
  updated_at: time.optional(),
  revision: z.string().optional(),
});

const credentialType = z.object({
  type: z.string(),
  default_base_url: z.string().optional(),
  fields: z.array(
    z.object({
      name: z.string(),
      required: z.boolean(),
      advanced: z.boolean(),
      options: z.array(z.string()).optional(),
    }),
  ),
});

const providersStatus = z.object({
  summary: z.object({
    total: z.int(),
    healthy: z.int(),
    degraded: z.int(),
    unhealthy: z.int(),
    overall_status: health,
  }),
  providers: z.array(
    z.object({
      name: z.string(),
      type: z.string(),
      status: health,
      status_label: z.enum(['Healthy', 'Degraded', 'Unhealthy', 'Starting', 'Configured', 'Unknown']),
      status_reason: z.string(),
      last_error: z.string().optional(),
      config: z.looseObject({ name: z.string(), type: z.string() }),
      runtime: z.looseObject({ registered: z.boolean(), discovered_model_count: z.int() }),
    }),
  ),
});

const adminModel = z.object({
  model: z.looseObject({ id: z.string(), object: z.literal('model'), created: z.int(), owned_by: z.string() }),
  provider_type: z.string(),
  provider_name: z.string(),
  selector: z.string(),
  access: z.looseObject({
    selector: z.string(),
    default_enabled: z.boolean(),
    effective_enabled: z.boolean().describe('whether the caller may use it'),
  }),
});

const taggingSettings = z.object({
  headers: z.array(
    z.object({
      header: z.string(),
      prefix: z.string().optional(),
      delimiter: z.string(),
      do_not_pass: z.boolean(),
      managed: z.boolean().optional(),
    }),
  ),
  editable: z.boolean(),
});

const refreshReport = z.object({
  status: z.enum(['ok', 'partial', 'failed']),
  started_at: time,
  finished_at: time,
  duration_ms: z.int(),
  model_count: z.int(),
  provider_count: z.int(),
  steps: z.array(z.looseObject({ name: z.string(), status: z.enum(['ok', 'partial', 'failed', 'skipped']) })),
});

const tag = 'admin';

export const gatewayAdminOperations: readonly Operation[] = [
  {
    operationId: 'getProvidersStatus',
    methods: ['GET'],
    path: '/admin/providers/status',
    summary: 'How each provider is',
    tag,
    success: { description: 'All of them, by name, and their sum', content: json(providersStatus) },
    errors: [401, 403],
  },
  {
    operationId: 'listProviderCredentials',
    methods: ['GET'],
    path: '/admin/provider-credentials',
    summary: 'The providers that are set up',
    description: 'Secrets are masked. Those of the configuration are among them, and cannot be changed here.',
    tag,
    success: { description: 'All of them, by name', content: json(z.array(credentialRow)) },
    errors: [401, 403],
  },
  {
    operationId: 'getProviderCredential',
    methods: ['GET'],
    path: '/admin/provider-credentials/{name}',
    summary: 'One provider that is set up',
    tag,
    pathParameters: { name: 'Its name' },
    success: {
      description: 'It; `ETag` is its revision, unless it is of the configuration',
      content: json(credentialRow),
    },
    errors: [400, 401, 403, 404],
  },
  {
    operationId: 'saveProviderCredential',
    methods: ['PUT'],
    path: '/admin/provider-credentials',
    summary: 'Set up a provider, or change one',
    description:
      'In force at once. What is left out is not set; a secret that is sent as its mask stays as it is stored at the ' +
      'same place. Secrets are encrypted before they are recorded.',
    tag,
    parameters: [ifMatchHeader],
    request: { required: true, schema: credentialSchema },
    success: { description: 'As it is now; `ETag` is its revision', content: json(credentialRow) },
    errors: [400, 401, 403, 409, 503],
  },
  {
    operationId: 'deleteProviderCredential',
    methods: ['DELETE'],
    path: '/admin/provider-credentials/{name}',
    summary: 'Remove a provider',
    description: 'New requests are no longer sent to it; those under way end as they would have.',
    tag,
    pathParameters: { name: 'Its name' },
    parameters: [ifMatchHeader],
    success: { description: 'It is gone', status: 204 },
    errors: [400, 401, 403, 404, 409, 503],
  },
  {
    operationId: 'listProviderCredentialTypes',
    methods: ['GET'],
    path: '/admin/provider-credentials/types',
    summary: 'The types of provider, and what each is set up with',
    tag,
    success: { description: 'All of them, by name', content: json(z.array(credentialType)) },
    errors: [401, 403],
  },
  {
    operationId: 'listAdminModels',
    methods: ['GET'],
    path: '/admin/models',
    summary: 'Every model, with who may use it',
    tag,
    parameters: [query('category', 'One kind of model; `all` is every one'), ...listPage],
    success: { description: 'Empty while nothing is known of any provider', content: json(z.array(adminModel)) },
    errors: [400, 401, 403],
  },
  {
    operationId: 'listModelCategories',
    methods: ['GET'],
    path: '/admin/models/categories',
    summary: 'How many models there are of each kind',
    tag,
    success: {
      description: 'Every kind',
      content: json(z.array(z.object({ category: z.string(), display_name: z.string(), count: z.int() }))),
    },
    errors: [401, 403],
  },
  {
    operationId: 'getRuntimeConfig',
    methods: ['GET'],
    path: '/admin/runtime/config',
    summary: 'What is switched on',
    tag,
    success: {
      description: '`on` or `off` by the name of the setting',
      content: json(z.record(z.string(), z.string())),
    },
    errors: [401, 403],
  },
  {
    operationId: 'listRuntimeSettings',
    methods: ['GET'],
    path: '/admin/runtime/settings',
    summary: 'The settings that can be changed at run time',
    tag,
    success: { description: 'There is none', content: json(z.object({ settings: z.array(z.unknown()) })) },
    errors: [401, 403],
  },
  {
    operationId: 'setRuntimeSetting',
    methods: ['PUT'],
    path: '/admin/runtime/settings/{key}',
    summary: 'Change a setting at run time',
    tag,
    pathParameters: { key: 'Its name' },
    request: { required: true, schema: z.strictObject({ value: z.string() }) },
    success: { description: 'As it is now' },
    errors: [400, 401, 403, 404],
  },
  {
    operationId: 'refreshRuntime',
    methods: ['POST'],
    path: '/admin/runtime/refresh',
    summary: 'Read the model list of every provider again',
    description: 'One refresh at a time: a call during another refresh waits for it first.',
    tag,
    success: { description: 'What was done, and how each step went', content: json(refreshReport) },
    errors: [401, 403],
  },
  {
    operationId: 'getTaggingSettings',
    methods: ['GET'],
    path: '/admin/tagging/settings',
    summary: 'Which request headers become labels',
    tag,
    success: {
      description: 'Those of the configuration first; `ETag` is the revision of the others',
      content: json(taggingSettings),
    },
    errors: [401, 403],
  },
  {
    operationId: 'setTaggingSettings',
    methods: ['PUT'],
    path: '/admin/tagging/settings',
    summary: 'Replace the rules by which request headers become labels',
    description: 'Those of the configuration stay, and cannot be sent.',
    tag,
    parameters: [ifMatchHeader],
    request: { required: true, schema: taggingSettingsSchema },
    success: { description: 'As they are now; `ETag` is their revision', content: json(taggingSettings) },
    errors: [400, 401, 403, 409, 503],
  },
];
