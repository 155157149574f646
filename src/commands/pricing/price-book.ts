/**
 * The prices in force: administrators' overrides, over the configuration, over the snapshot shipped with the gateway.
 * Answers from memory; a price is computed once, and again after a change of the overrides.
 */
import { LRUCache } from 'lru-cache';
import type { SavedObjects } from '../../projections/administered.ts';
import { type EstimatedTokens, type TokenUsage, withThinking } from '../model-request/usage.ts';
import { costAt, reportedCost } from './cost-of-usage.ts';
import { type ModelPricing, type Price, type PriceLayer, type PriceOverride, priceOf } from './model-pricing.ts';
import type { ModelPrices, ModelRates, PricedUsage, Pricing, ShownPrice, UsageCost } from './pricing.ts';

export interface PriceSnapshot {
  /** The date of the snapshot, `YYYY-MM-DD`. */
  readonly date: string;
  /** @param model the provider's own id, with or without the date of its version */
  find(providerType: string, model: string): ModelPricing | undefined;
}

export interface PriceSources {
  /** The administrators' overrides by canonical selector. They may change while the gateway runs. */
  readonly overrides: { readonly state: SavedObjects<PriceOverride> };
  /** The pricing that a provider's configuration declares for one of its models. */
  configured(provider: string, model: string): ModelPricing | undefined;
  readonly snapshot: PriceSnapshot;
  /** The type of a provider by its name. */
  typeOf(provider: string): string | undefined;
}

type PricesByModel = LRUCache<string, { readonly price: Price | undefined }>;

/** Cached models of a provider. Clients may request any name from it, so the cache is bounded. */
const MAX_MODELS = 1000;
const PER_MILLION = 1e6;

const noPrice: UsageCost = Object.freeze({ inputCost: null, outputCost: null, totalCost: null });

export class PriceBook implements Pricing, ModelPrices {
  readonly #sources: PriceSources;
  /** By provider, with the provider's type: a name may later belong to a provider of another type. */
  readonly #prices = new Map<string, { readonly type: string; readonly models: PricesByModel }>();
  #version = -1;

  constructor(sources: PriceSources) {
    this.#sources = sources;
  }

  costOf(spent: PricedUsage): UsageCost {
    const { provider, providerType, model, usage } = spent;
    const reported = reportedCost(providerType, usage.raw);
    if (reported !== undefined) {
      return { inputCost: null, outputCost: null, totalCost: reported, priceSource: 'provider_reported' };
    }
    const price = this.#priceOf(provider, providerType, model);
    if (price === undefined) return noPrice;
    const { estimate } = spent;
    if (estimate !== undefined) return estimatedCost(price, spent, estimate);
    const counted = withThinking(usage, providerType);
    return costAt(price, counted === usage ? spent : { ...spent, usage: counted });
  }

  tierEnds({
    provider,
    providerType,
    model,
  }: Pick<PricedUsage, 'provider' | 'providerType' | 'model'>): readonly number[] | undefined {
    return this.#priceOf(provider, providerType, model)?.tierEnds;
  }

  rates(provider: string, model: string): ModelRates | undefined {
    const type = this.#sources.typeOf(provider);
    const prices = type === undefined ? undefined : this.#priceOf(provider, type, model)?.bands[0]?.prices;
    if (prices === undefined) return undefined;
    const { input_per_mtok, output_per_mtok, per_request = 0 } = prices;
    return { inputPerMtok: input_per_mtok, outputPerMtok: output_per_mtok, perRequest: per_request };
  }

  priceOf(provider: string, model: string): number | undefined {
    const rates = this.rates(provider, model);
    if (rates === undefined) return undefined;
    const { inputPerMtok, outputPerMtok, perRequest } = rates;
    if (inputPerMtok === undefined && outputPerMtok === undefined && perRequest === 0) return undefined;
    // A price per request is compared as the price of a thousand tokens.
    return (inputPerMtok ?? 0) + (outputPerMtok ?? 0) + (perRequest * PER_MILLION) / 1000;
  }

  shown(provider: string, model: string): ShownPrice | undefined {
    const type = this.#sources.typeOf(provider);
    const price = type === undefined ? undefined : this.#priceOf(provider, type, model);
    const [first] = price?.bands ?? [];
    if (price === undefined || first === undefined) return undefined;
    return { source: price.source, rates: first.prices, hasTiers: price.bands.length > 1 };
  }

  #priceOf(provider: string, providerType: string, model: string): Price | undefined {
    const { version } = this.#sources.overrides.state;
    if (version !== this.#version) {
      this.#prices.clear();
      this.#version = version;
    }
    let ofProvider = this.#prices.get(provider);
    if (ofProvider?.type !== providerType) {
      ofProvider = { type: providerType, models: new LRUCache({ max: MAX_MODELS }) };
      this.#prices.set(provider, ofProvider);
    }
    const { models } = ofProvider;
    const known = models.get(model);
    if (known !== undefined) return known.price;
    const price = priceOf(this.#layers(provider, providerType, model));
    models.set(model, { price });
    return price;
  }

  /** The strongest first: the most specific override, then wider ones, the configuration, the snapshot. */
  #layers(provider: string, providerType: string, model: string): PriceLayer[] {
    const { overrides, configured, snapshot } = this.#sources;
    const { byKey } = overrides.state;
    const layers: PriceLayer[] = [];
    const add = (source: string, pricing: ModelPricing | undefined) => {
      if (pricing !== undefined) layers.push({ source, pricing });
    };
    // A selector with a slash is one model of one provider, and never a model of any provider.
    const anywhere = model.includes('/') ? [] : [model];
    for (const selector of [`${provider}/${model}`, ...anywhere, `${provider}/`, '/']) {
      add(`override:${selector}`, byKey.get(selector)?.value.pricing);
    }
    add('config', configured(provider, model));
    add(`snapshot:${snapshot.date}`, snapshot.find(providerType, model));
    return layers;
  }
}

// The charge for an answer whose provider did not report its usage, or not all of it: the tokens that the gateway counted,
// at the plain price.

/** Null where the price leaves a side unknown, as for reported usage. The caveat states that it is an estimate. */
function estimatedCost(price: Price, spent: PricedUsage, estimate: EstimatedTokens): UsageCost {
  const { inputTokens, outputTokens } = estimate;
  const totalTokens = inputTokens + outputTokens;
  const usage = { ...spent.usage, inputTokens, outputTokens, totalTokens, source: 'provider' as const };
  const cost = costAt(price, { ...spent, usage, isPartial: false });
  const why = unreported(spent.usage);
  const estimated = `estimated: the provider reported ${why}`;
  return { ...cost, caveat: cost.caveat === undefined ? estimated : `${estimated}; ${cost.caveat}` };
}

function unreported({ source, inputTokens, outputTokens }: TokenUsage): string {
  if (source === 'unknown') return 'no usage';
  if (inputTokens === null) return outputTokens === null ? 'no count of input and output' : 'no count of input';
  return outputTokens === null ? 'no count of output' : 'less than was said';
}
