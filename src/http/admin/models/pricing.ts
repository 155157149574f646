/**
 * `/admin/model-pricing-overrides`: model prices that replace those of the configuration or the snapshot; and `POST
 * /admin/usage/recalculate-pricing`.
 */

import { z } from 'zod';
import { canonicalSelector, parseSelector } from '../../../commands/access/selector.ts';
import { type PriceOverride, pricingSchema } from '../../../commands/pricing/model-pricing.ts';
import type { Recalculated, Recalculation } from '../../../commands/pricing/recalculate.ts';
import { Refusal, refusals } from '../../../commands/refusal.ts';
import type { EpochMs } from '../../../events/event.ts';
import type { SavedObjects } from '../../../projections/administered.ts';
import { priceOverrides } from '../../../projections/provider-memory.ts';
import { queryOfParameters, textParameter } from '../../api/parameters.ts';
import { emptyAnswer, globalAdmin, jsonAnswer, pathParameters, type Routes } from '../../api/route-schema.ts';
import { dateRange, timeZoneOf } from '../../dates.ts';
import { parseUserPath } from '../../request-head.ts';
import { eventContextOf } from '../../server.ts';
import { asOfQuery, oneAsOf } from '../parameters.ts';
import { type ResourceParts, registerResource, savedAnswer } from '../resource.ts';
import { selectorMembers } from './virtual-models.ts';

const MAX_SELECTOR_LENGTH = 256;
const MAX_OVERRIDES = 10_000;

const selector = z.string().min(1).max(MAX_SELECTOR_LENGTH);
const changes = { ifMatch: '/model-pricing-overrides/:selector' } as const;

const overrideSchema = z.object({
  selector: z.string(),
  scope_kind: z.enum(['global', 'provider', 'model', 'provider_model']),
  provider_name: z.string().optional(),
  model: z.string().optional(),
  pricing: pricingSchema,
  ...savedAnswer,
});

const listOverrides = globalAdmin('listPricingOverrides', 'List the model prices that administrators set', {
  exposeHeadRoute: false,
  querystring: asOfQuery,
  response: { 200: jsonAnswer('Sorted by selector', z.array(overrideSchema)) },
});

const getOverride = globalAdmin('getPricingOverride', 'Get the prices that administrators set for one selector', {
  exposeHeadRoute: false,
  ...oneAsOf,
  params: pathParameters({ selector: 'With slashes as `%2F`' }),
  response: { 200: jsonAnswer('The override', overrideSchema) },
});

const setOverride = globalAdmin('setPricingOverride', 'Set the prices of models', {
  ...changes,
  description:
    'In US dollars. It applies to requests that end from then on; omitted rates come from the next less specific ' +
    'source: the provider, everything, the configuration, the snapshot.',
  body: z.strictObject({ selector, pricing: pricingSchema }),
  example: { selector: 'openai/gpt-4o', pricing: { input_per_mtok: 2.5, output_per_mtok: 10 } },
  response: { 200: jsonAnswer('The override', overrideSchema) },
});

const deleteOverride = globalAdmin('deletePricingOverride', 'Delete a price override', {
  ...changes,
  querystring: queryOfParameters({ selector: textParameter('Without a body, the selector of the override') }),
  body: z.strictObject({ selector }).optional(),
  example: { selector: 'openai/gpt-4o' },
  response: { 204: emptyAnswer('The override is deleted') },
  errors: [404],
});

interface PricingOverridesOptions extends ResourceParts<PriceOverride> {
  isProvider(name: string): boolean;
}

export function registerPricingOverrides(admin: Routes, { isProvider, ...parts }: PricingOverridesOptions): void {
  const pricingOverrides = {
    kind: priceOverrides,
    category: 'price',
    noun: 'pricing override',
    path: '/model-pricing-overrides',
    routes: { list: listOverrides, get: getOverride, save: setOverride, remove: deleteOverride },
    // An override for a provider that no longer exists can still be read and removed.
    keyOf: (given: string) => canonical(given, () => true),
    parseValue(body: PriceOverride, { byKey }: SavedObjects<PriceOverride>) {
      const selector = canonical(body.selector, isProvider);
      if (byKey.size < MAX_OVERRIDES || byKey.has(selector)) return { selector, pricing: body.pricing };
      throw refusals.invalidRequest(
        `The maximum of ${MAX_OVERRIDES} pricing overrides is reached; remove one first.`,
        null,
      );
    },
    rowOf: ({ selector, pricing }: PriceOverride) => ({
      selector,
      ...selectorMembers(parseSelector(selector)),
      pricing,
    }),
  };
  registerResource(admin, pricingOverrides, parts);
}

/** @throws Refusal 400 */
function canonical(given: string, isProvider: (name: string) => boolean): string {
  const selector = canonicalSelector(given, isProvider, 'selector');
  if (selector instanceof Refusal) throw selector;
  return selector;
}

/** `POST /admin/usage/recalculate-pricing`: prices recorded usage again at today's prices. */
interface RecalculationOptions {
  readonly enabled: boolean;
  /** @throws Refusal 409 while another recalculation is active */
  recalculate(job: Recalculation): Promise<Recalculated>;
  /** The models of a selector: one, or those behind an alias. Undefined when the selector is unknown. */
  modelsOf(selector: string): Recalculation['scope']['models'];
  now(): EpochMs;
  /** The route answers with the work done so far after this time, even when some remains. */
  readonly limitMs: number;
}

const word = z
  .string()
  .trim()
  .toLowerCase()
  .refine((text) => text === 'recalculate', { error: "expected 'recalculate'" });

const recalculationBody = z
  .strictObject({
    confirmation: word.optional().describe('`recalculate`; required'),
    confirm: word.optional().describe('Other name of `confirmation`'),
    days: z.int().min(1).max(36_500).optional(),
    start_date: z.string().optional().describe('`YYYY-MM-DD`, inclusive'),
    end_date: z.string().optional().describe('`YYYY-MM-DD`, inclusive'),
    user_path: z.string().optional().describe('A user path, with all paths below it'),
    selector: z.string().trim().min(1).max(512).optional().describe('`<provider>/<model>`, or an alias'),
  })
  .refine(({ confirmation, confirm }) => (confirmation ?? confirm) !== undefined, {
    path: ['confirmation'],
    error: "expected 'recalculate'",
  });

const outcome = z.object({
  status: z.enum(['ok', 'partial']),
  matched: z.int().describe('Recorded usages in scope'),
  recalculated: z.int().describe('Those of them with another cost now'),
  with_pricing: z.int(),
  without_pricing: z.int(),
});

const recalculatePricing = globalAdmin('recalculatePricing', 'Recalculate past costs at current prices', {
  description:
    'Corrections are appended; recorded events do not change. `partial`: the time limit was reached, or the caller ' +
    'disconnected; repeat the request for the rest.',
  requestHeaders: { 'X-Gateway-Timezone': z.string().describe('The zone in which days begin. Default: UTC') },
  body: recalculationBody,
  example: { confirmation: 'recalculate', days: 7 },
  response: { 200: jsonAnswer('The numbers of changed and unchanged usages', outcome) },
  errors: [409],
});

export function registerRecalculation(admin: Routes, options: RecalculationOptions): void {
  const { enabled, recalculate, modelsOf, now, limitMs } = options;

  admin.post('/usage/recalculate-pricing', recalculatePricing, async (request, reply) => {
    const { days, start_date, end_date, user_path, selector } = request.body;
    const { from, until } = dateRange({ days, start_date, end_date }, timeZoneOf(request), now());
    const userPath = user_path === undefined ? undefined : parseUserPath(user_path, 'user_path');
    const models = selector === undefined ? undefined : modelsOf(selector);
    if (selector !== undefined && models === undefined) {
      throw refusals.invalidRequest(
        `'${selector}' is not a served model. Write '<provider>/<model>' for a model that was served before.`,
        'selector',
      );
    }
    if (!enabled) throw refusals.featureUnavailable('Recalculation is switched off in the configuration.');
    const left = new AbortController();
    const leave = () => left.abort();
    reply.raw.once('close', leave);
    try {
      const signal = AbortSignal.any([left.signal, AbortSignal.timeout(limitMs)]);
      const scope = { from, until, userPath, models };
      return toWire(await recalculate({ scope, context: eventContextOf(request), signal }));
    } finally {
      reply.raw.off('close', leave);
    }
  });
}

function toWire({ status, matched, recalculated, withPricing, withoutPricing }: Recalculated): z.infer<typeof outcome> {
  return { status, matched, recalculated, with_pricing: withPricing, without_pricing: withoutPricing };
}
