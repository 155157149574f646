/** OpenAPI operations of prices and of the recalculation of past costs. */
import { z } from 'zod';
import { pricingSchema } from '../commands/pricing/model-pricing.ts';
import { asOf, header, ifMatchHeader, json, type Operation, query } from './openapi-operation.ts';

const override = z.object({
  selector: z.string(),
  scope_kind: z.enum(['global', 'provider', 'model', 'provider_model']),
  provider_name: z.string().optional(),
  model: z.string().optional(),
  pricing: pricingSchema,
  created_at: z.string(),
  updated_at: z.string(),
  revision: z.string(),
});

export const pricingOperations: readonly Operation[] = [
  {
    operationId: 'listPricingOverrides',
    methods: ['GET'],
    path: '/admin/model-pricing-overrides',
    summary: 'List what administrators say that models cost',
    tag: 'admin',
    parameters: [asOf],
    success: { description: 'Sorted by selector', content: json(z.array(override)) },
    errors: [400, 401, 403],
  },
  {
    operationId: 'getPricingOverride',
    methods: ['GET'],
    path: '/admin/model-pricing-overrides/{selector}',
    summary: 'What administrators say that one selector costs',
    tag: 'admin',
    pathParameters: { selector: 'With its slashes as `%2F`' },
    parameters: [asOf],
    success: { description: 'It; `ETag` is its revision', content: json(override) },
    errors: [400, 401, 403, 404],
  },
  {
    operationId: 'setPricingOverride',
    methods: ['PUT'],
    path: '/admin/model-pricing-overrides',
    summary: 'Set the prices of models',
    description:
      'In US dollars. It applies to requests that end from then on; omitted rates come from the next less specific ' +
      'source: the provider, everything, the configuration, the snapshot.',
    tag: 'admin',
    parameters: [ifMatchHeader],
    request: { required: true, schema: z.object({ selector: z.string(), pricing: pricingSchema }) },
    success: { description: 'The override', content: json(override) },
    errors: [400, 401, 403, 409, 503],
  },
  {
    operationId: 'deletePricingOverride',
    methods: ['DELETE'],
    path: '/admin/model-pricing-overrides',
    summary: 'Remove a price override',
    tag: 'admin',
    parameters: [ifMatchHeader, query('selector', 'Instead of a body')],
    request: { required: false, schema: z.object({ selector: z.string() }) },
    success: { status: 204, description: 'The override is removed' },
    errors: [400, 401, 403, 404, 409, 503],
  },
  {
    operationId: 'recalculatePricing',
    methods: ['POST'],
    path: '/admin/usage/recalculate-pricing',
    summary: 'Recalculate past costs at current prices',
    description:
      'Corrections are appended; recorded events do not change. `partial`: the time limit was reached, or the caller ' +
      'disconnected; repeat the request for the rest.',
    tag: 'admin',
    parameters: [header('X-Gateway-Timezone', 'The zone in which days begin; UTC when absent')],
    request: {
      required: true,
      schema: z.object({
        confirmation: z.literal('recalculate'),
        days: z.int().optional(),
        start_date: z.string().optional(),
        end_date: z.string().optional(),
        user_path: z.string().optional().describe('with all below it'),
        selector: z.string().optional().describe('`<provider>/<model>`, or an alias'),
      }),
    },
    success: {
      description: 'What was done',
      content: json(
        z.object({
          status: z.enum(['ok', 'partial']),
          matched: z.int(),
          recalculated: z.int(),
          with_pricing: z.int(),
          without_pricing: z.int(),
        }),
      ),
    },
    errors: [400, 401, 403, 409, 503],
  },
];
