/** Prices of models that administrators set. */
import { z } from 'zod';
import { modelPricing, priceOverrideRemoved, priceOverrideSet } from '../events/catalogue/budget.ts';
import { isA } from './known-event.ts';
import type { Projection } from './projection.ts';

const override = z.object({
  /** Canonical. */
  selector: z.string(),
  pricing: modelPricing,
  /** Milliseconds since the epoch. */
  createdAt: z.number(),
  updatedAt: z.number(),
  /** Of its newest event. */
  revision: z.number(),
});

export type PriceOverride = Readonly<z.infer<typeof override>>;

export interface PriceOverrides {
  /** Counts the changes, so that values derived from the overrides can be recomputed after a change. */
  version: number;
  readonly bySelector: Map<string, PriceOverride>;
}

export const priceOverridesView: Projection<PriceOverrides> = {
  name: 'price-overrides',
  version: 1,
  filter: { types: ['price.'] },
  initial: () => ({ version: 0, bySelector: new Map() }),
  apply(state, event) {
    state.version += 1;
    if (isA(event, priceOverrideSet)) {
      const { selector, pricing } = event.data;
      const updatedAt = Math.floor(event.at);
      const createdAt = state.bySelector.get(selector)?.createdAt ?? updatedAt;
      state.bySelector.set(selector, { selector, pricing, createdAt, updatedAt, revision: Number(event.revision) });
    } else if (isA(event, priceOverrideRemoved)) {
      state.bySelector.delete(event.data.selector);
    }
    return state;
  },
  save: ({ bySelector }) => [...bySelector.values()],
  load(saved) {
    const overrides = z.array(override).parse(saved);
    return { version: 0, bySelector: new Map(overrides.map((one) => [one.selector, one])) };
  },
};
