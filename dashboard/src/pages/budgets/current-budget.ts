import { ApiError, getAnswer } from '../../api/client.ts';
import type { Basis } from '../../ui/changed-meanwhile.tsx';
import type { CurrentVersion } from '../../ui/conflict-view.tsx';
import type { BudgetRow } from './budget-row.ts';
import { findRule, isOfSubject, type RuleName } from './rule-name.ts';

/** What an action on a budget is based on. */
export function budgetBasis({ scope, subject, period_seconds, amount, revision }: BudgetRow): Basis {
  const name = { scope, subject, period_seconds };
  return { revision, shown: { ...name, amount }, readCurrent: () => readBudget(name) };
}

/** The budget in force, and the revision of the budgets of its subject. */
export async function readBudget(name: RuleName): Promise<CurrentVersion> {
  try {
    const { revision, amount } = await getAnswer(
      {
        of: '/admin/budgets/{user_path}/{period}',
        at: `/admin/budgets/${encodeURIComponent(name.subject)}/${name.period_seconds}`,
      },
      { query: { scope: name.scope } },
    );
    return { revision, version: { ...name, amount } };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
  }
  // Another budget of the subject was changed, or this one was removed.
  const { budgets } = await getAnswer('/admin/budgets');
  const same = budgets.find((budget) => isOfSubject(budget, name));
  return { revision: same?.revision, version: findRule(budgets, name) ?? null };
}
