/** The total usage of an exchange: its answer, and failed attempts that were charged. */
import type { z } from 'zod';
import type { usageRecorded } from '../../events/catalogue/exchange.ts';

type Usage = z.infer<typeof usageRecorded.data>;

const counts = [
  'inputTokens',
  'outputTokens',
  'totalTokens',
  'cachedInputTokens',
  'cacheWriteInputTokens',
  'cacheWrite1hInputTokens',
  'reasoningTokens',
] as const;

export type ExchangeUsage = Pick<Usage, (typeof counts)[number] | 'cacheType' | 'source'> & {
  /** Nano-dollars; null when the cost of one part is not known. */
  readonly totalCost: bigint | null;
};

/** @param before the usage so far; undefined for the first */
export function usedInAll(before: ExchangeUsage | undefined, data: Usage): ExchangeUsage {
  const cost = data.totalCost === null || data.totalCost === undefined ? null : BigInt(data.totalCost);
  if (before === undefined) return { ...data, totalCost: cost };
  const sums = Object.fromEntries(counts.map((count) => [count, sum(before[count], data[count])]));
  return {
    ...before,
    ...sums,
    // The answer comes last, and its source counts.
    source: data.source,
    cacheType: data.cacheType ?? before.cacheType,
    totalCost: before.totalCost === null || cost === null ? null : before.totalCost + cost,
  };
}

function sum(before: number | null | undefined, more: number | null | undefined): number | null {
  return before == null && more == null ? null : (before ?? 0) + (more ?? 0);
}
