/**
 * Admits requests while their budgets last. The most that a request can cost is reserved before its provider is called; of
 * one without such a bound, the expected cost. The actual cost then replaces it, and stays reserved until the ledger has counted the same usage. So a cost is
 * always either reserved or spent, and never both.
 * Reservations are in memory. Each attempt records the amount, which an exchange costs that a crash interrupts before
 * anything of an answer is recorded; its cost is recorded when it is closed at the next start. Reservations for work that continues after its exchange are on record, and are restored
 * at the start.
 */
import type { StreamName } from '../../events/event.ts';
import { streamName } from '../../events/event.ts';
import { usdOf } from '../budgets/money.ts';
import type { AdmissionRequest, Charge, ReservationOnLog } from '../model-request/admission.ts';
import { budgetPeriodLabel } from '../period.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { mayNameAmounts } from '../visibility.ts';
import { boundedShare, mayFitLater } from './bounded-share.ts';
import type { SetLimit } from './cost-bound.ts';
import type { CostForecast } from './cost-forecast.ts';
import { WaitingRequests } from './waiting-requests.ts';

/** A budget, and the amount spent in its current period. Nano-dollars; milliseconds since the epoch. */
export interface BudgetMeter {
  readonly scope: 'user_path' | 'label';
  readonly subject: string;
  readonly periodSeconds: number;
  readonly amount: number;
  readonly end: number;
  readonly spent: number;
}

/** The spent amounts, as far as the log has been read. */
export interface SpendLedger {
  /** Whether there is any budget. */
  readonly any: boolean;
  /** The budgets of the path, of the paths above it, and of the labels, in their state at that time. */
  metersOf(userPath: string, labels: readonly string[] | undefined, at: number): readonly BudgetMeter[];
}

/** Decides by budgets. */
export interface BudgetAdmission {
  /** Whether no budget could refuse a request. */
  readonly isOpen: boolean;
  /**
   * @param forecast called only when there is a budget for the request
   * @throws Refusal 429 `budget_exceeded`
   */
  admit(request: AdmissionRequest, forecast: () => CostForecast): BudgetHold | undefined;
  /** As `admit`; a request that is likely to fit when others have ended waits for that. */
  admitWhenRoom(
    request: AdmissionRequest,
    forecast: () => CostForecast,
    signal: AbortSignal,
  ): AdmittedHold | Promise<AdmittedHold>;
}

export interface AdmittedHold {
  /** Undefined when no budget counts the request. */
  readonly hold: BudgetHold | undefined;
}

/** The reservation of one exchange. */
export interface BudgetHold {
  /** The limit of the answers that the reservation covers, for each target; undefined when the request has a lower one. */
  readonly limit: SetLimit | undefined;
  /** Set where the order of a shared log decides. */
  readonly onLog?: ReservationOnLog;
  /** Replaces the expected cost by this amount. @throws Refusal 429 `budget_exceeded` */
  reserve(nano: number, bound?: number): void;
  /** Replaces the forecast on which the reservation is based. @throws Refusal 429 `budget_exceeded` */
  expect(forecast: CostForecast): void;
  /** Nano-dollars reserved for the next call; undefined where the log shows the reservation already. */
  readonly reserved: number | undefined;
  /** Keeps the reservation after `settle`, until `release`. @returns nano-dollars */
  defer(): number;
  /** Whether another call, after one that has cost something, fits too. @returns the refusal when it does not */
  again(): Refusal | undefined;
  /** Called before the cost is appended to the log. */
  charge(charge: Pick<Charge, 'totalCost' | 'isFailed'>): void;
  /** Called once, at the end of the exchange. @param isRecorded whether the charged usage is recorded for the ledger */
  settle(isRecorded: boolean): void;
}

const UNKNOWN_COST_DIVISOR = 10;

/** What a request would reserve: nothing yet when it has to wait. */
interface Decision {
  readonly amount: number;
  readonly limit?: SetLimit | undefined;
}

export class BudgetGate implements BudgetAdmission {
  readonly #ledger: SpendLedger;
  readonly #now: () => number;
  /** Reserved nano-dollars by subject: all budgets of one path, or of one label, together. */
  readonly #reserved = new SumsBySubject();
  /** What running and waiting requests are likely to cost. */
  readonly #likely = new SumsBySubject();
  /** Reservations that the ledger has not counted yet, by the stream in which their cost is recorded. */
  readonly #holds = new Map<StreamName, Hold>();
  readonly #waiting: WaitingRequests;

  /**
   * @param now milliseconds since the epoch
   * @param maxWaitMs how long a request waits for room
   */
  constructor(ledger: SpendLedger, now: () => number, maxWaitMs = 0) {
    this.#ledger = ledger;
    this.#now = now;
    this.#waiting = new WaitingRequests(maxWaitMs);
  }

  /** Whether no budget could refuse a request. */
  get isOpen(): boolean {
    return !this.#ledger.any;
  }

  /** Nano-dollars that are reserved now, for all budgets of a path or label. */
  reserved(scope: 'user_path' | 'label', subject: string): number {
    return this.#reserved.get(`${scope}:${subject}`);
  }

  /**
   * @param forecast called only when there is a budget for the request
   * @throws Refusal 429 `budget_exceeded`
   */
  admit(request: AdmissionRequest, forecast: () => CostForecast): BudgetHold | undefined {
    return this.#attempt(request, forecast, () => false)?.hold;
  }

  admitWhenRoom(
    request: AdmissionRequest,
    forecast: () => CostForecast,
    signal: AbortSignal,
  ): AdmittedHold | Promise<AdmittedHold> {
    let subjects: readonly string[] = [];
    let likely = 0;
    const mayWait = (meters: readonly BudgetMeter[], expected: CompleteForecast): boolean => {
      subjects = subjectsOfMeters(meters);
      likely = expected.learned ? expected.likely : expected.least;
      const rooms = meters.map((budget) => ({
        ...{ budget, reserved: this.#reservedIn(budget), likely: this.#likely.get(keyOf(budget)) + likely },
      }));
      return expected.bound !== undefined && mayFitLater(rooms, { bound: expected.bound });
    };
    const first = this.#attempt(request, forecast, (meters, expected) => {
      return this.#waiting.hasPlace(request.bodyBytes) && mayWait(meters, expected);
    });
    if (first !== undefined) return first;
    this.#likely.add(subjects, likely);
    const leave = () => {
      this.#likely.add(subjects, -likely);
      likely = 0;
    };
    const attempt = (isLast: boolean) => {
      leave();
      const admitted = this.#attempt(
        request,
        forecast,
        (meters, expected) => !isLast && mayWait(meters, expected),
        true,
      );
      if (admitted === undefined) this.#likely.add(subjects, likely);
      return admitted;
    };
    return this.#waiting.wait(subjects.join(' '), request.bodyBytes, attempt, signal);
  }

  /** @returns undefined when the request waits. @throws Refusal */
  #attempt(
    request: AdmissionRequest,
    forecast: () => CostForecast,
    mayWait: (meters: readonly BudgetMeter[], expected: CompleteForecast) => boolean,
    isNext = false,
  ): AdmittedHold | undefined {
    const { caller, labels, exchangeId } = request;
    const at = this.#now();
    const meters = this.#ledger.metersOf(caller.userPath ?? '/', labels, at);
    if (meters.length === 0) return { hold: undefined };
    const subjects = subjectsOfMeters(meters);
    const expected = completed(forecast(), meters);
    const isBehind = !isNext && this.#waiting.isQueued(subjects.join(' '));
    const decision = isBehind ? undefined : this.#decide(meters, expected);
    if (decision === undefined) {
      if (mayWait(meters, expected)) return undefined;
      throw this.#refusal(meters, expected, at, caller);
    }
    const stream = streamName('exchange', exchangeId);
    const hold = this.#hold(stream, subjects, decision.amount, expected.learned ? expected.likely : 0);
    let { limit } = decision;
    const expectInstead = (other: CostForecast) => {
      hold.expect(0);
      const now = this.#now();
      const metersNow = this.#ledger.metersOf(caller.userPath ?? '/', labels, now);
      const instead = completed(other, metersNow.length === 0 ? meters : metersNow);
      const changed = this.#decide(metersNow, instead);
      if (changed === undefined) throw this.#refusal(metersNow, instead, now, caller);
      limit = changed.limit;
      hold.expect(changed.amount);
    };
    return {
      hold: {
        get limit() {
          return limit;
        },
        get reserved() {
          return hold.expected;
        },
        reserve: (nano) => expectInstead({ least: nano, likely: nano, most: nano, learned: true }),
        expect: expectInstead,
        defer: () => hold.defer(),
        again: () => {
          const now = this.#now();
          const metersNow = this.#ledger.metersOf(caller.userPath ?? '/', labels, now);
          const isOver = metersNow.some((meter) => meter.spent + this.#reservedIn(meter) > meter.amount);
          return isOver ? this.#refusal(metersNow, { ...expected, bound: 0 }, now, caller) : undefined;
        },
        charge: (charge) => hold.charge(charge),
        settle: (isRecorded) => {
          hold.settle(isRecorded);
          if (hold.over) this.#holds.delete(stream);
        },
      },
    };
  }

  /** Restores the reservation of work that started before a restart and has not ended. */
  restore(stream: StreamName, account: Pick<AdmissionRequest, 'labels'> & { readonly userPath: string }, nano: number) {
    const meters = this.#ledger.metersOf(account.userPath, account.labels, this.#now());
    if (meters.length === 0) return;
    const hold = this.#hold(stream, subjectsOfMeters(meters), nano, nano);
    hold.defer();
    hold.settle(true);
  }

  /** The work that continued after this exchange is over, and the ledger has counted its cost. */
  releaseDeferred(stream: StreamName): void {
    const hold = this.#holds.get(stream);
    if (hold === undefined) return;
    hold.release();
    if (hold.over) this.#holds.delete(stream);
  }

  #hold(stream: StreamName, subjects: readonly string[], amount: number, likely: number): Hold {
    this.#likely.add(subjects, likely);
    const hold = new Hold(
      (change) => {
        this.#reserved.add(subjects, change);
        if (change < 0) this.#waiting.retry();
      },
      () => this.#likely.add(subjects, -likely),
    );
    hold.expect(amount);
    this.#holds.set(stream, hold);
    return hold;
  }

  /** The ledger has counted one usage of this exchange. @param nano its cost in nano-dollars */
  releaseCounted(stream: StreamName, nano: number): void {
    const hold = this.#holds.get(stream);
    if (hold === undefined) return;
    hold.counted(nano);
    if (hold.over) this.#holds.delete(stream);
  }

  /** @returns undefined when it does not fit */
  #decide(meters: readonly BudgetMeter[], forecast: CompleteForecast): Decision | undefined {
    const { bound, limit, most } = forecast;
    if (bound === undefined) {
      return meters.some((meter) => isExceeded(meter, this.#reservedIn(meter), forecast))
        ? undefined
        : { amount: most };
    }
    const rooms = meters.map((budget) => ({ budget, reserved: this.#reservedIn(budget) }));
    return boundedShare(rooms, { bound, limit });
  }

  #refusal(
    meters: readonly BudgetMeter[],
    forecast: CompleteForecast,
    at: number,
    caller: AdmissionRequest['caller'],
  ): Refusal {
    const { bound } = forecast;
    const exceeded = meters.filter((meter) => {
      const reserved = this.#reservedIn(meter);
      return bound === undefined
        ? isExceeded(meter, reserved, forecast)
        : meter.spent >= meter.amount || meter.spent + reserved + bound > meter.amount;
    });
    // Of several exceeded budgets, the one whose period ends last determines when a retry can succeed. None is exceeded for
    // a request that others precede.
    const [first, ...others] = exceeded.length === 0 ? meters : exceeded;
    if (first === undefined) throw new Error('a request without a budget was refused');
    const last = others.reduce((one, other) => (other.end > one.end ? other : one), first);
    return refusalOfBudget(last, this.#reservedIn(last), at, caller);
  }

  #reservedIn(meter: BudgetMeter): number {
    return this.#reserved.get(keyOf(meter));
  }
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

export function subjectsOfMeters(meters: readonly BudgetMeter[]): string[] {
  return [...new Set(meters.map(keyOf))];
}

function keyOf({ scope, subject }: BudgetMeter): string {
  return `${scope}:${subject}`;
}

class Hold {
  readonly #change: (nano: number) => void;
  readonly #over: () => void;
  /** The cost that is still expected. */
  #expected = 0;
  /** The cost that was charged and is not yet counted, and the number of charges. */
  #due = 0;
  #parts = 0;
  #settled = false;
  #deferred = false;

  /** @param over called when the exchange is over */
  constructor(change: (nano: number) => void, over: () => void) {
    this.#change = change;
    this.#over = over;
  }

  /** Whether no further charge or count can follow. */
  get over(): boolean {
    return this.#settled && !this.#deferred && this.#parts === 0;
  }

  get expected(): number {
    return this.#expected;
  }

  expect(amount: number): void {
    this.#resize(amount, this.#due);
  }

  /** After a failed attempt, the expected cost stays reserved for the next attempt. */
  charge({ totalCost, isFailed }: Pick<Charge, 'totalCost' | 'isFailed'>): void {
    this.#parts += 1;
    this.#resize(isFailed ? this.#expected : 0, this.#due + Number(totalCost ?? 0));
  }

  counted(nano: number): void {
    if (this.#parts === 0) return;
    this.#parts -= 1;
    this.#resize(this.#expected, this.#parts === 0 ? 0 : this.#due - nano);
  }

  defer(): number {
    this.#deferred = true;
    return this.#expected;
  }

  settle(isRecorded: boolean): void {
    const wasSettled = this.#settled;
    this.#settled = true;
    if (!isRecorded) {
      this.#parts = 0;
      this.#deferred = false;
    }
    if (!wasSettled && !this.#deferred) this.#over();
    this.#resize(this.#deferred ? this.#expected : 0, isRecorded ? this.#due : 0);
  }

  release(): void {
    if (this.#settled && this.#deferred) this.#over();
    this.#deferred = false;
    this.#resize(this.#settled ? 0 : this.#expected, this.#due);
  }

  #resize(expected: number, due: number): void {
    const change = expected + due - this.#expected - this.#due;
    this.#expected = expected;
    this.#due = due;
    if (change !== 0) this.#change(change);
  }
}

interface CompleteForecast extends CostForecast {
  readonly likely: number;
  readonly most: number;
}

function completed(forecast: CostForecast, meters: readonly BudgetMeter[]): CompleteForecast {
  const likely = Math.ceil(forecast.likely ?? shareOf(meters));
  return { ...forecast, likely, most: Math.max(likely, Math.ceil(forecast.most ?? 0)) };
}

/** A share of the smallest budget. It bounds the number of concurrent requests while their cost is unknown. */
export function shareOf(meters: readonly BudgetMeter[]): number {
  return Math.min(...meters.map(({ amount }) => amount)) / UNKNOWN_COST_DIVISOR;
}

/**
 * When other reservations exist, a request is refused unless the longest answer that it allows fits. Without other
 * reservations, its likely cost decides, and an estimate without samples does not refuse it.
 */
function isExceeded(
  { amount, spent }: BudgetMeter,
  reserved: number,
  { least, likely, most, learned }: CompleteForecast,
): boolean {
  if (spent >= amount || spent + reserved + least > amount) return true;
  return reserved > 0 ? spent + reserved + most > amount : learned && spent + likely > amount;
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
