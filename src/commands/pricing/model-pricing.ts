/** A price as an administrator or the configuration writes it: rates in US dollars, by name. */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { modelPricing } from '../../events/catalogue/price.ts';

/** Trusted: it has passed `pricingSchema`, or comes from the record. */
export type ModelPricing = z.infer<typeof modelPricing>;
export type PricingTier = NonNullable<ModelPricing['tiers']>[number];

/** Upper limits: per million tokens, and per unit of anything else. */
const MAX_RATE = 1_000_000;
const MAX_UNIT_RATE = 1_000;
/**
 * Lower limits: smaller rates would be lost in calculations, which count in a millionth of a millionth of a dollar
 * per token.
 */
const MIN_RATE = 1e-6;
const MIN_UNIT_RATE = 1e-12;
const MAX_TIERS = 20;

const rate = (least = MIN_RATE, most = MAX_RATE) =>
  z
    .number({ error: 'expected an amount of US dollars as a number' })
    .min(0, { error: 'an amount cannot be negative' })
    .max(most, { error: `at most ${most}` })
    .refine((amount) => amount === 0 || amount >= least, { error: `0, or at least ${least}` })
    .optional();
const unitRate = () => rate(MIN_UNIT_RATE, MAX_UNIT_RATE);

/** Rates that may differ between tiers. */
const tierRates = {
  input_per_mtok: rate(),
  output_per_mtok: rate(),
  cached_input_per_mtok: rate(),
  cache_write_per_mtok: rate(),
  cache_write_1h_per_mtok: rate(),
};

const tier = z
  .strictObject({
    up_to_tokens: z.int().min(1).max(1_000_000_000).optional(),
    up_to_mtok: z.number().positive().max(1_000).optional(),
    ...tierRates,
  })
  .refine((one) => (one.up_to_tokens === undefined) !== (one.up_to_mtok === undefined), {
    error: "a tier has either 'up_to_tokens' or 'up_to_mtok'",
  })
  .refine((one) => tierRateNames.some((name) => one[name] !== undefined), { error: 'a tier has at least one rate' });

export const tierRateNames = [
  'input_per_mtok',
  'output_per_mtok',
  'cached_input_per_mtok',
  'cache_write_per_mtok',
  'cache_write_1h_per_mtok',
] as const satisfies readonly (keyof typeof tierRates)[];

const rates = {
  ...tierRates,
  reasoning_output_per_mtok: rate(),
  batch_input_per_mtok: rate(),
  batch_output_per_mtok: rate(),
  audio_input_per_mtok: rate(),
  audio_output_per_mtok: rate(),
  image_input_per_mtok: rate(),
  output_image_per_mtok: rate(),
  per_image: unitRate(),
  input_per_image: unitRate(),
  per_request: unitRate(),
  per_second_input: unitRate(),
  per_second_output: unitRate(),
  per_character_input: unitRate(),
  per_page: unitRate(),
};

export type RateName = keyof typeof rates;
export const rateNames = Object.keys(rates) as readonly RateName[];

/** The pricing that a request may set. It has at least one rate. */
export const pricingSchema = z
  .strictObject({
    ...rates,
    tiers: z
      .array(tier)
      .min(1)
      .max(MAX_TIERS)
      .refine((tiers) => tiers.every((one, at) => at === 0 || limitOf(one) > limitOf(tiers[at - 1])), {
        error: 'each tier goes further than the one before',
      })
      .optional(),
  })
  .refine((pricing) => Object.values(pricing).some((value) => value !== undefined), {
    error: 'at least one rate is needed',
  });

/** The number of input tokens up to which a tier applies, inclusive. */
export function limitOf(one: Pick<PricingTier, 'up_to_tokens' | 'up_to_mtok'> | undefined): number {
  if (one?.up_to_tokens !== undefined) return one.up_to_tokens;
  return one?.up_to_mtok === undefined ? Number.POSITIVE_INFINITY : Math.round(one.up_to_mtok * 1_000_000);
}

export function isSamePricing(one: ModelPricing | undefined, other: ModelPricing): boolean {
  return isDeepStrictEqual(one === undefined ? undefined : present(one), present(other));
}

/** Without members that are undefined. */
function present(pricing: ModelPricing): object {
  return JSON.parse(JSON.stringify(pricing));
}
