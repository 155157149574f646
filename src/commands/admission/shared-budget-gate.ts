/**
 * Admits requests while their budgets last, where several gateways use the log. A reservation is recorded before the
 * provider is called, and the order of the log decides whether it fits: every gateway reads the same decision. Before
 * anything is recorded, the request is refused when it does not fit into what the log shows, with the reservations of this
 * gateway that the log does not show yet.
 *
 * Each reservation is the most that the request can cost, with the limit that the gateway sets. A request without such a bound reserves its likely cost, and
 * is refused in the last tenth of a budget.
 */
import type { Position, StreamName } from '../../events/event.ts';
import { streamName } from '../../events/event.ts';
import type { AdmissionRequest, Charge, ReservationOnLog } from '../model-request/admission.ts';
import { Refusal } from '../refusal.ts';
import { boundedShare, mayFitLater } from './bounded-share.ts';
import {
  type AdmittedHold,
  type BudgetAdmission,
  type BudgetHold,
  type BudgetMeter,
  refusalOfBudget,
  type SpendLedger,
  SumsBySubject,
  shareOf,
  subjectsOfMeters,
} from './budget-gate.ts';
import type { SetLimit } from './cost-bound.ts';
import type { CostForecast } from './cost-forecast.ts';
import { WaitingRequests } from './waiting-requests.ts';

/** A reservation that an exchange wants in place of the one that it has. Nano-dollars; milliseconds since the epoch. */
export interface WantedCost {
  readonly stream: StreamName;
  readonly userPath: string;
  readonly labels: readonly string[] | undefined;
  readonly amount: number;
  readonly isBounded: boolean;
  readonly at: number;
}

/** A budget without room, with the amount reserved in it. */
export interface ExceededBudget {
  readonly budget: BudgetMeter;
  readonly reserved: number;
  readonly at: number;
}

/** Spending and reservations of all gateways, as far as the log has been read. */
export interface SharedLedger extends SpendLedger {
  /** Nano-dollars that the exchange has reserved. */
  reservedBy(stream: StreamName): number;
  /** @param more of each budget, nano-dollars to count as reserved that the log does not show yet */
  exceededBy(
    wanted: WantedCost,
    more: (scope: BudgetMeter['scope'], subject: string) => number,
  ): ExceededBudget | undefined;
  /** The budgets of an exchange, and what others have reserved in them. @param more as in `exceededBy` */
  roomsFor(
    exchange: Omit<WantedCost, 'amount' | 'isBounded'>,
    more: (scope: BudgetMeter['scope'], subject: string) => number,
  ): readonly ExceededBudget[];
  /** Nano-dollars that are reserved for work which continues after its exchange, in all budgets of a path or label. */
  deferred(scope: BudgetMeter['scope'], subject: string): number;
  whenProcessed(position: Position): Promise<void>;
}

export class SharedBudgetGate implements BudgetAdmission {
  readonly #ledger: SharedLedger;
  readonly #now: () => number;
  /** Nano-dollars of this gateway that the log does not show yet, by subject: all budgets of one path, or of one label. */
  readonly #unread = new SumsBySubject();
  /** What running and waiting requests of this gateway are likely to cost. */
  readonly #likely = new SumsBySubject();
  readonly #requests: WaitingRequests;
  /** Those whose decision has not been read. */
  readonly #waiting = new Map<StreamName, SharedHold>();

  /**
   * @param now milliseconds since the epoch
   * @param maxWaitMs how long a request waits for room
   */
  constructor(ledger: SharedLedger, now: () => number, maxWaitMs = 0) {
    this.#ledger = ledger;
    this.#now = now;
    this.#requests = new WaitingRequests(maxWaitMs);
  }

  get isOpen(): boolean {
    return !this.#ledger.any;
  }

  admit(request: AdmissionRequest, forecast: () => CostForecast): BudgetHold | undefined {
    const { caller, labels } = request;
    const meters = this.#ledger.metersOf(caller.userPath ?? '/', labels, this.#now());
    return meters.length === 0 ? undefined : this.#holdOf(request, meters, forecast());
  }

  admitWhenRoom(
    request: AdmissionRequest,
    forecast: () => CostForecast,
    signal: AbortSignal,
  ): AdmittedHold | Promise<AdmittedHold> {
    const { caller, labels, bodyBytes } = request;
    const meters = this.#ledger.metersOf(caller.userPath ?? '/', labels, this.#now());
    if (meters.length === 0) return { hold: undefined };
    const subjects = subjectsOfMeters(meters);
    const group = subjects.join(' ');
    let likely = 0;
    const attempt = (isLast: boolean, isBehind: boolean): AdmittedHold | undefined => {
      this.#likely.add(subjects, -likely);
      likely = 0;
      const now = this.#ledger.metersOf(caller.userPath ?? '/', labels, this.#now());
      if (now.length === 0) return { hold: undefined };
      const expected = forecast();
      const mayWait = !isLast && this.#mayFitLater(request, expected);
      if (!isBehind || !mayWait) {
        try {
          return { hold: this.#holdOf(request, now, expected) };
        } catch (error) {
          if (!(error instanceof Refusal) || !mayWait) throw error;
        }
      }
      likely = likelyOf(expected);
      this.#likely.add(subjects, likely);
      return undefined;
    };
    const first = attempt(!this.#requests.hasPlace(bodyBytes), this.#requests.isQueued(group));
    return first ?? this.#requests.wait(group, bodyBytes, (isLast) => attempt(isLast, false), signal);
  }

  /** The log was read further: reservations may have been released. */
  changed(): void {
    this.#requests.retry();
  }

  #mayFitLater({ caller, labels, exchangeId }: AdmissionRequest, expected: CostForecast): boolean {
    const { bound } = expected;
    if (bound === undefined) return false;
    const stream = streamName('exchange', exchangeId);
    const exchange = { stream, userPath: caller.userPath ?? '/', labels, at: this.#now() };
    const more = (scope: BudgetMeter['scope'], subject: string) => this.#unread.get(`${scope}:${subject}`);
    const rooms = this.#ledger.roomsFor(exchange, more).map(({ budget, reserved }) => {
      const { scope, subject } = budget;
      const others = this.#likely.get(`${scope}:${subject}`) + this.#ledger.deferred(scope, subject);
      const likely = others + likelyOf(expected);
      return { budget, reserved, likely };
    });
    return mayFitLater(rooms, { bound });
  }

  #holdOf(request: AdmissionRequest, meters: readonly BudgetMeter[], forecast: CostForecast): SharedHold {
    const subjects = subjectsOfMeters(meters);
    const likely = likelyOf(forecast);
    const hold = new SharedHold(request, meters, {
      ledger: this.#ledger,
      now: this.#now,
      unread: (scope, subject) => this.#unread.get(`${scope}:${subject}`),
      changeUnread: (of, change) => {
        this.#unread.add(of, change);
        if (change < 0) this.#requests.retry();
      },
      await: (stream, one) => this.#waiting.set(stream, one),
      forget: (stream) => {
        this.#waiting.delete(stream);
        this.#likely.add(subjects, -likely);
      },
    });
    hold.expect(forecast);
    this.#likely.add(subjects, likely);
    return hold;
  }

  /** The log was read up to a reservation. @param exceeded the budget that has no room for it */
  read(stream: StreamName, exceeded: ExceededBudget | undefined): void {
    const hold = this.#waiting.get(stream);
    if (hold === undefined) return;
    this.#waiting.delete(stream);
    hold.read(exceeded);
  }
}

function likelyOf({ learned, likely = 0, least }: CostForecast): number {
  return learned ? likely : least;
}

interface HoldParts {
  readonly ledger: SharedLedger;
  now(): number;
  unread(scope: BudgetMeter['scope'], subject: string): number;
  changeUnread(subjects: readonly string[], change: number): void;
  await(stream: StreamName, hold: SharedHold): void;
  forget(stream: StreamName): void;
}

class SharedHold implements BudgetHold {
  readonly #parts: HoldParts;
  readonly #request: AdmissionRequest;
  readonly #stream: StreamName;
  readonly #subjects: readonly string[];
  /** What an unknown cost is expected to be. */
  readonly #share: number;
  #wanted: Pick<WantedCost, 'amount' | 'isBounded'> = { amount: 0, isBounded: true };
  limit: SetLimit | undefined;
  readonly reserved = undefined;
  /** The part of it that the log does not show yet. */
  #unread = 0;
  /** Whether it is to be recorded before the next call. */
  #isDue = false;
  /** Of the reservation that was recorded last; undefined until it is read. */
  #decision: { readonly exceeded: ExceededBudget | undefined } | undefined;
  readonly onLog: ReservationOnLog = {
    next: () => this.#next(),
    decided: (position) => this.#decided(position),
  };

  constructor(request: AdmissionRequest, meters: readonly BudgetMeter[], parts: HoldParts) {
    this.#request = request;
    this.#parts = parts;
    this.#stream = streamName('exchange', request.exchangeId);
    this.#subjects = subjectsOfMeters(meters);
    this.#share = shareOf(meters);
  }

  reserve(nano: number, bound?: number): void {
    this.#want({ amount: Math.ceil(bound ?? nano), isBounded: bound !== undefined });
  }

  expect({ bound, limit, likely, most }: CostForecast): void {
    const share = bound === undefined ? undefined : boundedShare(this.#rooms(), { bound, limit });
    const amount = Math.ceil(share?.amount ?? bound ?? Math.max(likely ?? this.#share, most ?? 0));
    this.#want({ amount, isBounded: bound !== undefined || amount === 0 });
    this.limit = share?.limit;
  }

  /** The log decides on it. */
  again(): undefined {}

  defer(): number {
    return this.#parts.ledger.reservedBy(this.#stream);
  }

  /** A failed attempt has used up a part: the next one reserves the whole again. */
  charge({ totalCost, isFailed }: Pick<Charge, 'totalCost' | 'isFailed'>): void {
    if (isFailed && Number(totalCost ?? 0) > 0) this.#isDue = true;
  }

  settle(): void {
    this.#showUnread(0);
    this.#parts.forget(this.#stream);
  }

  read(exceeded: ExceededBudget | undefined): void {
    this.#decision = { exceeded };
    this.#showUnread(0);
  }

  #want(wanted: Pick<WantedCost, 'amount' | 'isBounded'>): void {
    const { ledger } = this.#parts;
    const exceeded = ledger.exceededBy(this.#costOf(wanted), this.#others);
    if (exceeded !== undefined) throw this.#refusal(exceeded);
    this.#wanted = wanted;
    this.#isDue = true;
    this.#showUnread(Math.max(0, wanted.amount - ledger.reservedBy(this.#stream)));
  }

  #rooms(): readonly ExceededBudget[] {
    return this.#parts.ledger.roomsFor(this.#costOf({ amount: 0, isBounded: true }), this.#others);
  }

  /** What other exchanges of this gateway have reserved and the log does not show yet. */
  readonly #others = (scope: BudgetMeter['scope'], subject: string): number => {
    const isOwn = this.#subjects.includes(`${scope}:${subject}`);
    return this.#parts.unread(scope, subject) - (isOwn ? this.#unread : 0);
  };

  #costOf(wanted: Pick<WantedCost, 'amount' | 'isBounded'>): WantedCost {
    const { caller, labels } = this.#request;
    return { ...wanted, stream: this.#stream, userPath: caller.userPath ?? '/', labels, at: this.#parts.now() };
  }

  #next(): ReturnType<ReservationOnLog['next']> {
    const { amount, isBounded } = this.#wanted;
    if (!this.#isDue || amount === 0) return undefined;
    this.#isDue = false;
    this.#decision = undefined;
    this.#parts.await(this.#stream, this);
    const { labels } = this.#request;
    return { amount: String(amount), bounded: isBounded, ...(labels === undefined ? {} : { labels }) };
  }

  async #decided(position: Position): Promise<Refusal | undefined> {
    await this.#parts.ledger.whenProcessed(position);
    if (this.#decision === undefined) throw new Error(`the reservation of ${this.#stream} is not in the log`);
    const { exceeded } = this.#decision;
    return exceeded === undefined ? undefined : this.#refusal(exceeded);
  }

  #refusal({ budget, reserved, at }: ExceededBudget): Refusal {
    return refusalOfBudget(budget, reserved, at, this.#request.caller);
  }

  #showUnread(unread: number): void {
    if (unread === this.#unread) return;
    this.#parts.changeUnread(this.#subjects, unread - this.#unread);
    this.#unread = unread;
  }
}
