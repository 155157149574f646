/** Counts how much of one budget is used up. Times are milliseconds since the epoch. */
import { type BudgetPeriod, type PeriodAnchors, periodAt } from './budget-period.ts';
import { type BudgetRule, budgetKey } from './budgets.ts';

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
