/** `/admin/budgets`: spending limits by user path or label. */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { budgetKind, MOST_USD, nanoOf, usdOf } from '../../../commands/limits/budget.ts';
import { refusals } from '../../../commands/refusal.ts';
import {
  type BudgetPeriod,
  type BudgetRule,
  type BudgetsState,
  budgetsView,
  periodAt,
} from '../../../projections/budgets.ts';
import type { LimitTimes } from '../../../projections/limits.ts';
import { queryOfParameters } from '../../api/parameters.ts';
import { jsonAnswer, pathParameters, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { timeText } from '../../dates.ts';
import { asOfParameter } from '../parameters.ts';
import { registerBudgetSettings } from './budget-settings.ts';
import { periodIn, periodParameter, ruleAnswer, scopeParameter, subjectIn, subjectOfPath } from './limit-subject.ts';
import { type LimitParts, type LimitView, limitRoutes } from './limits.ts';

const usd = z.number().describe('US dollars');
const unknown = 'null in a list of a past time';

const budgetAnswer = z.object({
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

/** What is used of a budget. Nano-dollars; milliseconds since the epoch. */
interface BudgetUse {
  /** In its current period. */
  readonly spent: (BudgetPeriod & { readonly spent: number; readonly hasUsage: boolean }) | undefined;
  /** For all budgets of its path or label. */
  readonly reserved: number;
}

export type BudgetView = LimitView<BudgetsState, BudgetUse>;

const scopes = ['user_path', 'label'] as const;
const amount = z
  .number({ error: 'it must be a number of US dollars' })
  .nullish()
  .describe(`Required: US dollars, more than 0 and at most ${MOST_USD}`);
type Amount = { readonly amount?: z.output<typeof amount> };

const { changes, register } = limitRoutes({
  kind: budgetKind,
  projection: budgetsView,
  path: '/budgets',
  one: '/:user_path/:period',
  name: 'Budget',
  list: 'budgets',
  period: 'budget_key',
  scopes,
  periods: '`hourly`, `daily`, `weekly`, `monthly`',
  row: budgetAnswer,
  input: { amount },
  example: { period: 'monthly', value: { amount: 50 } },
  text: {
    answer: 'The budgets in the scope of the caller',
    list: 'List budgets with their spending and reservations',
    save: 'Create a budget, or change its amount',
    saved: 'The current period continues, with its spending so far.',
    reset: 'Set the spending of one budget in its current period to 0',
    resetAll: 'Set the spending of all budgets in their current periods to 0',
    off: 'Budgets are switched off. They require BUDGETS_ENABLED=true and USAGE_ENABLED=true.',
  },
  hasStateAt: true,
  valueIn: amountIn,
  valueMembers: ({ amount, source, lastResetAt }) => ({
    amount: usdOf(amount),
    source,
    last_reset_at: lastResetAt === undefined ? undefined : timeText(lastResetAt),
  }),
  usedMembers(rule: BudgetRule & LimitTimes, used: BudgetUse | undefined, at, state: BudgetsState) {
    const { amount } = rule;
    const { spent, start, end } = { ...periodWithReset(rule, state, at), ...used?.spent };
    return {
      period_start: timeText(start),
      period_end: timeText(end),
      spent: spent === undefined ? null : usdOf(spent),
      has_usage: used?.spent?.hasUsage ?? null,
      reserved: used === undefined ? null : usdOf(used.reserved),
      remaining: spent === undefined ? null : usdOf(amount - spent),
      usage_ratio: spent === undefined ? null : Math.max(0, spent / amount),
      refusing: spent === undefined ? null : spent >= amount,
      period_ratio: share((at - start) / (end - start)),
    };
  },
});

function periodWithReset(
  { periodSeconds, lastResetAt }: BudgetRule & LimitTimes,
  { settings }: BudgetsState,
  at: number,
) {
  const { start, end } = periodAt(periodSeconds, settings, at);
  return { start: Math.max(start, lastResetAt ?? start), end };
}

function share(ratio: number): number {
  return Math.min(1, Math.max(0, ratio));
}

const params = pathParameters({ user_path: 'A user path or a label, percent-encoded', period: periodParameter });
const querystring = queryOfParameters({ scope: scopeParameter(scopes) });

const getBudget = scopedAdmin('getBudget', 'Get one budget with its spending and reservations', {
  etag: true,
  description: '`ETag` is the revision of the budgets of its subject.',
  params,
  querystring: queryOfParameters({ scope: scopeParameter(scopes), as_of: asOfParameter }),
  response: { 200: jsonAnswer('The budget', budgetAnswer) },
  errors: [404],
});

const saveBudgetOfPath = scopedAdmin(
  'saveBudgetOfPath',
  'Create the budget of a user path or label, or change its amount',
  {
    ...changes,
    params,
    querystring,
    body: z.strictObject({ amount }),
    example: { amount: 50 },
  },
);

const deleteBudgetOfPath = scopedAdmin('deleteBudgetOfPath', 'Delete the budget of a user path or label', {
  ...changes,
  params,
  querystring,
  errors: [404],
});

export function registerBudgets(admin: Routes, parts: LimitParts<BudgetsState, BudgetUse>): void {
  const { view, show, save, remove } = register(admin, parts);

  /** The budget in an address: with `?scope=label` the first segment is a label. */
  const named = (
    request: FastifyRequest,
    { user_path, period }: z.output<typeof params>,
    scope: string | undefined,
  ) => ({
    ...subjectIn(request, subjectOfPath(user_path, scope), scopes),
    periodSeconds: periodIn({ period }, budgetKind.periodOf),
  });

  admin.get('/budgets/:user_path/:period', getBudget, async (request, reply) => {
    const budget = named(request, request.params, request.query.scope);
    return show(budget, `${budget.subject} ${request.params.period}`, request.query.as_of, reply);
  });

  admin.put('/budgets/:user_path/:period', saveBudgetOfPath, async (request, reply) =>
    save(named(request, request.params, request.query.scope), request.body, request, reply),
  );

  admin.delete('/budgets/:user_path/:period', deleteBudgetOfPath, async (request) =>
    remove(named(request, request.params, request.query.scope), request),
  );

  registerBudgetSettings(admin, { log: parts.log, view, now: () => parts.now() });
}

/** @throws Refusal 400 */
function amountIn({ amount: usd }: Amount) {
  const nano = usd === null || usd === undefined ? undefined : nanoOf(usd);
  if (nano !== undefined) return { amount: String(nano) };
  throw refusals.invalidRequest(`'amount' must be US dollars, more than 0 and at most ${MOST_USD}.`, 'amount');
}
