/**
 * What a request reserves of its budgets, and the limit of its answers that this covers; or that it waits, or is refused. The
 * same with one gateway and with several; they differ in what they know of the budgets, and in requests without a bound.
 */
import { usdOf } from '../budgets/budget.ts';
import type { AdmissionRequest } from '../model-request/admission.ts';
import { budgetPeriodLabel } from '../period.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { mayNameAmounts } from '../visibility.ts';
import type { SetLimit } from './cost-bound.ts';
import type { AnswerLimit, CostForecast } from './cost-forecast.ts';

/** A budget, and the amount spent in its current period. Nano-dollars; milliseconds since the epoch. */
export interface BudgetMeter {
  readonly scope: 'user_path' | 'label';
  readonly subject: string;
  readonly periodSeconds: number;
  readonly amount: number;
  readonly end: number;
  readonly spent: number;
}

/** A budget as one request sees it. */
export interface Room {
  readonly budget: BudgetMeter;
  /** Nano-dollars that others have reserved in it. */
  readonly reserved: number;
}

/** Whether the room has the cost of a request without a bound. */
export type FitsWithoutBound = (room: Room, forecast: CompleteForecast) => boolean;

export interface CompleteForecast extends CostForecast {
  readonly likely: number;
  readonly most: number;
}

const UNKNOWN_COST_DIVISOR = 10;

/** An unknown cost is expected to be a share of the smallest budget, which bounds the number of concurrent requests. */
export function completed(forecast: CostForecast, rooms: readonly Room[]): CompleteForecast {
  const share = Math.min(...rooms.map(({ budget }) => budget.amount)) / UNKNOWN_COST_DIVISOR;
  const likely = Math.ceil(forecast.likely ?? (rooms.length === 0 ? 0 : share));
  return { ...forecast, likely, most: Math.max(likely, Math.ceil(forecast.most ?? 0)) };
}

/** What a running or waiting request is likely to cost. Nano-dollars. */
export function likelyOf({ learned, likely = 0, least }: CostForecast): number {
  return learned ? likely : least;
}

/** @returns undefined when there is no room for it now */
export function shareOf(
  rooms: readonly Room[],
  forecast: CompleteForecast,
  fits: FitsWithoutBound,
): BoundedShare | undefined {
  const { bound, limit, most } = forecast;
  if (bound !== undefined) return boundedShare(rooms, { bound, limit });
  return rooms.every((room) => fits(room, forecast)) ? { amount: most, limit: undefined } : undefined;
}

/**
 * The refusal of a request for which there is no room. Of several budgets without room, it names the one whose period ends
 * last, which determines when a retry can succeed. None is without room for a request that others precede.
 */
export function refusalOf(
  rooms: readonly Room[],
  forecast: CompleteForecast,
  fits: FitsWithoutBound,
  { at, caller }: { readonly at: number; readonly caller: AdmissionRequest['caller'] },
): Refusal {
  const { bound } = forecast;
  const full = rooms.filter((room) => {
    const { budget, reserved } = room;
    if (bound === undefined) return !fits(room, forecast);
    return budget.spent >= budget.amount || budget.spent + reserved + bound > budget.amount;
  });
  const [first, ...others] = full.length === 0 ? rooms : full;
  if (first === undefined) throw new Error('a request without a budget was refused');
  const { budget, reserved } = others.reduce((one, other) => (other.budget.end > one.budget.end ? other : one), first);
  return refusalOfBudget(budget, reserved, at, caller);
}

/** Nano-dollars by subject. */
export class SumsBySubject {
  readonly #sums = new Map<string, number>();

  get(subject: string): number {
    return this.#sums.get(subject) ?? 0;
  }

  add(subjects: readonly string[], change: number): void {
    if (change === 0) return;
    for (const subject of subjects) {
      const left = this.get(subject) + change;
      if (left > 0) this.#sums.set(subject, left);
      else this.#sums.delete(subject);
    }
  }
}

export function subjectsOfRooms(rooms: readonly Pick<Room, 'budget'>[]): string[] {
  return [...new Set(rooms.map(({ budget }) => budgetSubject(budget)))];
}

export function budgetSubject({ scope, subject }: Pick<BudgetMeter, 'scope' | 'subject'>): string {
  return `${scope}:${subject}`;
}

export interface BoundedShare {
  /** Nano-dollars. */
  readonly amount: number;
  /** The limit for the answers of each target; undefined when the request has a limit that the amount covers. */
  readonly limit: SetLimit | undefined;
}

/**
 * The whole bound where it fits. An answer without a limit gets at most half of what is free, if that is ample, so that
 * others have room beside it. When no other request has a reservation, the answer is limited to what is left.
 * @returns undefined when that leaves no useful answer, or too little is free beside others
 */
function boundedShare(
  rooms: readonly Room[],
  { bound, limit }: { readonly bound: number; readonly limit?: AnswerLimit | undefined },
): BoundedShare | undefined {
  if (rooms.some(({ budget }) => budget.spent >= budget.amount)) return undefined;
  const free = Math.min(...rooms.map(freeIn));
  if (limit?.isMissing === true && bound > free / 2) {
    const half = longestWithin(free / 2, bound, limit);
    if (half !== undefined && half.tokens >= limit.ample) return { amount: half.amount, limit: limit.at(half.tokens) };
  }
  if (bound <= free) return { amount: bound, limit: limit?.isMissing === true ? limit.at(limit.longest) : undefined };
  if (limit === undefined || rooms.some((room) => room.reserved > 0 && bound > freeIn(room))) return undefined;
  const rest = longestWithin(free, bound, limit);
  const isUseful = rest !== undefined && rest.tokens >= Math.min(limit.least, limit.longest);
  return isUseful ? { amount: rest.amount, limit: limit.at(rest.tokens) } : undefined;
}

/**
 * Whether a request for which there is no share may get one when others have ended: each budget without room has
 * reservations, and what they are likely to cost leaves enough.
 * @param likely nano-dollars of the request and of the others in each budget
 */
export function mayFitLater(
  rooms: readonly (Room & { readonly likely: number })[],
  { bound }: { readonly bound: number },
): boolean {
  return rooms.every((room) => {
    const { budget, reserved, likely } = room;
    const fits = bound <= freeIn(room);
    return budget.spent < budget.amount && (fits || reserved > 0) && budget.spent + likely <= budget.amount;
  });
}

function freeIn({ budget, reserved }: Room): number {
  return budget.amount - budget.spent - reserved;
}

/** The longest answer whose cost fits. Costs are nearly proportional to tokens: a proportional guess is tried first. */
function longestWithin(free: number, bound: number, { longest, boundAt }: AnswerLimit) {
  const least = boundAt(0);
  if (least === undefined || least > free) return undefined;
  const guess = bound <= least ? longest : Math.min(longest, Math.floor(((free - least) / (bound - least)) * longest));
  for (let tokens = guess, step = 1; tokens > 0; tokens -= step, step *= 2) {
    const amount = boundAt(tokens);
    if (amount !== undefined && amount <= free) return { tokens, amount };
  }
  return undefined;
}

/** @param at milliseconds since the epoch */
export function refusalOfBudget(
  exceeded: BudgetMeter,
  reserved: number,
  at: number,
  caller: AdmissionRequest['caller'],
): Refusal {
  const seconds = Math.max(1, Math.ceil((exceeded.end - at) / 1000));
  const message = mayNameAmounts(caller, exceeded) ? messageOf(exceeded, reserved) : plainMessageOf(exceeded);
  return refusals.budgetExceeded(message, seconds);
}

/** The message without amounts. */
function plainMessageOf({ subject, periodSeconds }: BudgetMeter): string {
  return `The ${budgetPeriodLabel(periodSeconds)} budget of '${subject}' does not allow this request.`;
}

function messageOf({ subject, periodSeconds, amount, spent }: BudgetMeter, reserved: number): string {
  const budget = `The ${budgetPeriodLabel(periodSeconds)} budget of '${subject}', ${usdOf(amount)} USD,`;
  const rest = reserved > 0 ? ` and ${usdOf(reserved)} USD are reserved for requests under way` : '';
  return `${budget} does not allow this request: ${usdOf(spent)} USD are spent${rest}.`;
}
