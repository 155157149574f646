/** One budget over all requests, with the fold of the product. */

import { LRUCache } from 'lru-cache';
import { unknownUsage } from '../../../src/commands/model-request/usage.ts';
import { budgetSet } from '../../../src/events/catalogue/budget.ts';
import { costReserved, usageRecorded } from '../../../src/events/catalogue/exchange.ts';
import type { EventContext, NewEvent, RecordedEvent, StreamName, UserPath } from '../../../src/events/event.ts';
import { CompiledFilter, type StreamWrite } from '../../../src/events/log.ts';
import { reservedBy, type SharedSpendState, sharedSpendView } from '../../../src/projections/budget-reservations.ts';
import { budgetsView } from '../../../src/projections/budgets.ts';

/** Nano-dollars. */
export const BUDGET = 70;
const context: EventContext = { actor: 'system', userPath: '/team' as UserPath };
const filter = new CompiledFilter(sharedSpendView.filter);

/** The budget is in the log before any gateway is. */
export const budget: StreamWrite = {
  stream: 'budget-/' as StreamName,
  events: [
    budgetSet.create(
      { scope: 'user_path', subject: '/', periodSeconds: 2_592_000, amount: String(BUDGET), source: 'manual' },
      context,
    ),
  ],
  expectedRevision: 'noStream',
};

export function reservation(amount: number): NewEvent {
  return costReserved.create({ amount: String(amount), bounded: true }, context);
}

const spent = {
  ...{ provider: 'p', providerType: 'llamacpp', model: 'm', endpoint: '/v1/chat/completions' },
  ...unknownUsage,
};

export function usage(cost: number): NewEvent {
  return usageRecorded.create({ ...spent, inputCost: null, outputCost: null, totalCost: String(cost) }, context);
}

/** As `sharedSpendView.initial()`, with a small cache: making the large one takes longer than a history. */
function nothingSpent(): SharedSpendState {
  const { spend, ...none } = initial;
  return {
    ...{ ...none, open: new Map(), reserved: new Map() },
    spend: {
      ...{ ...spend, budgets: budgetsView.initial(), paths: new Map(), labels: new Map(), counters: new Map() },
      ...{ bySubject: new Map(), chains: new LRUCache({ max: 4 }) },
    },
  };
}

const initial = sharedSpendView.initial();

/** How a test changes the rule. */
export type BudgetMutation = 'ends of leases release' | 'every amount fits' | undefined;

export class BudgetFold {
  readonly #mutation: BudgetMutation;
  #state = nothingSpent();

  constructor(mutation: BudgetMutation) {
    this.#mutation = mutation;
  }

  apply(event: RecordedEvent): void {
    if (filter.accepts(event.type, event.stream)) this.#state = sharedSpendView.apply(this.#state, event);
    if (event.type !== 'lease.ended' || this.#mutation !== 'ends of leases release') return;
    this.#state.open.clear();
    this.#state.reserved.clear();
  }

  /** Whether the reservation of the exchange fitted at its place, once that was read. */
  fits(stream: StreamName): boolean {
    return reservedBy(this.#state, stream) > 0 || this.#mutation === 'every amount fits';
  }
}
