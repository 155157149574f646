/** How much of its budgets a request reserves whose cost has a bound, and the limit of its answers that this covers. */
import type { SetLimit } from './cost-bound.ts';
import type { AnswerLimit } from './cost-forecast.ts';

/** A budget as one request sees it. */
export interface Room {
  /** Nano-dollars. */
  readonly budget: { readonly amount: number; readonly spent: number };
  /** Nano-dollars that others have reserved in it. */
  readonly reserved: number;
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
export function boundedShare(
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
