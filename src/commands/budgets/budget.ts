/** What may happen to the budgets of one subject: stream `budget-<path>`, or `budget-label:<label>`. */
import { budgetRemoved, budgetReset, budgetSet } from '../../events/catalogue/budget.ts';
import type { EventContext, NewEvent, StreamName } from '../../events/event.ts';
import { streamName } from '../../events/event.ts';
import type { Decider } from '../handle-command.ts';
import { budgetPeriodLabel } from '../period.ts';
import { refusals } from '../refusal.ts';

export interface BudgetSubject {
  readonly scope: 'user_path' | 'label';
  readonly subject: string;
}

/** The budgets of a subject, by the seconds of their period. */
export type SubjectBudgets = ReadonlyMap<number, { readonly amount: string; readonly source: 'manual' | 'config' }>;

/** A budget as the configuration declares it. */
export interface DeclaredBudget {
  readonly periodSeconds: number;
  /** Nano-dollars. */
  readonly amount: number;
}

export type BudgetCommand = { readonly of: BudgetSubject; readonly context: EventContext } & (
  | { readonly do: 'set'; readonly periodSeconds: number; readonly amount: number }
  | { readonly do: 'remove'; readonly periodSeconds: number }
  | { readonly do: 'reset'; readonly periodSeconds: number }
  /** All that the configuration declares for the subject: nothing else is declared any more. */
  | { readonly do: 'declare'; readonly budgets: readonly DeclaredBudget[] }
);

export function budgetStream({ scope, subject }: BudgetSubject): StreamName {
  return streamName('budget', scope === 'label' ? `label:${subject}` : subject);
}

export const budgetDecider: Decider<SubjectBudgets, BudgetCommand> = {
  initial: new Map(),
  decide(command, state) {
    const { of, context } = command;
    if (command.do === 'declare') return declare(of, command.budgets, state, context);
    const { periodSeconds } = command;
    const existing = state.get(periodSeconds);
    const name = `${of.subject} ${budgetPeriodLabel(periodSeconds)}`;
    if (command.do === 'reset') {
      if (existing === undefined) return refusals.notFound('budget', name, 'budget_not_found');
      return [budgetReset.create({ ...of, periodSeconds }, context)];
    }
    if (existing?.source === 'config') return refusals.budgetManaged(name);
    if (command.do === 'remove') {
      if (existing === undefined) return refusals.notFound('budget', name, 'budget_not_found');
      return [budgetRemoved.create({ ...of, periodSeconds }, context)];
    }
    const amount = String(command.amount);
    if (existing?.amount === amount) return [];
    return [budgetSet.create({ ...of, periodSeconds, amount, source: 'manual' }, context)];
  },
  evolve(state, event) {
    const next = new Map(state);
    if (event.type === budgetSet.type) {
      const { periodSeconds, amount, source } = budgetSet.data.parse(event.data);
      next.set(periodSeconds, { amount, source });
    } else if (event.type === budgetRemoved.type) {
      next.delete(budgetRemoved.data.parse(event.data).periodSeconds);
    }
    return next;
  },
};

function declare(
  of: BudgetSubject,
  declared: readonly DeclaredBudget[],
  state: SubjectBudgets,
  context: EventContext,
): NewEvent[] {
  const wanted = new Map(declared.map(({ periodSeconds, amount }) => [periodSeconds, String(amount)]));
  const gone = [...state].filter(([seconds, { source }]) => source === 'config' && !wanted.has(seconds));
  const changed = [...wanted].filter(([seconds, amount]) => {
    const existing = state.get(seconds);
    return existing?.source !== 'config' || existing.amount !== amount;
  });
  return [
    ...gone.map(([periodSeconds]) => budgetRemoved.create({ ...of, periodSeconds }, context)),
    ...changed.map(([periodSeconds, amount]) =>
      budgetSet.create({ ...of, periodSeconds, amount, source: 'config' }, context),
    ),
  ];
}
