import type { EstimatedTokens } from '../model-request/units.ts';

/** The tokens that rate limits count: those of the estimate where there is one, else as reported; null: not known. */
export function countedTokens(reported: number | null, estimate: EstimatedTokens | undefined): number | null {
  return estimate === undefined ? reported : estimate.inputTokens + estimate.outputTokens;
}
