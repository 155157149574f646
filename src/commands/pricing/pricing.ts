/** The cost of usage. Computed once at the end of every exchange, from memory. */
import type { EstimatedTokens, TokenUsage, Units } from '../model-request/usage.ts';

export interface PricedUsage {
  readonly provider: string;
  readonly providerType: string;
  readonly model: string;
  readonly endpoint: string;
  /** The provider's id of its answer, or the id of the work. */
  readonly answerId?: string | undefined;
  readonly usage: TokenUsage;
  /** Units that are charged besides tokens, as far as the request states them. */
  readonly units?: Units | undefined;
  /** The estimated tokens, where the provider reports no usage. */
  readonly estimate?: EstimatedTokens | undefined;
  /** How many answers the usage covers; more than one only for a batch. Default 1. */
  readonly answers?: number | undefined;
  /** How many parallel calls gave the answer, each with the same input. Default 1. */
  readonly calls?: number | undefined;
  /** The answer broke off: the usage is what the provider had reported until then. */
  readonly isPartial?: boolean | undefined;
}

/** The source of a cost that is the reservation of a call whose answer is not known. */
export const RESERVATION = 'reservation';
/** The source of a cost that is the price of a call of an MCP server's tools. */
export const PRICE_PER_CALL = 'price_per_call';

/** Amounts are nano-dollars as decimal text; null when unknown, which differs from zero. */
export interface UsageCost {
  readonly inputCost: string | null;
  readonly outputCost: string | null;
  readonly totalCost: string | null;
  /** The rates in US dollars that applied, named as in a pricing override. */
  readonly price?: Readonly<Record<string, number>> | undefined;
  /** `override:<selector>`, `config`, `snapshot:<date>`, several joined by `+`, or `provider_reported`. */
  readonly priceSource?: string | undefined;
  /** What the cost excludes, or why it is unknown. */
  readonly caveat?: string | undefined;
}

export interface Pricing {
  costOf(spent: PricedUsage): UsageCost;
  /**
   * The largest input, in tokens, of each tier of the price but the last: the same array as long as the price is the same,
   * undefined without a price. Absent where prices have no tiers.
   */
  tierEnds?(priced: Pick<PricedUsage, 'provider' | 'providerType' | 'model'>): readonly number[] | undefined;
}

/** The price of a model's plain tokens, for estimates and comparisons before anything is spent. */
export interface ModelRates {
  /** US dollars per million tokens of a small request; undefined when unknown. */
  readonly inputPerMtok: number | undefined;
  readonly outputPerMtok: number | undefined;
  /** US dollars per request. */
  readonly perRequest: number;
}

/** The price in force of a model, for lists. */
export interface ShownPrice {
  /** `override:<selector>`, `config` or `snapshot:<date>`, several joined by `+`. */
  readonly source: string;
  /** US dollars, of the smallest requests. */
  readonly rates: Readonly<Record<string, number>>;
  /** Larger requests have other rates. */
  readonly hasTiers: boolean;
}

export interface ModelPrices {
  /** @param provider the instance's name. Undefined when no price is known. */
  rates(provider: string, model: string): ModelRates | undefined;
  /**
   * A number to compare models by: US dollars for a million input and a million output tokens. Undefined when
   * unknown.
   */
  priceOf(provider: string, model: string): number | undefined;
  /** Undefined when no price is known. */
  shown(provider: string, model: string): ShownPrice | undefined;
}
