/**
 * Commands and events of the budgets of one subject (stream `budget-<path>` or `budget-label:<label>`) and of their
 * settings.
 */

import type { z } from 'zod';
import { budgetRemoved, budgetReset, budgetSet, budgetSettingsChanged } from '../../events/catalogue/budget.ts';
import { type EventContext, type NewEvent, type StreamName, streamName } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { type Authority, bindingValue, type ValuesByAdministrator, withValue } from '../access/authority.ts';
import { type Decider, resetLimits } from '../handle-command.ts';
import { budgetPeriodLabel } from '../period.ts';
import { refusals } from '../refusal.ts';

/** Conversion between US dollars, as users write them, and nano-dollars, the unit of stored amounts. Pure. */
const NANO = 1e9;
/** Far above every budget, and still exact to 15 digits. */
export const MOST_USD = 1e12;

/**
 * @returns undefined for an invalid amount: not finite, not positive, less than a nano-dollar, or more than a
 * trillion
 */
export function nanoOf(usd: number): number | undefined {
  const nano = Math.round(usd * NANO);
  return nano > 0 && usd <= MOST_USD ? nano : undefined;
}

export function usdOf(nano: number): number {
  return nano / NANO;
}

export interface BudgetSubject {
  readonly scope: 'user_path' | 'label';
  readonly subject: string;
}

/** The budget of a subject for one period. */
interface PeriodBudget {
  /** Undefined when there is none. */
  readonly current: { readonly amount: string; readonly source: 'manual' | 'config' } | undefined;
  /** The amounts that administrators set. */
  readonly words: ValuesByAdministrator<string>;
}

/** The budgets of a subject by the seconds of their period, including removed ones. */
type SubjectBudgets = ReadonlyMap<number, PeriodBudget>;

/** A budget as the configuration declares it. */
interface DeclaredBudget {
  readonly periodSeconds: number;
  /** Nano-dollars. */
  readonly amount: number;
}

export type BudgetCommand = { readonly of: BudgetSubject; readonly context: EventContext } & (
  | { readonly do: 'set'; readonly periodSeconds: number; readonly amount: number; readonly authority: Authority }
  | { readonly do: 'remove'; readonly periodSeconds: number; readonly authority: Authority }
  | { readonly do: 'reset'; readonly periodSeconds: number; readonly authority: Authority }
  /** All budgets that the configuration declares for the subject; those declared before are removed. */
  | { readonly do: 'declare'; readonly budgets: readonly DeclaredBudget[] }
);

const none: PeriodBudget = { current: undefined, words: [] };

export function budgetStream({ scope, subject }: BudgetSubject): StreamName {
  return streamName('budget', scope === 'label' ? `label:${subject}` : subject);
}

/** Sets the spending of the running period of each budget to zero. */
export function resetAllBudgets(
  budgets: Iterable<BudgetSubject & { readonly periodSeconds: number }>,
  context: EventContext,
  log: EventLog,
) {
  return resetLimits(budgets, budgetStream, (budget) => budgetReset.create(budget, context), log);
}

export const budgetDecider: Decider<SubjectBudgets, BudgetCommand> = {
  initial: new Map(),
  dependsOn: 'its stream',
  decide(command, state) {
    const { of, context } = command;
    if (command.do === 'declare') return declare(of, command.budgets, state, context);
    const { periodSeconds, authority } = command;
    const { current: existing, words } = state.get(periodSeconds) ?? none;
    const name = `${of.subject} ${budgetPeriodLabel(periodSeconds)}`;
    const bound = bindingValue(words, authority);
    const tooLoose = () =>
      refusals.setByHigherAdministrator(`The budget ${name}`, `${usdOf(Number(bound))} US dollars`);
    if (command.do === 'reset') {
      if (existing === undefined) return refusals.notFound('budget', name, 'budget_not_found');
      if (bound !== undefined) return tooLoose();
      return [budgetReset.create({ ...of, periodSeconds }, context)];
    }
    if (existing?.source === 'config') return refusals.budgetManaged(name);
    if (command.do === 'remove') {
      if (existing === undefined) return refusals.notFound('budget', name, 'budget_not_found');
      if (bound !== undefined) return tooLoose();
      return [budgetRemoved.create({ ...of, periodSeconds }, context)];
    }
    const amount = String(command.amount);
    if (existing?.amount === amount) return [];
    if (bound !== undefined && command.amount > Number(bound)) return tooLoose();
    return [budgetSet.create({ ...of, periodSeconds, amount, source: 'manual' }, context)];
  },
  evolve(state, event) {
    const next = new Map(state);
    const wordsOf = (periodSeconds: number, amount: string | undefined) =>
      withValue(state.get(periodSeconds)?.words, event.context.actor, amount);
    if (event.type === budgetSet.type) {
      const { periodSeconds, amount, source } = budgetSet.data.parse(event.data);
      next.set(periodSeconds, { current: { amount, source }, words: wordsOf(periodSeconds, amount) });
    } else if (event.type === budgetRemoved.type) {
      const { periodSeconds } = budgetRemoved.data.parse(event.data);
      next.set(periodSeconds, { current: undefined, words: wordsOf(periodSeconds, undefined) });
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
  const declaredLimits = new Map(declared.map(({ periodSeconds, amount }) => [periodSeconds, String(amount)]));
  const gone = [...state].filter(
    ([seconds, { current }]) => current?.source === 'config' && !declaredLimits.has(seconds),
  );
  const changed = [...declaredLimits].filter(([seconds, amount]) => {
    const existing = state.get(seconds)?.current;
    return existing?.source !== 'config' || existing.amount !== amount;
  });
  return [
    ...gone.map(([periodSeconds]) => budgetRemoved.create({ ...of, periodSeconds }, context)),
    ...changed.map(([periodSeconds, amount]) =>
      budgetSet.create({ ...of, periodSeconds, amount, source: 'config' }, context),
    ),
  ];
}

// Commands and events of the settings of all budgets: stream `settings-budgets`.

/** When days, weeks and months begin, UTC. */
export type BudgetAnchors = z.infer<typeof budgetSettingsChanged.data>;

interface ChangeBudgetSettings {
  /** A setting that is left out keeps its value. */
  readonly changes: { readonly [Name in keyof BudgetAnchors]?: number | undefined };
  readonly context: EventContext;
}

export const budgetSettingsStream: StreamName = streamName('settings', 'budgets');

/** @param initial the settings before the first change */
export function budgetSettingsDecider(initial: BudgetAnchors): Decider<BudgetAnchors, ChangeBudgetSettings> {
  return {
    initial,
    dependsOn: 'its stream',
    decide({ changes, context }, state) {
      const next = { ...state };
      let changed = false;
      for (const name of budgetSettingsChanged.data.keyof().options) {
        const value = changes[name];
        if (value === undefined || value === next[name]) continue;
        next[name] = value;
        changed = true;
      }
      return changed ? [budgetSettingsChanged.create(next, context)] : [];
    },
    evolve: (state, event) =>
      event.type === budgetSettingsChanged.type ? budgetSettingsChanged.data.parse(event.data) : state,
  };
}
