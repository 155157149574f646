/** A price made ready to be reckoned with: what several sources say, put over one another, in whole numbers. */
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

/** Pico-dollars (a millionth of a millionth of a dollar) for one token, image, second, …: whole, so sums are exact. */
export type Rates = Partial<Readonly<Record<RateName, bigint>>>;

/** The rates of requests of some size. */
export interface Band {
  /** Input tokens, inclusive. */
  readonly upTo: number;
  readonly rates: Rates;
  /** The same in US dollars, as they were written, for the record. */
  readonly told: Readonly<Record<string, number>>;
  readonly isFree: boolean;
}

export interface Price {
  /** The sources that have a say, the strongest first, joined by `+`. */
  readonly source: string;
  /** By size, ascending; the last holds for every request beyond. */
  readonly bands: readonly Band[];
}

/**
 * What the layers say together: each rate as the strongest layer has it that names it. A layer that names a rate and
 * no tiers takes it out of the tiers below as well; one that has tiers replaces them.
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

/** The layers that have a say: those of which something is left that no stronger one names. */
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

/** A request beyond all tiers is charged at the plain rates; what they do not name, as in the last tier. */
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
  const told: Record<string, number> = {};
  for (const name of rateNames) {
    const amount = pricing[name];
    if (amount === undefined) continue;
    told[name] = amount;
    rates[name] = picoDollars(name, amount);
  }
  return { upTo, rates, told: Object.freeze(told), isFree: Object.values(rates).every((rate) => rate === 0n) };
}

/** A dollar for a million tokens is a million pico-dollars for one. */
function picoDollars(name: RateName, dollars: number): bigint {
  return BigInt(Math.round(dollars * (name.endsWith('_per_mtok') ? 1e6 : 1e12)));
}
