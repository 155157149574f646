/** Budgets: limits in US dollars, on streams `budget-<path>` and `budget-label:<label>`; and their settings. */

import type { z } from 'zod';
import { budgetRemoved, budgetReset, budgetSet, budgetSettingsChanged } from '../../events/catalogue/budget.ts';
import { type EventContext, type StreamName, streamName } from '../../events/event.ts';
import type { BudgetScope } from '../../projections/budgets.ts';
import type { Decider } from '../handle-command.ts';
import { refusals } from '../refusal.ts';
import { type LimitCommand, type LimitKind, limitDecider } from './limit.ts';
import { budgetPeriod, budgetPeriodLabel } from './period.ts';

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

/** Nano-dollars as decimal text. */
type BudgetValue = { readonly amount: string };

export const budgetKind: LimitKind<BudgetScope, BudgetValue> = {
  set: budgetSet,
  removed: budgetRemoved,
  reset: budgetReset,
  noun: 'budget',
  notFound: 'budget_not_found',
  streamOf: ({ scope, subject }) => streamName('budget', scope === 'label' ? `label:${subject}` : subject),
  periodOf: budgetPeriod,
  periodLabel: budgetPeriodLabel,
  isWithin: (bound, { amount }) => Number(amount) <= Number(bound.amount),
  textOf: ({ amount }) => `${usdOf(Number(amount))} US dollars`,
  managed: refusals.budgetManaged,
};

export type BudgetCommand = LimitCommand<BudgetScope, BudgetValue>;
export const budgetDecider = limitDecider(budgetKind);

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
