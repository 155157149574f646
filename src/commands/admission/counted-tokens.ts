import type { EstimatedTokens } from '../model-request/usage.ts';

/**
 * The tokens that rate limits count: the estimate where there is one, else the reported number; null when it is
 * unknown.
 */
export function countedTokens(reported: number | null, estimate: EstimatedTokens | undefined): number | null {
  return estimate === undefined ? reported : estimate.inputTokens + estimate.outputTokens;
}
