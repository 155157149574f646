/** How much of one budget is used up: what a meter counts, and what it says. Times are milliseconds since the epoch. */
import { type BudgetPeriod, type PeriodAnchors, periodAt } from './budget-period.ts';
import { type BudgetRule, budgetKey } from './budgets.ts';

/** Usage is recorded within moments: what is earlier by more than this was recorded by a clock that was set back. */
const SET_BACK_MS = 5 * 60_000;

/** How much of a budget is used up in the period it is in. */
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
  /** Whether anything of a known price was used. */
  hasUsage: boolean;
}

export function meterOf({ scope, subject, periodSeconds, amount }: BudgetRule): Meter {
  const key = budgetKey(scope, subject, periodSeconds);
  return { key, scope, subject, periodSeconds, amount, start: 0, end: 0, spent: 0, hasUsage: false };
}

/**
 * What a meter says at a moment: one whose period is over has nothing spent in the next. When the clock was set back,
 * what is spent stays spent, and the period is the one that the clock is in now.
 */
export function readMeter(
  meter: Meter,
  anchors: PeriodAnchors,
  at: number,
): BudgetPeriod & Pick<Meter, 'spent' | 'hasUsage'> {
  if (isSetBack(meter, at)) return { ...meter, ...periodAt(meter.periodSeconds, anchors, at) };
  if (at < meter.end) return meter;
  return { ...periodAt(meter.periodSeconds, anchors, at), spent: 0, hasUsage: false };
}

/**
 * Counts what was used.
 * @param used in nano-dollars, and when; `isNow` of what was not known before: it is no correction
 */
export function countIn(
  meter: Meter,
  anchors: PeriodAnchors,
  { at, nano, isNow }: { readonly at: number; readonly nano: number; readonly isNow: boolean },
): void {
  if (isNow && isSetBack(meter, at)) Object.assign(meter, periodAt(meter.periodSeconds, anchors, at));
  if (at >= meter.end) {
    Object.assign(meter, periodAt(meter.periodSeconds, anchors, at), { spent: 0, hasUsage: false });
  }
  // What was used before the period began, or before it was reset, is forgiven.
  if (at < meter.start) return;
  meter.spent = Math.max(0, meter.spent + nano);
  meter.hasUsage = true;
}

function isSetBack({ start }: Meter, at: number): boolean {
  return at < start - SET_BACK_MS;
}
