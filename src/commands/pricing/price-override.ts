/** Commands and events of a pricing override. Pure. */
import { priceOverrideRemoved, priceOverrideSet } from '../../events/catalogue/price.ts';
import { type EventContext, type NewEvent, type StreamName, streamName } from '../../events/event.ts';
import type { DecidedEvent, Decider } from '../handle-command.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { isSamePricing, type ModelPricing } from './model-pricing.ts';

/** Undefined when there is no override. */
export type PriceOverrideState = ModelPricing | undefined;

export type PriceOverrideCommand = { readonly selector: string; readonly context: EventContext } & (
  | { readonly kind: 'set'; readonly pricing: ModelPricing }
  | { readonly kind: 'remove' }
);

/** @param selector canonical */
export function priceStream(selector: string): StreamName {
  return streamName('price', selector);
}

export const priceOverrideDecider: Decider<PriceOverrideState, PriceOverrideCommand> = {
  initial: undefined,
  dependsOn: 'its stream',
  decide,
  evolve,
};

function decide(command: PriceOverrideCommand, state: PriceOverrideState): readonly NewEvent[] | Refusal {
  const { selector, context } = command;
  if (command.kind === 'set') {
    const { pricing } = command;
    return isSamePricing(state, pricing) ? [] : [priceOverrideSet.create({ selector, pricing }, context)];
  }
  if (state === undefined) return refusals.notFound('pricing override', selector);
  return [priceOverrideRemoved.create({ selector }, context)];
}

function evolve(state: PriceOverrideState, { type, data }: DecidedEvent): PriceOverrideState {
  if (type === priceOverrideSet.type) return priceOverrideSet.data.parse(data).pricing;
  return type === priceOverrideRemoved.type ? undefined : state;
}
