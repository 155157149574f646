/** Sums of the usage of a request, with corrections. */
import type { ExchangeFacts } from '../record/exchange-facts.ts';
import { numberOf, textOf } from '../record/recorded-event.ts';

const NANO = 1e9;

export interface Totals {
  /** US dollars; null when no part of it is known. */
  readonly dollars: number | null;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Whether a provider reported tokens. */
  readonly isKnown: boolean;
}

export function totalsOf({ usage, corrections }: Pick<ExchangeFacts, 'usage' | 'corrections'>): Totals {
  const costs = new Map<string, number | null>();
  let inputTokens = 0;
  let outputTokens = 0;
  for (const { id, data } of usage) {
    costs.set(id, nanoDollarsOf(textOf(data, 'totalCost')));
    inputTokens += numberOf(data, 'inputTokens') ?? 0;
    outputTokens += numberOf(data, 'outputTokens') ?? 0;
  }
  for (const { data } of corrections) {
    costs.set(textOf(data, 'usageId') ?? '', nanoDollarsOf(textOf(data, 'totalCost')));
  }
  const known = [...costs.values()].filter((cost) => cost !== null);
  return {
    ...{ inputTokens, outputTokens },
    dollars: known.length === 0 ? null : known.reduce((sum, cost) => sum + cost, 0) / NANO,
    isKnown: usage.some(({ data }) => textOf(data, 'source') === 'provider'),
  };
}

/** @param text nano-dollars. @returns null when it is not known */
export function nanoDollarsOf(text: string | undefined): number | null {
  return text === undefined ? null : Number(text);
}

/** @returns US dollars; null when it is not known */
export function dollarsOf(text: string | undefined): number | null {
  return text === undefined ? null : Number(text) / NANO;
}
