/** What a provider itself says a request cost. It is what is billed, so it counts more than any table. */
import { isObject } from '../../json/is-object.ts';

const NANO_PER_DOLLAR = 1e9;
/** A million dollars: more is no cost of one request but a mistake. */
const MAX_NANO = 1e15;
/** xAI counts in ten-thousand-millionths of a dollar ("Cost Tracking" in its documentation). */
const TICKS_PER_NANO = 10;

/**
 * OpenRouter: `cost` is what is taken from the account; with one's own key at the provider, that provider's bill comes
 * on top, as `cost_details.upstream_inference_cost`.
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

/** Whether a provider of that type tells what a request cost, so that it is known also where no table has a price. */
export function reportsCost(providerType: string): boolean {
  return providerType === 'xai' || providerType === 'openrouter';
}
