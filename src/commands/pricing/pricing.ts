/** What usage costs. Asked once at the end of every exchange, from memory. */
import type { TokenUsage } from '../exchange/usage.ts';

export interface PricedUsage {
  readonly provider: string;
  readonly providerType: string;
  readonly model: string;
  readonly endpoint: string;
  readonly usage: TokenUsage;
}

/** Amounts are nano-dollars as decimal text; null: not known, which is not the same as nothing. */
export interface UsageCost {
  readonly totalCost: string | null;
}

export interface Pricing {
  costOf(spent: PricedUsage): UsageCost;
}

/** No price is known. */
export const unpriced: Pricing = { costOf: () => ({ totalCost: null }) };
