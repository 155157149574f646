/** What usage costs. Asked once at the end of every exchange, from memory. */
import type { EstimatedTokens, Units } from '../model-request/units.ts';
import type { TokenUsage } from '../model-request/usage.ts';

export interface PricedUsage {
  readonly provider: string;
  readonly providerType: string;
  readonly model: string;
  readonly endpoint: string;
  /** The id that the provider gave its answer, or the work that the usage is of. */
  readonly answerId?: string | undefined;
  readonly usage: TokenUsage;
  /** What is charged for beside tokens, as far as the request tells. */
  readonly units?: Units | undefined;
  /** What was probably spent, where the provider reports no usage. */
  readonly estimate?: EstimatedTokens | undefined;
  /** How many answers the usage sums up: more than one only of a batch. Default 1. */
  readonly answers?: number | undefined;
  /** The answer broke off: the usage is what the provider had reported until then. */
  readonly isPartial?: boolean | undefined;
}

/** Amounts are nano-dollars as decimal text; null: not known, which is not the same as nothing. */
export interface UsageCost {
  readonly inputCost: string | null;
  readonly outputCost: string | null;
  readonly totalCost: string | null;
  /** The rates in US dollars that applied, named as in a pricing override. */
  readonly price?: Readonly<Record<string, number>> | undefined;
  /** `override:<selector>`, `config`, `snapshot:<date>`, several joined by `+`, or `provider_reported`. */
  readonly priceSource?: string | undefined;
  /** What the cost leaves out, or why it is not known. */
  readonly caveat?: string | undefined;
}

export interface Pricing {
  costOf(spent: PricedUsage): UsageCost;
}

/** What a model's plain tokens cost, for those who estimate or compare before anything is spent. */
export interface ModelRates {
  /** US dollars for a million tokens of a small request; undefined when not known. */
  readonly inputPerMtok: number | undefined;
  readonly outputPerMtok: number | undefined;
  /** US dollars for the request itself. */
  readonly perRequest: number;
}

export interface ModelPrices {
  /** @param provider the instance's name. Undefined when no price is known. */
  rates(provider: string, model: string): ModelRates | undefined;
  /** A number to compare models by: US dollars for a million tokens in and a million out. Undefined: not known. */
  priceOf(provider: string, model: string): number | undefined;
}
