/**
 * The charge for an answer whose provider reported no usage: the tokens that the gateway counted, at the plain price.
 */
import type { EstimatedTokens } from '../model-request/units.ts';
import { costAt } from './cost-of-usage.ts';
import type { Price } from './price.ts';
import type { PricedUsage, UsageCost } from './pricing.ts';

/** Null where the price leaves a side unknown, as for reported usage. The caveat states that it is an estimate. */
export function estimatedCost(price: Price, spent: PricedUsage, estimate: EstimatedTokens): UsageCost {
  const { inputTokens, outputTokens } = estimate;
  const totalTokens = inputTokens + outputTokens;
  const usage = { ...spent.usage, inputTokens, outputTokens, totalTokens, source: 'provider' as const };
  const cost = costAt(price, { ...spent, usage, isPartial: false });
  const why = spent.usage.source === 'unknown' ? 'no usage' : 'less than was said';
  const estimated = `estimated: the provider reported ${why}`;
  return { ...cost, caveat: cost.caveat === undefined ? estimated : `${estimated}; ${cost.caveat}` };
}
