/** What an answer is charged whose provider reported no usage: the tokens that the gateway counted, at the plain price. */
import { unknownUsage } from '../exchange/usage.ts';
import { costAt } from './cost-of-usage.ts';
import type { Price } from './price.ts';
import type { PricedUsage, UsageCost } from './pricing.ts';

/** Null where the price leaves a side open, as for usage that is reported. The caveat says that it is an estimate. */
export function estimatedCost(price: Price, spent: PricedUsage): UsageCost {
  const { inputTokens = 0, outputTokens = 0 } = spent.estimate ?? {};
  const totalTokens = inputTokens + outputTokens;
  const usage = { ...unknownUsage, inputTokens, outputTokens, totalTokens, source: 'provider' as const };
  const cost = costAt(price, { ...spent, usage, isPartial: false });
  const estimated = 'estimated: the provider reported no usage';
  return { ...cost, caveat: cost.caveat === undefined ? estimated : `${estimated}; ${cost.caveat}` };
}
