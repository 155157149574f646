/** OpenAPI operations of virtual models. */
import { z } from 'zod';
import { asOf, ifMatchHeader, json, type Operation } from './openapi-operation.ts';

const target = z.object({
  provider: z.string().optional().describe("a provider's name or type, which pins the model to it"),
  model: z.string().describe('a model, or another virtual model'),
  weight: z.number().positive().optional(),
});
const strategy = z.enum(['round_robin', 'cost', 'failover', 'adaptive']);
const failover = z.union([
  z.boolean(),
  z.object({
    enabled: z.boolean().optional(),
    statuses: z.array(z.number().int()).optional(),
    phrases: z.array(z.string()).optional(),
  }),
]);

const row = z.object({
  source: z.string(),
  kind: z.enum(['redirect', 'policy']),
  targets: z.array(target).optional(),
  strategy: strategy.optional(),
  session_affinity: z.boolean().optional(),
  failover: failover.optional(),
  scope_kind: z.enum(['global', 'provider', 'model', 'provider_model']).optional(),
  provider_name: z.string().optional(),
  model: z.string().optional(),
  resolved_model: z.string().optional(),
  provider_type: z.string().optional(),
  valid: z.boolean().describe('whether it leads to a model that a provider serves now'),
  user_paths: z.array(z.string()),
  description: z.string().optional(),
  enabled: z.boolean(),
  managed: z.boolean().describe('declared in the configuration, and read-only here'),
  created_at: z.string().optional(),
  updated_at: z.string().optional(),
  revision: z.string().optional(),
});

const newModel = z.object({
  source: z.string().describe('the name clients use; without targets, a selector of models'),
  old_source: z.string().optional().describe('the name it has until now'),
  target_model: z.string().optional(),
  targets: z.array(target).optional(),
  strategy: strategy.optional(),
  session_affinity: z.boolean().optional(),
  failover: failover.optional(),
  user_paths: z.array(z.string()).optional(),
  description: z.string().optional(),
  enabled: z.boolean().optional(),
});

const errors = [400, 401, 403, 409, 503];

export const virtualModelOperations: readonly Operation[] = [
  {
    operationId: 'listVirtualModels',
    methods: ['GET'],
    path: '/admin/virtual-models',
    summary: 'List the virtual models and access policies',
    tag: 'admin',
    parameters: [asOf],
    success: { description: 'By their names', content: json(z.array(row)) },
    errors: [400, 401, 403],
  },
  {
    operationId: 'getVirtualModel',
    methods: ['GET'],
    path: '/admin/virtual-models/{source}',
    summary: 'One virtual model or access policy',
    tag: 'admin',
    pathParameters: { source: 'Its name, with its slashes as `%2F`' },
    parameters: [asOf],
    success: { description: 'It; `ETag` is its revision', content: json(row) },
    errors: [400, 401, 403, 404],
  },
  {
    operationId: 'saveVirtualModel',
    methods: ['PUT'],
    path: '/admin/virtual-models',
    summary: 'Make a virtual model or an access policy, change it, or give it another name',
    description: 'What is left out has its default: this is all of it.',
    tag: 'admin',
    parameters: [ifMatchHeader],
    request: { required: true, schema: newModel },
    success: { description: 'As it is now', content: json(row) },
    otherAnswers: { 204: { description: 'An access policy without effect is not stored' } },
    errors: [...errors, 404],
  },
  {
    operationId: 'removeVirtualModel',
    methods: ['DELETE'],
    path: '/admin/virtual-models',
    summary: 'Remove a virtual model or an access policy',
    tag: 'admin',
    parameters: [ifMatchHeader],
    request: { required: true, schema: z.object({ source: z.string() }) },
    success: { status: 204, description: 'It is gone' },
    errors: [...errors, 404],
  },
];
