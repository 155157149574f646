/** When the periods of budgets begin and end. Pure; times are milliseconds since the epoch, and everything is UTC. */
import type { z } from 'zod';
import type { budgetSettingsChanged } from '../events/catalogue/budget.ts';

export interface BudgetPeriod {
  readonly start: number;
  /** The first moment after the period. */
  readonly end: number;
}

/** When days, weeks and months begin. */
export type PeriodAnchors = Readonly<z.infer<typeof budgetSettingsChanged.data>>;

/** Midnight, Monday, the first of the month. */
export const defaultAnchors: PeriodAnchors = {
  dailyResetHour: 0,
  dailyResetMinute: 0,
  weeklyResetWeekday: 1,
  weeklyResetHour: 0,
  weeklyResetMinute: 0,
  monthlyResetDay: 1,
  monthlyResetHour: 0,
  monthlyResetMinute: 0,
};

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const WEEK = 7 * DAY;
/** The epoch was a Thursday: the Sunday after it is this much later. */
const FIRST_SUNDAY = 3 * DAY;

/** Periods of budgets by their number of seconds; these four are calendar periods, of varying length. */
export const HOURLY = 3_600;
export const DAILY = 86_400;
export const WEEKLY = 604_800;
export const MONTHLY = 2_592_000;

/** The period that contains `at`. Periods of any other number of seconds count from the epoch. */
export function periodAt(periodSeconds: number, anchors: PeriodAnchors, at: number): BudgetPeriod {
  switch (periodSeconds) {
    case DAILY:
      return repeating(DAY, anchors.dailyResetHour * HOUR + anchors.dailyResetMinute * MINUTE, at);
    case WEEKLY: {
      const { weeklyResetWeekday, weeklyResetHour, weeklyResetMinute } = anchors;
      const offset = FIRST_SUNDAY + weeklyResetWeekday * DAY + weeklyResetHour * HOUR + weeklyResetMinute * MINUTE;
      return repeating(WEEK, offset, at);
    }
    case MONTHLY:
      return month(anchors, at);
    default:
      return repeating(periodSeconds * 1000, 0, at);
  }
}

function repeating(length: number, offset: number, at: number): BudgetPeriod {
  const start = Math.floor((at - offset) / length) * length + offset;
  return { start, end: start + length };
}

function month(anchors: PeriodAnchors, at: number): BudgetPeriod {
  const date = new Date(at);
  const year = date.getUTCFullYear();
  const index = date.getUTCMonth();
  const anchor = monthAnchor(anchors, year, index);
  return at < anchor
    ? { start: monthAnchor(anchors, year, index - 1), end: anchor }
    : { start: anchor, end: monthAnchor(anchors, year, index + 1) };
}

/** @param index may be below or above the months of the year */
function monthAnchor(anchors: PeriodAnchors, year: number, index: number): number {
  const { monthlyResetDay, monthlyResetHour, monthlyResetMinute } = anchors;
  const lastDay = new Date(Date.UTC(year, index + 1, 0)).getUTCDate();
  return Date.UTC(year, index, Math.min(monthlyResetDay, lastDay), monthlyResetHour, monthlyResetMinute);
}
