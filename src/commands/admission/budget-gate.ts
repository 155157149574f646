/**
 * Lets requests through as long as their budgets last. What a request is likely to cost is reserved before its provider
 * is asked; what it did cost takes the place of that, and stays reserved until the ledger has counted that very usage. So
 * there is no moment in which a cost is neither reserved nor spent, and none in which it is both.
 *
 * Reservations are in memory: a crash gives them back, and what an interrupted exchange did cost is recorded when it is
 * closed at the next start. What is reserved for work that goes on after its exchange is on record, and reserved again.
 */
import type { StreamName } from '../../events/event.ts';
import { streamName } from '../../events/event.ts';
import { usdOf } from '../budgets/money.ts';
import type { AdmissionRequest, Charge } from '../model-request/admission.ts';
import { budgetPeriodLabel } from '../period.ts';
import { refusals } from '../refusal.ts';
import { mayNameAmounts } from '../visibility.ts';
import type { CostForecast } from './cost-forecast.ts';

/** A budget, and how much of it is spent in the period it is in. Nano-dollars; milliseconds since the epoch. */
export interface BudgetMeter {
  readonly scope: 'user_path' | 'label';
  readonly subject: string;
  readonly periodSeconds: number;
  readonly amount: number;
  readonly end: number;
  readonly spent: number;
}

/** What is spent, as far as the log has been read. */
export interface SpendLedger {
  /** Whether there is any budget at all. */
  readonly any: boolean;
  /** The budgets of the path, of those above it, and of the labels, as they stand at that moment. */
  metersOf(userPath: string, labels: readonly string[] | undefined, at: number): readonly BudgetMeter[];
}

/** What an exchange has reserved. */
export interface BudgetHold {
  /** Reserves so much in place of what was expected. @throws Refusal 429 `budget_exceeded` */
  reserve(nano: number): void;
  /** Reserves by this forecast in place of the one before it. @throws Refusal 429 `budget_exceeded` */
  expect(forecast: CostForecast): void;
  /** What is reserved stays so after `settle`, until `release`. @returns nano-dollars */
  defer(): number;
  /** Called before the log is told of it. */
  charge(charge: Pick<Charge, 'totalCost' | 'isFailed'>): void;
  /** Called once, at its end. @param isRecorded whether the ledger is going to hear of what was charged */
  settle(isRecorded: boolean): void;
}

const SHARE_OF_THE_UNKNOWN = 10;

export class BudgetGate {
  readonly #ledger: SpendLedger;
  readonly #now: () => number;
  /** By what is charged: all budgets of one path, or of one label, together. */
  readonly #reserved = new Map<string, number>();
  /** What is reserved and not yet counted, by the stream in which its cost will be found. */
  readonly #holds = new Map<StreamName, Hold>();

  /** @param now milliseconds since the epoch */
  constructor(ledger: SpendLedger, now: () => number) {
    this.#ledger = ledger;
    this.#now = now;
  }

  /** Whether any budget could refuse anything. */
  get isOpen(): boolean {
    return !this.#ledger.any;
  }

  /** Nano-dollars that are reserved at this moment, for all budgets of a path or label. */
  reserved(scope: 'user_path' | 'label', subject: string): number {
    return this.#reserved.get(`${scope}:${subject}`) ?? 0;
  }

  /**
   * @param forecast asked for only when there is a budget for the request
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

  /** Reserves again what was reserved before a restart, for work that has not ended. */
  restore(stream: StreamName, account: Pick<AdmissionRequest, 'labels'> & { readonly userPath: string }, nano: number) {
    const meters = this.#ledger.metersOf(account.userPath, account.labels, this.#now());
    if (meters.length === 0) return;
    const hold = this.#hold(stream, meters, nano);
    hold.defer();
    hold.settle(true);
  }

  /** The work that went on after this exchange is over, and the ledger has counted what it cost. */
  release(stream: StreamName): void {
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

  /** The ledger has counted one usage of this exchange. @param nano what it cost */
  counted(stream: StreamName, nano: number): void {
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
      // Of several, the one that lasts longest: before its end nothing is going to be served.
      if (isExceeded(meter, reserved, forecast) && (exceeded === undefined || meter.end > exceeded.end))
        exceeded = meter;
    }
    if (exceeded === undefined) return;
    const seconds = Math.max(1, Math.ceil((exceeded.end - at) / 1000));
    const reserved = this.reserved(exceeded.scope, exceeded.subject);
    const message = mayNameAmounts(caller, exceeded) ? messageOf(exceeded, reserved) : plainMessageOf(exceeded);
    throw refusals.budgetExceeded(message, seconds);
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
  /** What is likely to be spent yet. */
  #expected = 0;
  /** What was spent and is not yet counted, and in how many parts. */
  #due = 0;
  #parts = 0;
  #settled = false;
  #deferred = false;

  constructor(change: (nano: number) => void) {
    this.#change = change;
  }

  /** Nothing more is going to come of it. */
  get over(): boolean {
    return this.#settled && !this.#deferred && this.#parts === 0;
  }

  expect(amount: number): void {
    this.#resize(amount, this.#due);
  }

  /** After an attempt that failed as much as before may be spent on the next. */
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

/** Of the smallest budget: so many requests at once, and no more, while their cost is unknown. */
function shareOf(meters: readonly BudgetMeter[]): number {
  return Math.min(...meters.map(({ amount }) => amount)) / SHARE_OF_THE_UNKNOWN;
}

/**
 * Beside others, a request is refused unless the longest answer that it allows fits. Alone, it is refused for what it is
 * likely to cost; an estimate without samples does not refuse it.
 */
function isExceeded(
  { amount, spent }: BudgetMeter,
  reserved: number,
  { least, likely, most, learned }: CompleteForecast,
): boolean {
  if (spent >= amount || spent + reserved + least > amount) return true;
  return reserved > 0 ? spent + reserved + most > amount : learned && spent + likely > amount;
}

/** Without amounts. */
function plainMessageOf({ subject, periodSeconds }: BudgetMeter): string {
  return `The ${budgetPeriodLabel(periodSeconds)} budget of '${subject}' does not allow this request.`;
}

function messageOf({ subject, periodSeconds, amount, spent }: BudgetMeter, reserved: number): string {
  const budget = `The ${budgetPeriodLabel(periodSeconds)} budget of '${subject}', ${usdOf(amount)} USD,`;
  const rest = reserved > 0 ? ` and ${usdOf(reserved)} USD are reserved for requests under way` : '';
  return `${budget} does not allow this request: ${usdOf(spent)} USD are spent${rest}.`;
}
