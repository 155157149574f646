/** The budget family: spending limits, on stream `budget-<path>` or `budget-label:<label>`, and when periods begin. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

/** Identifies a budget: one subject may have one budget for each period. */
const budget = {
  scope: z.enum(['user_path', 'label']),
  subject: z.string().describe('the user path, for it and all below it; or the label'),
  periodSeconds: z
    .number()
    .int()
    .describe(
      '3600, 86400, 604800 and 2592000 are the calendar hour, day, week and month; others count from the epoch',
    ),
};

export const budgetSet = defineEvent({
  type: 'budget.set',
  when: 'A budget was created or its amount was changed. The running period continues.',
  data: z.object({
    ...budget,
    amount: z.string().describe('nano-dollars for each period'),
    source: z.enum(['manual', 'config']).describe('`config`: declared in the configuration, which alone may change it'),
  }),
});

export const budgetRemoved = defineEvent({
  type: 'budget.removed',
  when: 'A budget was removed, or is no longer declared in the configuration.',
  data: z.object(budget),
});

export const budgetReset = defineEvent({
  type: 'budget.reset',
  when: 'The spending of the running period was set to zero. The period still ends at its regular time.',
  data: z.object(budget),
});

export const budgetSettingsChanged = defineEvent({
  type: 'budget_settings.changed',
  when: 'The times at which days, weeks and months of budgets begin were changed. On stream `settings-budgets`.',
  data: z.object({
    dailyResetHour: z.number().int().describe('UTC, as are the other times'),
    dailyResetMinute: z.number().int(),
    weeklyResetWeekday: z.number().int().describe('0 is Sunday'),
    weeklyResetHour: z.number().int(),
    weeklyResetMinute: z.number().int(),
    monthlyResetDay: z.number().int().describe('in shorter months the last day'),
    monthlyResetHour: z.number().int(),
    monthlyResetMinute: z.number().int(),
  }),
});
