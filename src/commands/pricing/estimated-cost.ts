/**
 * The charge for an answer whose provider did not report its usage, or not all of it: the tokens that the gateway counted,
 * at the plain price.
 */
import type { EstimatedTokens } from '../model-request/units.ts';
import type { TokenUsage } from '../model-request/usage.ts';
import { costAt } from './cost-of-usage.ts';
import type { Price } from './price.ts';
import type { PricedUsage, UsageCost } from './pricing.ts';

/** Null where the price leaves a side unknown, as for reported usage. The caveat states that it is an estimate. */
export function estimatedCost(price: Price, spent: PricedUsage, estimate: EstimatedTokens): UsageCost {
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
