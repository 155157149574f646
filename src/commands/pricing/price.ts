/** A price prepared for calculation: the rates of several sources, merged, in whole numbers. */
import {
  limitOf,
  type ModelPricing,
  type PricingTier,
  type RateName,
  rateNames,
  tierRateNames,
} from './model-pricing.ts';

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
}

/**
 * Merges the layers: each rate comes from the strongest layer that names it. A layer that names a rate and no tiers
 * also removes that rate from the tiers below; a layer with tiers replaces them.
 * @param layers the strongest first
 */
export function priceOf(layers: readonly PriceLayer[]): Price | undefined {
  const pricing = layers.reduceRight<ModelPricing>((weaker, layer) => over(layer.pricing, weaker), {});
  return hasRates(pricing) ? { source: sourcesOf(layers).join('+'), bands: bandsOf(pricing) } : undefined;
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
