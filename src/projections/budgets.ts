/** The budgets, and when their periods begin. Their spending is kept in `spend.ts`. */
import type { z } from 'zod';
import { budgetRemoved, budgetReset, budgetSet, budgetSettingsChanged } from '../events/catalogue/budget.ts';
import { type LimitRules, limitKey, limitsView } from './limits.ts';
import { isA, type Projection, savedAsItIs } from './projection.ts';

// Counts how much of one budget is used up. Times are milliseconds since the epoch.

/** Usage is recorded almost at once: usage that is older than this was recorded with a clock that was set back. */
const SET_BACK_MS = 5 * 60_000;

/** The spending of a budget in its present period. */
export interface BudgetCounter {
  readonly key: string;
  readonly scope: 'user_path' | 'label';
  readonly subject: string;
  readonly periodSeconds: number;
  /** Nano-dollars, like `spent`. */
  amount: number;
  start: number;
  end: number;
  /** Never negative. */
  spent: number;
  /** Whether there was usage with a known price. */
  hasUsage: boolean;
  /** The period that was left when the clock was set back: the spending continues in it when the clock is set forward again. */
  left?: BudgetPeriod | undefined;
}

export function newCounter(rule: BudgetRule): BudgetCounter {
  const { scope, subject, periodSeconds, amount } = rule;
  return { key: limitKey(rule), scope, subject, periodSeconds, amount, start: 0, end: 0, spent: 0, hasUsage: false };
}

/**
 * The state of a counter at a time: when its period has ended, the spending of the next period is 0. When the clock was
 * set back, the spending is kept, and the period is the one of the present time; it is kept, too, when the clock then comes
 * to the period that it has left.
 */
export function readCounter(
  counter: BudgetCounter,
  anchors: PeriodAnchors,
  at: number,
): BudgetPeriod & Pick<BudgetCounter, 'spent' | 'hasUsage' | 'left'> {
  const { spent, hasUsage, left } = counter;
  if (isSetBack(counter, at)) {
    const present = { start: counter.start, end: counter.end };
    const latest = left !== undefined && left.end > present.end ? left : present;
    return { ...periodAt(counter.periodSeconds, anchors, at), spent, hasUsage, left: latest };
  }
  if (at < counter.end) return counter;
  if (left !== undefined && at >= left.start && at < left.end) return { ...left, spent, hasUsage, left: undefined };
  return { ...periodAt(counter.periodSeconds, anchors, at), spent: 0, hasUsage: false, left: undefined };
}

/**
 * Adds usage to the counter.
 * @param used in nano-dollars, with its time; `isNow` for new usage, false for a correction
 */
export function countIn(
  counter: BudgetCounter,
  anchors: PeriodAnchors,
  { at, nano, isNow }: { readonly at: number; readonly nano: number; readonly isNow: boolean },
): void {
  if (at >= counter.end || (isNow && isSetBack(counter, at))) {
    const { start, end, spent, hasUsage, left } = readCounter(counter, anchors, at);
    Object.assign(counter, { start, end, spent, hasUsage, left });
  }
  // Usage before the period began, or before it was reset, is not counted.
  if (at < counter.start) return;
  counter.spent = Math.max(0, counter.spent + nano);
  counter.hasUsage = true;
}

function isSetBack({ start }: BudgetCounter, at: number): boolean {
  return at < start - SET_BACK_MS;
}

/** When the periods of budgets begin and end. Pure; times are milliseconds since the epoch, and everything is UTC. */
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

/** The amount in nano-dollars; exact up to nine million dollars, and to 15 digits beyond. */
export type BudgetRule = Omit<z.infer<typeof budgetSet.data>, 'amount'> & { readonly amount: number };
export type BudgetScope = BudgetRule['scope'];

export interface BudgetSettings extends PeriodAnchors {
  /** Undefined until they are changed for the first time. */
  readonly updatedAt?: number | undefined;
}

/** The revision of the settings is among those of the subjects. */
export interface BudgetsState extends LimitRules<BudgetRule> {
  settings: BudgetSettings;
}

export const SETTINGS = 'settings';

const rules = limitsView(
  'budgets',
  { set: budgetSet, removed: budgetRemoved, reset: budgetReset },
  ({ amount, ...rule }): BudgetRule => ({ ...rule, amount: Number(amount) }),
);

export const budgetsView: Projection<BudgetsState> = {
  ...rules,
  filter: { types: [...(rules.filter.types ?? []), budgetSettingsChanged.type] },
  initial: () => ({ ...rules.initial(), settings: defaultAnchors }),
  apply(state, event) {
    if (isA(event, budgetSettingsChanged)) {
      state.settings = { ...event.data, updatedAt: event.at };
      state.revisions.set(SETTINGS, String(event.revision));
    } else rules.apply(state, event);
    return state;
  },
  ...savedAsItIs<BudgetsState>(),
};
