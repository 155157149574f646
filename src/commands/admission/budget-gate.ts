/**
 * Admits requests while their budgets last. The expected cost of a request is reserved before its provider is called.
 * The actual cost then replaces it, and stays reserved until the ledger has counted the same usage. So a cost is
 * always either reserved or spent, and never both.
 * Reservations are in memory: a crash drops them, and the cost of an interrupted exchange is recorded when it is
 * closed at the next start. Reservations for work that continues after its exchange are on record, and are restored
 * at the start.
 */
import type { StreamName } from '../../events/event.ts';
import { streamName } from '../../events/event.ts';
import { usdOf } from '../budgets/money.ts';
import type { AdmissionRequest, Charge, ReservationOnLog } from '../model-request/admission.ts';
import { budgetPeriodLabel } from '../period.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { mayNameAmounts } from '../visibility.ts';
import type { CostForecast } from './cost-forecast.ts';

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
}

/** The reservation of one exchange. */
export interface BudgetHold {
  /** Set where the order of a shared log decides. */
  readonly onLog?: ReservationOnLog;
  /** Replaces the expected cost by this amount. @throws Refusal 429 `budget_exceeded` */
  reserve(nano: number, bound?: number): void;
  /** Replaces the forecast on which the reservation is based. @throws Refusal 429 `budget_exceeded` */
  expect(forecast: CostForecast): void;
  /** Keeps the reservation after `settle`, until `release`. @returns nano-dollars */
  defer(): number;
  /** Called before the cost is appended to the log. */
  charge(charge: Pick<Charge, 'totalCost' | 'isFailed'>): void;
  /** Called once, at the end of the exchange. @param isRecorded whether the charged usage is recorded for the ledger */
  settle(isRecorded: boolean): void;
}

const UNKNOWN_COST_DIVISOR = 10;

export class BudgetGate implements BudgetAdmission {
  readonly #ledger: SpendLedger;
  readonly #now: () => number;
  /** Reserved nano-dollars by subject: all budgets of one path, or of one label, together. */
  readonly #reserved = new Map<string, number>();
  /** Reservations that the ledger has not counted yet, by the stream in which their cost is recorded. */
  readonly #holds = new Map<StreamName, Hold>();

  /** @param now milliseconds since the epoch */
  constructor(ledger: SpendLedger, now: () => number) {
    this.#ledger = ledger;
    this.#now = now;
  }

  /** Whether no budget could refuse a request. */
  get isOpen(): boolean {
    return !this.#ledger.any;
  }

  /** Nano-dollars that are reserved now, for all budgets of a path or label. */
  reserved(scope: 'user_path' | 'label', subject: string): number {
    return this.#reserved.get(`${scope}:${subject}`) ?? 0;
  }

  /**
   * @param forecast called only when there is a budget for the request
   * @throws Refusal 429 `budget_exceeded`
   */
  admit(request: AdmissionRequest, forecast: () => CostForecast): BudgetHold | undefined {
    const { caller, labels, exchangeId } = request;
    const at = this.#now();
    const meters = this.#ledger.metersOf(caller.userPath ?? '/', labels, at);
    if (meters.length === 0) return undefined;
    const expected = completed(forecast(), meters);
    this.#refuse(meters, expected, at, caller);
    const stream = streamName('exchange', exchangeId);
    const hold = this.#hold(stream, meters, expected.most);
    const expectInstead = (other: CostForecast) => {
      hold.expect(0);
      const now = this.#now();
      const metersNow = this.#ledger.metersOf(caller.userPath ?? '/', labels, now);
      const instead = completed(other, metersNow.length === 0 ? meters : metersNow);
      this.#refuse(metersNow, instead, now, caller);
      hold.expect(instead.most);
    };
    return {
      reserve: (nano) => expectInstead({ least: nano, likely: nano, most: nano, learned: true }),
      expect: expectInstead,
      defer: () => hold.defer(),
      charge: (charge) => hold.charge(charge),
      settle: (isRecorded) => {
        hold.settle(isRecorded);
        if (hold.over) this.#holds.delete(stream);
      },
    };
  }

  /** Restores the reservation of work that started before a restart and has not ended. */
  restore(stream: StreamName, account: Pick<AdmissionRequest, 'labels'> & { readonly userPath: string }, nano: number) {
    const meters = this.#ledger.metersOf(account.userPath, account.labels, this.#now());
    if (meters.length === 0) return;
    const hold = this.#hold(stream, meters, nano);
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

  #hold(stream: StreamName, meters: readonly BudgetMeter[], amount: number): Hold {
    const subjects = [...new Set(meters.map(({ scope, subject }) => `${scope}:${subject}`))];
    const hold = new Hold((change) => this.#reserve(subjects, change));
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

  #refuse(
    meters: readonly BudgetMeter[],
    forecast: CompleteForecast,
    at: number,
    caller: AdmissionRequest['caller'],
  ): void {
    let exceeded: BudgetMeter | undefined;
    for (const meter of meters) {
      const reserved = this.reserved(meter.scope, meter.subject);
      // Of several exceeded budgets, the one whose period ends last determines when a retry can succeed.
      if (isExceeded(meter, reserved, forecast) && (exceeded === undefined || meter.end > exceeded.end))
        exceeded = meter;
    }
    if (exceeded === undefined) return;
    throw refusalOfBudget(exceeded, this.reserved(exceeded.scope, exceeded.subject), at, caller);
  }

  #reserve(subjects: readonly string[], change: number): void {
    for (const subject of subjects) {
      const left = (this.#reserved.get(subject) ?? 0) + change;
      if (left > 0) this.#reserved.set(subject, left);
      else this.#reserved.delete(subject);
    }
  }
}

class Hold {
  readonly #change: (nano: number) => void;
  /** The cost that is still expected. */
  #expected = 0;
  /** The cost that was charged and is not yet counted, and the number of charges. */
  #due = 0;
  #parts = 0;
  #settled = false;
  #deferred = false;

  constructor(change: (nano: number) => void) {
    this.#change = change;
  }

  /** Whether no further charge or count can follow. */
  get over(): boolean {
    return this.#settled && !this.#deferred && this.#parts === 0;
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
    this.#settled = true;
    if (!isRecorded) {
      this.#parts = 0;
      this.#deferred = false;
    }
    this.#resize(this.#deferred ? this.#expected : 0, isRecorded ? this.#due : 0);
  }

  release(): void {
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
