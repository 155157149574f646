/** Budgets as rows of the API: amounts in US dollars, times in ISO 8601. */
import { z } from 'zod';
import {
  type BudgetAnchors,
  budgetSettingsDecider,
  budgetSettingsStream,
  usdOf,
} from '../../../commands/budgets/budget.ts';
import { executeCommand } from '../../../commands/handle-command.ts';
import { budgetPeriodLabel } from '../../../commands/period.ts';
import type { UserPath } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import {
  type BudgetPeriod,
  type BudgetRule,
  type BudgetsState,
  budgetKey,
  budgetRevision,
  DAILY,
  defaultAnchors,
  MONTHLY,
  periodAt,
  settingsRevision,
  WEEKLY,
} from '../../../projections/budgets.ts';
import type { RunningProjection } from '../../../projections/runner.ts';
import { globalAdmin, jsonAnswer, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { timeText } from '../../dates.ts';
import { eventContextOf } from '../../server.ts';
import { ifMatch, sendETag } from '../conditional.ts';
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
interface Spent extends BudgetPeriod {
  readonly spent: number;
  readonly hasUsage: boolean;
}

/** @returns undefined when the spending is unknown: at a past time */
type ReadSpent = (key: string) => Spent | undefined;

/** Nano-dollars that are reserved for all budgets of a path or label. */
type ReadReserved = (scope: BudgetRule['scope'], subject: string) => number | undefined;

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

/** `/admin/budgets/settings`: when days, weeks and months of budgets begin, in UTC. */
const whole = (minimum: number, maximum: number) =>
  z
    .number()
    .refine((value) => Number.isInteger(value) && value >= minimum && value <= maximum, {
      error: `it must be a whole number from ${minimum} to ${maximum}`,
    })
    .meta({ type: 'integer', minimum, maximum });

const members = {
  daily_reset_hour: whole(0, 23),
  daily_reset_minute: whole(0, 59),
  weekly_reset_weekday: whole(0, 6).describe('0 is Sunday'),
  weekly_reset_hour: whole(0, 23),
  weekly_reset_minute: whole(0, 59),
  monthly_reset_day: whole(1, 31).describe('A day after the end of the month is its last day'),
  monthly_reset_hour: whole(0, 23),
  monthly_reset_minute: whole(0, 59),
};
const newSettings = z.strictObject(members).partial();
const period = z.object({ start: z.string(), end: z.string() });
const settingsAnswer = z.object({
  ...members,
  updated_at: z.string().nullable(),
  revision: z.string().describe('For `If-Match`; `none` until they are changed for the first time'),
  current_periods: z.object({ daily: period, weekly: period, monthly: period }),
});
const response = { 200: jsonAnswer('The settings, and the periods that they give now', settingsAnswer) };

const getSettings = scopedAdmin(
  'getBudgetSettings',
  'Get the times, in UTC, at which days, weeks and months of budgets begin',
  { etag: true, response },
);

const saveSettings = globalAdmin(
  'saveBudgetSettings',
  'Change the times at which days, weeks and months of budgets begin',
  {
    ifMatch: '/budgets/settings',
    description: 'Absent members keep their values.',
    body: newSettings,
    example: { daily_reset_hour: 6 },
    response,
  },
);

const settingsDecider = budgetSettingsDecider(defaultAnchors);

interface BudgetSettingsOptions {
  readonly log: EventLog;
  /** @throws Refusal 503 while budgets are off */
  books(): BudgetBooks;
  /** Milliseconds since the epoch. */
  now(): number;
}

export function registerBudgetSettings(admin: Routes, { log, books, now }: BudgetSettingsOptions): void {
  admin.get('/budgets/settings', getSettings, (_request, reply) => {
    const { state } = books();
    sendETag(reply, settingsRevision(state) ?? 'noStream');
    return settingsView(state, now());
  });

  admin.put('/budgets/settings', saveSettings, async (request, reply) => {
    const { whenProcessed } = books();
    const { position, revision } = await executeCommand(
      settingsDecider,
      { changes: anchorsIn(request.body), context: eventContextOf(request) },
      { log, stream: budgetSettingsStream, ifRevision: ifMatch(request) },
    );
    if (position !== undefined) await whenProcessed(position);
    sendETag(reply, revision);
    return settingsView(books().state, now());
  });
}

function anchorsIn(input: z.output<typeof newSettings>): { [Name in keyof BudgetAnchors]: number | undefined } {
  return {
    dailyResetHour: input.daily_reset_hour,
    dailyResetMinute: input.daily_reset_minute,
    weeklyResetWeekday: input.weekly_reset_weekday,
    weeklyResetHour: input.weekly_reset_hour,
    weeklyResetMinute: input.weekly_reset_minute,
    monthlyResetDay: input.monthly_reset_day,
    monthlyResetHour: input.monthly_reset_hour,
    monthlyResetMinute: input.monthly_reset_minute,
  };
}

function settingsView(state: BudgetsState, at: number) {
  const { settings } = state;
  const current = (periodSeconds: number) => {
    const { start, end } = periodAt(periodSeconds, settings, at);
    return { start: timeText(start), end: timeText(end) };
  };
  return {
    daily_reset_hour: settings.dailyResetHour,
    daily_reset_minute: settings.dailyResetMinute,
    weekly_reset_weekday: settings.weeklyResetWeekday,
    weekly_reset_hour: settings.weeklyResetHour,
    weekly_reset_minute: settings.weeklyResetMinute,
    monthly_reset_day: settings.monthlyResetDay,
    monthly_reset_hour: settings.monthlyResetHour,
    monthly_reset_minute: settings.monthlyResetMinute,
    updated_at: settings.updatedAt === undefined ? null : timeText(settings.updatedAt),
    revision: settingsRevision(state) ?? 'none',
    current_periods: { daily: current(DAILY), weekly: current(WEEKLY), monthly: current(MONTHLY) },
  };
}
