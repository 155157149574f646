/**
 * The prices in force: what administrators say, over what the configuration says, over the snapshot that came with the
 * gateway. Answers from memory; a price is put together once, and again when an administrator has changed something.
 */
import { costAt } from './cost-of-usage.ts';
import { estimatedCost } from './estimated-cost.ts';
import type { ModelPricing } from './model-pricing.ts';
import { type Price, type PriceLayer, priceOf } from './price.ts';
import type { ModelPrices, ModelRates, PricedUsage, Pricing, UsageCost } from './pricing.ts';
import { reportedCost } from './reported-cost.ts';

/** What administrators say. It changes while the gateway runs. */
export interface OverriddenPrices {
  /** Another number after every change. */
  readonly version: number;
  /** By canonical selector. */
  readonly bySelector: ReadonlyMap<string, { readonly pricing: ModelPricing }>;
}

export interface PriceSnapshot {
  /** The day it was made, `YYYY-MM-DD`. */
  readonly date: string;
  /** @param model the provider's own id, with or without the date of its version */
  find(providerType: string, model: string): ModelPricing | undefined;
}

export interface PriceSources {
  overrides(): OverriddenPrices;
  /** What the configuration of a provider says of one of its models. */
  configured(provider: string, model: string): ModelPricing | undefined;
  readonly snapshot: PriceSnapshot;
  /** The type of a provider by its name. */
  typeOf(provider: string): string | undefined;
}

/** Names may be whatever clients ask a provider for, so what is remembered has an end. */
const MAX_REMEMBERED = 10_000;
const PER_MILLION = 1e6;

const noPrice: UsageCost = Object.freeze({ inputCost: null, outputCost: null, totalCost: null });

export class PriceBook implements Pricing, ModelPrices {
  readonly #sources: PriceSources;
  /** By provider: of the type it has. A name may be given to a provider of another type. */
  readonly #prices = new Map<string, { readonly type: string; readonly models: Map<string, Price | undefined> }>();
  #remembered = 0;
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
    return estimate === undefined ? costAt(price, spent) : estimatedCost(price, spent, estimate);
  }

  rates(provider: string, model: string): ModelRates | undefined {
    const type = this.#sources.typeOf(provider);
    const told = type === undefined ? undefined : this.#priceOf(provider, type, model)?.bands[0]?.told;
    if (told === undefined) return undefined;
    const { input_per_mtok, output_per_mtok, per_request = 0 } = told;
    return { inputPerMtok: input_per_mtok, outputPerMtok: output_per_mtok, perRequest: per_request };
  }

  priceOf(provider: string, model: string): number | undefined {
    const rates = this.rates(provider, model);
    if (rates === undefined) return undefined;
    const { inputPerMtok, outputPerMtok, perRequest } = rates;
    if (inputPerMtok === undefined && outputPerMtok === undefined && perRequest === 0) return undefined;
    // A price for each request is as if a thousand tokens of it cost that.
    return (inputPerMtok ?? 0) + (outputPerMtok ?? 0) + (perRequest * PER_MILLION) / 1000;
  }

  #priceOf(provider: string, providerType: string, model: string): Price | undefined {
    const { version } = this.#sources.overrides();
    if (version !== this.#version || this.#remembered > MAX_REMEMBERED) {
      this.#prices.clear();
      this.#remembered = 0;
      this.#version = version;
    }
    let ofProvider = this.#prices.get(provider);
    if (ofProvider?.type !== providerType) {
      ofProvider = { type: providerType, models: new Map() };
      this.#prices.set(provider, ofProvider);
    }
    const { models } = ofProvider;
    const known = models.get(model);
    if (known !== undefined || models.has(model)) return known;
    const price = priceOf(this.#layers(provider, providerType, model));
    models.set(model, price);
    this.#remembered += 1;
    return price;
  }

  /** The strongest first: the most specific override, then wider ones, the configuration, the snapshot. */
  #layers(provider: string, providerType: string, model: string): PriceLayer[] {
    const { overrides, configured, snapshot } = this.#sources;
    const { bySelector } = overrides();
    const layers: PriceLayer[] = [];
    const add = (source: string, pricing: ModelPricing | undefined) => {
      if (pricing !== undefined) layers.push({ source, pricing });
    };
    // A text with a slash is one model of one provider, and never a model wherever it is.
    const anywhere = model.includes('/') ? [] : [model];
    for (const selector of [`${provider}/${model}`, ...anywhere, `${provider}/`, '/']) {
      add(`override:${selector}`, bySelector.get(selector)?.pricing);
    }
    add('config', configured(provider, model));
    add(`snapshot:${snapshot.date}`, snapshot.find(providerType, model));
    return layers;
  }
}
