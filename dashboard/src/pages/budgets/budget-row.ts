import type { Answer } from '../../api/client.ts';

export type BudgetRow = Answer<'/admin/budgets'>['budgets'][number];
export type LimitRow = Answer<'/admin/rate-limits'>['rate_limits'][number];
export type BudgetSettings = Answer<'/admin/budgets/settings'>;

export type BudgetAction =
  | { readonly do: 'create' | 'reset-all' }
  | { readonly do: 'edit' | 'remove' | 'reset'; readonly row: BudgetRow };
