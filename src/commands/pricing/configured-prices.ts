/** The prices that a provider's configuration declares: `models[].metadata.pricing`. */
import { z } from 'zod';
import type { ConfiguredModel } from '../../providers/provider-config.ts';
import { type ModelPricing, pricingSchema } from './model-pricing.ts';

interface ConfiguredProvider {
  readonly name: string;
  readonly models: readonly ConfiguredModel[];
}

/**
 * Prices by provider, then by model.
 * @throws Error naming the place of an invalid price: a wrong price would silently make budgets wrong
 */
export function configuredPrices(
  providers: readonly ConfiguredProvider[],
): ReadonlyMap<string, ReadonlyMap<string, ModelPricing>> {
  const found = new Map<string, Map<string, ModelPricing>>();
  for (const { name, models } of providers) {
    const ofProvider = new Map<string, ModelPricing>();
    for (const { id, metadata } of models) {
      if (metadata?.pricing === undefined) continue;
      ofProvider.set(id, parse(metadata.pricing, `providers.${name}.models: the pricing of '${id}'`));
    }
    if (ofProvider.size > 0) found.set(name, ofProvider);
  }
  return found;
}

const withCurrency = z.looseObject({ currency: z.literal('USD', { error: "expected 'USD'" }).optional() });

function parse(value: unknown, place: string): ModelPricing {
  const read = withCurrency
    .transform(({ currency: _, ...rates }) => rates)
    .pipe(pricingSchema)
    .safeParse(value);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const name = issue?.path.join('.');
  throw new Error(`${place} is not valid${name ? ` at '${name}'` : ''}: ${issue?.message}`);
}
