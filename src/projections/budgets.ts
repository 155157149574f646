/** The budgets, and when their periods begin. Their spending is kept in `spend.ts`. */
import { z } from 'zod';
import { budgetRemoved, budgetReset, budgetSet, budgetSettingsChanged } from '../events/catalogue/budget.ts';
import type { RecordedEvent } from '../events/event.ts';
import { defaultAnchors, type PeriodAnchors } from './budget-period.ts';
import { isA } from './known-event.ts';
import type { Projection } from './projection.ts';

const savedRule = z.object({
  scope: z.enum(['user_path', 'label']),
  subject: z.string(),
  periodSeconds: z.number(),
  /** Nano-dollars; exact up to nine million dollars, and to 15 digits beyond. */
  amount: z.number(),
  source: z.enum(['manual', 'config']),
  /** Milliseconds since the epoch, like all times here. */
  createdAt: z.number(),
  updatedAt: z.number(),
  lastResetAt: z.number().optional(),
});

export type BudgetRule = Readonly<z.infer<typeof savedRule>>;
export type BudgetScope = BudgetRule['scope'];

export interface BudgetSettings extends PeriodAnchors {
  /** Undefined until they are changed for the first time. */
  readonly updatedAt?: number | undefined;
}

export interface BudgetsState {
  readonly rules: Map<string, BudgetRule>;
  settings: BudgetSettings;
  /** The newest revision of each stream that these came from, by its subject; `settings` for the settings. */
  readonly revisions: Map<string, string>;
}

/** The key of a budget: `user_path:/team 86400`. */
export function budgetKey(scope: BudgetScope, subject: string, periodSeconds: number): string {
  return `${subjectKey(scope, subject)} ${periodSeconds}`;
}

/** The key of a subject: all budgets of one subject are charged together. */
export function subjectKey(scope: BudgetScope, subject: string): string {
  return `${scope}:${subject}`;
}

const SETTINGS = 'settings';

const savedBudgets = z.object({
  rules: z.array(savedRule),
  settings: budgetSettingsChanged.data.extend({ updatedAt: z.number().optional() }),
  revisions: z.array(z.tuple([z.string(), z.string()])),
});

export const budgetsView: Projection<BudgetsState> = {
  name: 'budgets',
  version: 1,
  filter: { types: ['budget.', 'budget_settings.'] },
  initial: () => ({ rules: new Map(), settings: defaultAnchors, revisions: new Map() }),
  apply(state, event) {
    if (isA(event, budgetSettingsChanged)) {
      state.settings = { ...event.data, updatedAt: event.at };
      state.revisions.set(SETTINGS, String(event.revision));
    } else if (isA(event, budgetSet) || isA(event, budgetRemoved) || isA(event, budgetReset)) {
      const { scope, subject, periodSeconds } = event.data;
      const key = budgetKey(scope, subject, periodSeconds);
      const next = changed(state.rules.get(key), event);
      if (next === undefined) state.rules.delete(key);
      else state.rules.set(key, next);
      state.revisions.set(subjectKey(scope, subject), String(event.revision));
    }
    return state;
  },
  save: ({ rules, settings, revisions }) => ({ rules: [...rules.values()], settings, revisions: [...revisions] }),
  load(saved) {
    const { rules, settings, revisions } = savedBudgets.parse(saved);
    return {
      rules: new Map(rules.map((rule) => [budgetKey(rule.scope, rule.subject, rule.periodSeconds), rule])),
      settings,
      revisions: new Map(revisions),
    };
  },
};

/** The newest revision of the stream that holds the budgets of a subject; undefined when there never was one. */
export function budgetRevision(state: BudgetsState, scope: BudgetScope, subject: string): string | undefined {
  return state.revisions.get(subjectKey(scope, subject));
}

export function settingsRevision(state: BudgetsState): string | undefined {
  return state.revisions.get(SETTINGS);
}

function changed(rule: BudgetRule | undefined, event: RecordedEvent): BudgetRule | undefined {
  if (isA(event, budgetSet)) {
    const { scope, subject, periodSeconds, source, amount } = event.data;
    const { createdAt = event.at, lastResetAt } = rule ?? {};
    const times = { createdAt, updatedAt: event.at, lastResetAt };
    return { scope, subject, periodSeconds, amount: Number(amount), source, ...times };
  }
  if (rule === undefined || isA(event, budgetRemoved)) return undefined;
  return { ...rule, lastResetAt: event.at };
}
