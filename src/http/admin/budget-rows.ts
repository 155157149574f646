/** Budgets as rows of the API: amounts in US dollars, times in ISO 8601. */
import { z } from 'zod';
import { usdOf } from '../../commands/budgets/budget.ts';
import { budgetPeriodLabel } from '../../commands/period.ts';
import type { UserPath } from '../../events/event.ts';
import { type BudgetPeriod, periodAt } from '../../projections/budget-period.ts';
import { type BudgetRule, type BudgetsState, budgetKey, budgetRevision } from '../../projections/budgets.ts';
import type { RunningProjection } from '../../projections/runner.ts';
import { timeText } from '../dates.ts';
import { isSubjectWithin, ruleAnswer, ruleMembers } from './limit-subject.ts';

const usd = z.number().describe('US dollars');
const unknown = 'null in a list of a past time';

export const budgetAnswer = z.object({
  ...ruleAnswer,
  scope: z.enum(['user_path', 'label']),
  amount: usd,
  last_reset_at: z.string().optional(),
  period_start: z.string(),
  period_end: z.string(),
  spent: usd.nullable().describe(`US dollars; ${unknown}`),
  has_usage: z.boolean().nullable().describe(`Whether usage was counted in the period; ${unknown}`),
  reserved: usd
    .nullable()
    .describe(
      `US dollars reserved for requests under way, for all budgets of the subject, besides \`spent\`; ${unknown}`,
    ),
  remaining: usd.nullable().describe(`US dollars, negative when the budget is exceeded; ${unknown}`),
  usage_ratio: z.number().nullable().describe(`Spent part, above 1 when the budget is exceeded; ${unknown}`),
  refusing: z.boolean().nullable().describe(`Whether every request is refused now: nothing is left; ${unknown}`),
  period_ratio: z.number().describe('Elapsed part of the period, from 0 to 1'),
});

/** Spending in the current period of a budget. Nano-dollars; milliseconds since the epoch. */
export interface Spent extends BudgetPeriod {
  readonly spent: number;
  readonly hasUsage: boolean;
}

/** @returns undefined when the spending is unknown: at a past time */
export type ReadSpent = (key: string) => Spent | undefined;

/** Nano-dollars that are reserved for all budgets of a path or label. */
export type ReadReserved = (scope: BudgetRule['scope'], subject: string) => number | undefined;

/** The amounts of budgets that change with each request. */
export interface BudgetFigures {
  readonly spent: ReadSpent;
  readonly reserved: ReadReserved;
}

/** Of a past time, whose amounts are unknown. */
export const unknownFigures: BudgetFigures = { spent: () => undefined, reserved: () => undefined };

/** The budgets, their spending and their reservations. */
export interface BudgetBooks extends Pick<RunningProjection<unknown>, 'whenProcessed'>, BudgetFigures {
  readonly state: BudgetsState;
}

/**
 * The budgets that an administrator of the scope may see: by path, the longest period first; labels last.
 * @param state of `at`: now or any other time
 */
export function budgetRows(
  state: BudgetsState,
  {
    figures,
    at,
    scope,
  }: { readonly figures: BudgetFigures; readonly at: number; readonly scope: UserPath | undefined },
) {
  return [...state.rules.values()]
    .filter((rule) => isSubjectWithin(scope, rule))
    .sort(inOrder)
    .map((rule) => budgetRow(rule, state, figures, at));
}

/** The row of one budget; undefined when there is no such budget. */
export function oneBudget(
  { scope, subject, periodSeconds }: Pick<BudgetRule, 'scope' | 'subject' | 'periodSeconds'>,
  state: BudgetsState,
  figures: BudgetFigures,
  at: number,
) {
  const rule = state.rules.get(budgetKey(scope, subject, periodSeconds));
  return rule === undefined ? undefined : budgetRow(rule, state, figures, at);
}

function budgetRow(rule: BudgetRule, state: BudgetsState, figures: BudgetFigures, at: number) {
  const { scope, subject, periodSeconds, amount, source, lastResetAt, createdAt, updatedAt } = rule;
  const read = figures.spent(budgetKey(scope, subject, periodSeconds));
  const reserved = figures.reserved(scope, subject);
  const { start, end } = read ?? periodWithReset(rule, state, at);
  const spent = read?.spent;
  return {
    ...ruleMembers(rule, budgetPeriodLabel),
    amount: usdOf(amount),
    source,
    ...(lastResetAt === undefined ? {} : { last_reset_at: timeText(lastResetAt) }),
    created_at: timeText(createdAt),
    updated_at: timeText(updatedAt),
    revision: budgetRevision(state, scope, subject),
    period_start: timeText(start),
    period_end: timeText(end),
    spent: spent === undefined ? null : usdOf(spent),
    has_usage: read?.hasUsage ?? null,
    reserved: reserved === undefined ? null : usdOf(reserved),
    remaining: spent === undefined ? null : usdOf(amount - spent),
    usage_ratio: spent === undefined ? null : Math.max(0, spent / amount),
    refusing: spent === undefined ? null : spent >= amount,
    period_ratio: share((at - start) / (end - start)),
  };
}

function periodWithReset({ periodSeconds, lastResetAt }: BudgetRule, { settings }: BudgetsState, at: number) {
  const { start, end } = periodAt(periodSeconds, settings, at);
  return { start: Math.max(start, lastResetAt ?? start), end };
}

function inOrder(a: BudgetRule, b: BudgetRule): number {
  if (a.scope !== b.scope) return a.scope === 'user_path' ? -1 : 1;
  if (a.subject !== b.subject) return a.subject < b.subject ? -1 : 1;
  return b.periodSeconds - a.periodSeconds;
}

function share(ratio: number): number {
  return Math.min(1, Math.max(0, ratio));
}
