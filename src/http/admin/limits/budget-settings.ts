/** `/admin/budgets/settings`: when days, weeks and months of budgets begin, in UTC. */

import { z } from 'zod';
import { type BudgetAnchors, budgetSettingsDecider, budgetSettingsStream } from '../../../commands/limits/budget.ts';
import type { EpochMs } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import {
  type BudgetsState,
  DAILY,
  defaultAnchors,
  MONTHLY,
  periodAt,
  SETTINGS,
  WEEKLY,
} from '../../../projections/budgets.ts';
import { globalAdmin, jsonAnswer, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { timeText } from '../../dates.ts';
import { eventContextOf } from '../../server.ts';
import { sendETag } from '../conditional.ts';
import { executeChange } from '../resource.ts';
import type { LimitView } from './limits.ts';

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
  view(): Pick<LimitView<BudgetsState, unknown>, 'state' | 'whenProcessed'>;
  now(): EpochMs;
}

export function registerBudgetSettings(admin: Routes, { log, view, now }: BudgetSettingsOptions): void {
  admin.get('/budgets/settings', getSettings, (_request, reply) => {
    const { state } = view();
    sendETag(reply, state.revisions.get(SETTINGS) ?? 'noStream');
    return settingsRow(state, now());
  });

  admin.put('/budgets/settings', saveSettings, async (request, reply) => {
    const { whenProcessed } = view();
    const command = { changes: anchorsIn(request.body), context: eventContextOf(request) };
    const options = { log, stream: budgetSettingsStream, whenProcessed };
    await executeChange(settingsDecider, command, options, { request, reply });
    return settingsRow(view().state, now());
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

function settingsRow(state: BudgetsState, at: number) {
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
    revision: state.revisions.get(SETTINGS) ?? 'none',
    current_periods: { daily: current(DAILY), weekly: current(WEEKLY), monthly: current(MONTHLY) },
  };
}
