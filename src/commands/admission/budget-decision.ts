/**
 * What a request reserves of its budgets, and the limit of its answers that this covers; or that it waits, or is refused. The
 * same with one gateway and with several; they differ in what they know of the budgets, and in requests without a bound.
 */
import type { EpochMs } from '../../events/event.ts';
import { usdOf } from '../limits/budget.ts';
import { budgetPeriodLabel } from '../limits/period.ts';
import type { AdmissionRequest } from '../model-request/admission.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { mayNameAmounts } from '../visibility.ts';
import type { SetLimit } from './cost-bound.ts';
import type { AnswerLimit, CostForecast } from './cost-forecast.ts';

/** A budget, and the amount spent in its current period. Nano-dollars; milliseconds since the epoch. */
export interface CountedBudget {
  readonly scope: 'user_path' | 'label';
  readonly subject: string;
  readonly periodSeconds: number;
  readonly amount: number;
  readonly end: number;
  readonly spent: number;
}

/** A budget as one request sees it. */
export interface Room {
  readonly budget: CountedBudget;
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
  const subjects: string[] = [];
  for (const { budget } of rooms) {
    const subject = budgetSubject(budget);
    if (!subjects.includes(subject)) subjects.push(subject);
  }
  return subjects;
}

export function budgetSubject({ scope, subject }: Pick<CountedBudget, 'scope' | 'subject'>): string {
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
function mayFitLater(
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
  exceeded: CountedBudget,
  reserved: number,
  at: number,
  caller: AdmissionRequest['caller'],
): Refusal {
  const seconds = Math.max(1, Math.ceil((exceeded.end - at) / 1000));
  const message = mayNameAmounts(caller, exceeded) ? messageOf(exceeded, reserved) : plainMessageOf(exceeded);
  return refusals.budgetExceeded(message, seconds);
}

/** The message without amounts. */
function plainMessageOf({ subject, periodSeconds }: CountedBudget): string {
  return `The ${budgetPeriodLabel(periodSeconds)} budget of '${subject}' does not allow this request.`;
}

function messageOf({ subject, periodSeconds, amount, spent }: CountedBudget, reserved: number): string {
  const budget = `The ${budgetPeriodLabel(periodSeconds)} budget of '${subject}', ${usdOf(amount)} USD,`;
  const rest = reserved > 0 ? ` and ${usdOf(reserved)} USD are reserved for requests under way` : '';
  return `${budget} does not allow this request: ${usdOf(spent)} USD are spent${rest}.`;
}

// Requests that wait for room in a budget: what others have reserved does not leave enough, and what those are likely to
// cost does. Requests of the same budgets are admitted in the order in which they came.

/** What a gate knows of one request. */
export interface Deciding<Reserved> {
  /** The budgets that count the request; none when it is free. */
  rooms(): readonly Room[];
  forecast(): CostForecast;
  readonly fits: FitsWithoutBound;
  now(): EpochMs;
  /** Reserves what was decided. */
  reservation(
    share: BoundedShare,
    forecast: CompleteForecast,
    rooms: readonly Room[],
    subjects: readonly string[],
  ): Reserved;
  /** Nano-dollars that are reserved in the budget and are not in `likely`. Default: none. */
  deferred?(room: Room): number;
}

export interface AdmittedReservation<Reserved> {
  /** Undefined when no budget counts the request. */
  readonly reservation: Reserved | undefined;
}

/** A request waits with its body in memory. */
const MAX_WAITING = 1_000;
const MAX_WAITING_BYTES = 64 * 1024 * 1024;

/** @returns undefined when the request still has to wait, which it must not at the last attempt. @throws Refusal */
type Attempt<T> = (isLast: boolean) => T | undefined;

interface Waiting {
  readonly bytes: number;
  /** @returns whether it goes on waiting */
  attempt(isLast: boolean): boolean;
}

export class WaitingRequests<Reserved> {
  /** What running and waiting requests are likely to cost. */
  readonly likely = new SumsBySubject();
  readonly #maxMs: number;
  readonly #groups = new Map<string, Set<Waiting>>();
  #count = 0;
  #bytes = 0;
  #isDue = false;

  /** @param maxMs a request is refused after so long; 0: at once */
  constructor(maxMs: number) {
    this.#maxMs = maxMs;
  }

  /** Admits a request now, unless others with the same budgets wait. @throws Refusal */
  admitNow(request: AdmissionRequest, deciding: Deciding<Reserved>): AdmittedReservation<Reserved> {
    const attempt = this.#attempts(request, deciding);
    // The last attempt does not wait.
    return attempt(true, true) ?? { reservation: undefined };
  }

  /** Admits a request now, or when there is room for it, in its turn. @throws Refusal */
  admit(
    request: AdmissionRequest,
    deciding: Deciding<Reserved>,
    signal: AbortSignal,
  ): AdmittedReservation<Reserved> | Promise<AdmittedReservation<Reserved>> {
    const attempt = this.#attempts(request, deciding);
    const first = attempt(!this.#hasPlace(request.bodyBytes), true);
    if (first !== undefined) return first;
    return this.#wait(subjectsOfRooms(deciding.rooms()).join(' '), request.bodyBytes, attempt, signal);
  }

  #attempts({ caller }: AdmissionRequest, deciding: Deciding<Reserved>) {
    const { fits } = deciding;
    let subjects: readonly string[] = [];
    let likely = 0;
    /** @param isNew whether those that wait precede it */
    return (isLast: boolean, isNew = false): AdmittedReservation<Reserved> | undefined => {
      this.likely.add(subjects, -likely);
      likely = 0;
      const rooms = deciding.rooms();
      if (rooms.length === 0) return { reservation: undefined };
      const forecast = completed(deciding.forecast(), rooms);
      subjects = subjectsOfRooms(rooms);
      const isBehind = isNew && this.#groups.has(subjects.join(' '));
      const share = isBehind ? undefined : shareOf(rooms, forecast, fits);
      if (share !== undefined) return { reservation: deciding.reservation(share, forecast, rooms, subjects) };
      const own = likelyOf(forecast);
      const likelyIn = (room: Room) =>
        this.likely.get(budgetSubject(room.budget)) + (deciding.deferred?.(room) ?? 0) + own;
      const { bound } = forecast;
      const mayWait = !isLast && bound !== undefined;
      if (
        !mayWait ||
        !mayFitLater(
          rooms.map((room) => ({ ...room, likely: likelyIn(room) })),
          { bound },
        )
      ) {
        throw refusalOf(rooms, forecast, fits, { at: deciding.now(), caller });
      }
      likely = own;
      this.likely.add(subjects, likely);
      return undefined;
    };
  }

  #hasPlace(bytes: number): boolean {
    return this.#maxMs > 0 && this.#count < MAX_WAITING && this.#bytes + bytes <= MAX_WAITING_BYTES;
  }

  /**
   * Repeats the attempt whenever something was released, until it succeeds or throws.
   * @param signal aborted when the client has left: then the attempt is the last one
   */
  #wait(
    group: string,
    bytes: number,
    attempt: Attempt<AdmittedReservation<Reserved>>,
    signal: AbortSignal,
  ): Promise<AdmittedReservation<Reserved>> {
    return new Promise<AdmittedReservation<Reserved>>((resolve, reject) => {
      const last = () => waiting.attempt(true);
      const timer = setTimeout(last, this.#maxMs);
      const waiting: Waiting = {
        bytes,
        attempt: (isLast) => {
          try {
            const result = attempt(isLast);
            if (result === undefined) return true;
            resolve(result);
          } catch (error) {
            reject(error);
          }
          clearTimeout(timer);
          signal.removeEventListener('abort', last);
          this.#leave(group, waiting);
          return false;
        },
      };
      signal.addEventListener('abort', last, { once: true });
      this.#enter(group, waiting);
    });
  }

  /** Something was released: those who have room now are admitted in this turn of the event loop. */
  retry(): void {
    if (this.#isDue || this.#count === 0) return;
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = false;
      for (const group of this.#groups.values()) {
        for (const one of group) if (one.attempt(false)) break;
      }
    });
  }

  #enter(group: string, waiting: Waiting): void {
    const others = this.#groups.get(group);
    if (others === undefined) this.#groups.set(group, new Set([waiting]));
    else others.add(waiting);
    this.#count += 1;
    this.#bytes += waiting.bytes;
  }

  #leave(group: string, waiting: Waiting): void {
    const others = this.#groups.get(group);
    if (others?.delete(waiting) !== true) return;
    if (others.size === 0) this.#groups.delete(group);
    this.#count -= 1;
    this.#bytes -= waiting.bytes;
  }
}
