/**
 * The cost that a provider itself reports for a request. It is the billed amount, so it takes precedence over any
 * table.
 */
import { isObject } from '../../json/is-object.ts';

const NANO_PER_DOLLAR = 1e9;
/** A million dollars: a higher cost of one request is a mistake. */
const MAX_NANO = 1e15;
/** xAI counts in ten-thousand-millionths of a dollar ("Cost Tracking" in its documentation). */
const TICKS_PER_NANO = 10;

/**
 * OpenRouter: `cost` is taken from the account. With one's own key at the provider, that provider's bill is added, as
 * `cost_details.upstream_inference_cost`.
 * @returns nano-dollars; undefined when nothing is reported
 */
export function reportedCost(providerType: string, raw: Record<string, unknown> | null): string | undefined {
  if (raw === null) return undefined;
  if (providerType === 'xai') return nanoDollars(raw.cost_in_usd_ticks, (ticks) => ticks / TICKS_PER_NANO);
  if (providerType !== 'openrouter') return undefined;
  const details = isObject(raw.cost_details) ? raw.cost_details.upstream_inference_cost : undefined;
  const upstream = raw.is_byok === true && typeof details === 'number' ? details : 0;
  return nanoDollars(raw.cost, (dollars) => (dollars + upstream) * NANO_PER_DOLLAR);
}

function nanoDollars(reported: unknown, inNano: (amount: number) => number): string | undefined {
  if (typeof reported !== 'number') return undefined;
  const amount = Math.round(inNano(reported));
  return amount >= 0 && amount <= MAX_NANO ? String(amount) : undefined;
}

/** Whether providers of this type report the cost of a request, so that it is known without a price table. */
export function reportsCost(providerType: string): boolean {
  return providerType === 'xai' || providerType === 'openrouter';
}
