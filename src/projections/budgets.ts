/** The budgets, and when their periods begin. Their spending is kept in `spend.ts`. */
import { z } from 'zod';
import { budgetRemoved, budgetReset, budgetSet, budgetSettingsChanged } from '../events/catalogue/budget.ts';
import type { RecordedEvent } from '../events/event.ts';
import { isA, type Projection } from './projection.ts';

// Counts how much of one budget is used up. Times are milliseconds since the epoch.

/** Usage is recorded almost at once: usage that is older than this was recorded with a clock that was set back. */
const SET_BACK_MS = 5 * 60_000;

/** The spending of a budget in its present period. */
export interface Meter {
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

export function meterOf({ scope, subject, periodSeconds, amount }: BudgetRule): Meter {
  const key = budgetKey(scope, subject, periodSeconds);
  return { key, scope, subject, periodSeconds, amount, start: 0, end: 0, spent: 0, hasUsage: false };
}

/**
 * The state of a meter at a time: when its period has ended, the spending of the next period is 0. When the clock was
 * set back, the spending is kept, and the period is the one of the present time; it is kept, too, when the clock then comes
 * to the period that it has left.
 */
export function readMeter(
  meter: Meter,
  anchors: PeriodAnchors,
  at: number,
): BudgetPeriod & Pick<Meter, 'spent' | 'hasUsage' | 'left'> {
  const { spent, hasUsage, left } = meter;
  if (isSetBack(meter, at)) {
    const present = { start: meter.start, end: meter.end };
    const latest = left !== undefined && left.end > present.end ? left : present;
    return { ...periodAt(meter.periodSeconds, anchors, at), spent, hasUsage, left: latest };
  }
  if (at < meter.end) return meter;
  if (left !== undefined && at >= left.start && at < left.end) return { ...left, spent, hasUsage, left: undefined };
  return { ...periodAt(meter.periodSeconds, anchors, at), spent: 0, hasUsage: false, left: undefined };
}

/**
 * Adds usage to the meter.
 * @param used in nano-dollars, with its time; `isNow` for new usage, false for a correction
 */
export function countIn(
  meter: Meter,
  anchors: PeriodAnchors,
  { at, nano, isNow }: { readonly at: number; readonly nano: number; readonly isNow: boolean },
): void {
  if (at >= meter.end || (isNow && isSetBack(meter, at))) {
    const { start, end, spent, hasUsage, left } = readMeter(meter, anchors, at);
    Object.assign(meter, { start, end, spent, hasUsage, left });
  }
  // Usage before the period began, or before it was reset, is not counted.
  if (at < meter.start) return;
  meter.spent = Math.max(0, meter.spent + nano);
  meter.hasUsage = true;
}

function isSetBack({ start }: Meter, at: number): boolean {
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
