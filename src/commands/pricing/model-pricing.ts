/** Prices of models: as written by an administrator or in the configuration, and prepared for calculation. */
import { z } from 'zod';
import type { modelPricing, priceOverrideSet } from '../../events/catalogue/budget.ts';
import type { ConfiguredModel } from '../../providers/provider.ts';

/** Trusted: it has passed `pricingSchema`, or comes from the record. */
export type ModelPricing = z.infer<typeof modelPricing>;
type PricingTier = NonNullable<ModelPricing['tiers']>[number];

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

const tierRateNames = [
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

type RateName = keyof typeof rates;
const rateNames = Object.keys(rates) as readonly RateName[];

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
function limitOf(one: Pick<PricingTier, 'up_to_tokens' | 'up_to_mtok'> | undefined): number {
  if (one?.up_to_tokens !== undefined) return one.up_to_tokens;
  return one?.up_to_mtok === undefined ? Number.POSITIVE_INFINITY : Math.round(one.up_to_mtok * 1_000_000);
}

// A price prepared for calculation: the rates of several sources, merged, in whole numbers.

/** One source of rates. */
export interface PriceLayer {
  /** `override:<selector>`, `config` or `snapshot:<date>`. */
  readonly source: string;
  readonly pricing: ModelPricing;
}

/**
 * Pico-dollars (a millionth of a millionth of a dollar) per token, image, second, …: whole numbers, so sums are
 * exact.
 */
export type Rates = Partial<Readonly<Record<RateName, bigint>>>;

/** The rates for requests of one size. */
export interface Band {
  /** Input tokens, inclusive. */
  readonly upTo: number;
  readonly rates: Rates;
  /** The same rates in US dollars, as written in the source, for the record. */
  readonly prices: Readonly<Record<string, number>>;
  readonly isFree: boolean;
}

export interface Price {
  /** The sources that contribute a rate, the strongest first, joined by `+`. */
  readonly source: string;
  /** By size, ascending; the last applies to every larger request. */
  readonly bands: readonly Band[];
  /** The largest input, in tokens, of each band but the last. */
  readonly tierEnds: readonly number[];
}

/**
 * Merges the layers: each rate comes from the strongest layer that names it. A layer that names a rate and no tiers
 * also removes that rate from the tiers below; a layer with tiers replaces them.
 * @param layers the strongest first
 */
export function priceOf(layers: readonly PriceLayer[]): Price | undefined {
  const pricing = layers.reduceRight<ModelPricing>((weaker, layer) => over(layer.pricing, weaker), {});
  if (!hasRates(pricing)) return undefined;
  const bands = bandsOf(pricing);
  const tierEnds = bands.slice(0, -1).map(({ upTo }) => Math.floor(upTo));
  return { source: sourcesOf(layers).join('+'), bands, tierEnds };
}

function over(stronger: ModelPricing, weaker: ModelPricing): ModelPricing {
  const tiers = stronger.tiers ?? weaker.tiers?.map((one) => without(one, stronger)).filter(hasTierRates);
  return { ...weaker, ...defined(stronger), tiers: tiers?.length === 0 ? undefined : tiers };
}

/** The layers that contribute: those with a rate that no stronger layer names. */
function sourcesOf(layers: readonly PriceLayer[]): string[] {
  let stronger: ModelPricing = {};
  return layers.flatMap(({ source, pricing }) => {
    const named = stronger;
    stronger = over(named, pricing);
    const hasRate = rateNames.some((name) => pricing[name] !== undefined && named[name] === undefined);
    const hasTier = named.tiers === undefined && pricing.tiers?.some((one) => hasTierRates(without(one, named)));
    return hasRate || hasTier === true ? [source] : [];
  });
}

function without(one: PricingTier, stronger: ModelPricing): PricingTier {
  const left = { ...one };
  for (const name of tierRateNames) if (stronger[name] !== undefined) delete left[name];
  return left;
}

function hasTierRates(one: PricingTier): boolean {
  return tierRateNames.some((name) => one[name] !== undefined);
}

function hasRates(pricing: ModelPricing): boolean {
  return pricing.tiers !== undefined || rateNames.some((name) => pricing[name] !== undefined);
}

function defined(pricing: ModelPricing): ModelPricing {
  return Object.fromEntries(Object.entries(pricing).filter(([, value]) => value !== undefined));
}

/** A request beyond all tiers is charged at the plain rates; rates that they do not name come from the last tier. */
function bandsOf({ tiers = [], ...plain }: ModelPricing): Band[] {
  const bands = tiers.map((one) => band(limitOf(one), { ...plain, ...defined(rated(one)) }));
  const last = tiers.at(-1);
  const beyond = last === undefined ? plain : { ...defined(rated(last)), ...plain };
  return [...bands, band(Number.POSITIVE_INFINITY, beyond)];
}

function rated({ up_to_tokens: _tokens, up_to_mtok: _millions, ...rates }: PricingTier): ModelPricing {
  return rates;
}

function band(upTo: number, pricing: ModelPricing): Band {
  const rates: Partial<Record<RateName, bigint>> = {};
  const prices: Record<string, number> = {};
  for (const name of rateNames) {
    const amount = pricing[name];
    if (amount === undefined) continue;
    prices[name] = amount;
    rates[name] = picoDollars(name, amount);
  }
  return { upTo, rates, prices: Object.freeze(prices), isFree: Object.values(rates).every((rate) => rate === 0n) };
}

/** One dollar per million tokens is a million pico-dollars per token. */
function picoDollars(name: RateName, dollars: number): bigint {
  return BigInt(Math.round(dollars * (name.endsWith('_per_mtok') ? 1e6 : 1e12)));
}

export type PriceOverride = z.infer<typeof priceOverrideSet.data>;

/** The prices that a provider's configuration declares: `models[].metadata.pricing`. */
interface ConfiguredProvider {
  readonly name: string;
  readonly models: readonly ConfiguredModel[];
}

/**
 * Prices by provider, then by model.
 * @throws Error naming the place of an invalid price: a wrong price would silently make budgets wrong
 */
export function configuredPrices(
  providers: readonly ConfiguredProvider[],
): ReadonlyMap<string, ReadonlyMap<string, ModelPricing>> {
  const found = new Map<string, Map<string, ModelPricing>>();
  for (const { name, models } of providers) {
    const ofProvider = new Map<string, ModelPricing>();
    for (const { id, metadata } of models) {
      if (metadata?.pricing === undefined) continue;
      ofProvider.set(id, parse(metadata.pricing, `providers.${name}.models: the pricing of '${id}'`));
    }
    if (ofProvider.size > 0) found.set(name, ofProvider);
  }
  return found;
}

const withCurrency = z.looseObject({ currency: z.literal('USD', { error: "expected 'USD'" }).optional() });

function parse(value: unknown, place: string): ModelPricing {
  const read = withCurrency
    .transform(({ currency: _, ...rates }) => rates)
    .pipe(pricingSchema)
    .safeParse(value);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const name = issue?.path.join('.');
  throw new Error(`${place} is not valid${name ? ` at '${name}'` : ''}: ${issue?.message}`);
}
