/**
 * Admits requests while their budgets last. The most that a request can cost is reserved before its provider is called; of
 * one without such a bound, the expected cost. The actual cost then replaces it, and stays reserved until the ledger has counted the same usage. So a cost is
 * always either reserved or spent, and never both.
 * Reservations are in memory. Each attempt records the amount, which an exchange costs that a crash interrupts before
 * anything of an answer is recorded; its cost is recorded when it is closed at the next start. Reservations for work that continues after its exchange are on record, and are restored
 * at the start.
 */
import { type EpochMs, type StreamName, streamName } from '../../events/event.ts';
import type { AdmissionRequest, Charge, RecordedReservation, ReservationOnLog } from '../model-request/admission.ts';
import type { Refusal } from '../refusal.ts';
import {
  type AdmittedReservation,
  type BoundedShare,
  budgetSubject,
  type CompleteForecast,
  type CountedBudget,
  completed,
  type Deciding,
  type FitsWithoutBound,
  type Room,
  refusalOf,
  SumsBySubject,
  shareOf,
  subjectsOfRooms,
  WaitingRequests,
} from './budget-decision.ts';
import type { SetLimit } from './cost-bound.ts';
import type { CostForecast } from './cost-forecast.ts';

/** The spent amounts, as far as the log has been read. */
export interface SpendLedger {
  /** Whether there is any budget. */
  readonly any: boolean;
  /** The budgets of the path, of the paths above it, and of the labels, in their state at that time. */
  countersOf(userPath: string, labels: readonly string[] | undefined, at: number): readonly CountedBudget[];
}

/** Decides by budgets. */
export interface BudgetAdmission {
  /** Whether no budget could refuse a request. */
  readonly isOpen: boolean;
  /**
   * @param forecast called only when there is a budget for the request
   * @throws Refusal 429 `budget_exceeded`
   */
  admit(request: AdmissionRequest, forecast: () => CostForecast): BudgetReservation | undefined;
  /** As `admit`; a request that is likely to fit when others have ended waits for that. */
  admitWhenRoom(
    request: AdmissionRequest,
    forecast: () => CostForecast,
    signal: AbortSignal,
  ): AdmittedReservation<BudgetReservation> | Promise<AdmittedReservation<BudgetReservation>>;
}

/** The reservation of one exchange. */
export interface BudgetReservation {
  /** The limit of the answers that the reservation covers, for each target; undefined when the request has a lower one. */
  readonly limit: SetLimit | undefined;
  /** Set where the order of a shared log decides. */
  readonly onLog?: ReservationOnLog;
  /** Replaces the expected cost by this amount. @throws Refusal 429 `budget_exceeded` */
  reserve(nano: number, bound?: number): void;
  /** Replaces the forecast on which the reservation is based. @throws Refusal 429 `budget_exceeded` */
  expect(forecast: CostForecast): void;
  /**
   * The request has begun to be answered, and can still cost so many nano-dollars at most. Refuses nothing.
   * @returns what is to be recorded where the order of a shared log decides
   */
  correct(nano: number): RecordedReservation | undefined;
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

export class BudgetGate implements BudgetAdmission {
  readonly #ledger: SpendLedger;
  readonly #now: () => number;
  /** Reserved nano-dollars by subject: all budgets of one path, or of one label, together. */
  readonly #reserved = new SumsBySubject();
  /** Reservations that the ledger has not counted yet, by the stream in which their cost is recorded. */
  readonly #reservations = new Map<StreamName, ReservedAmount>();
  readonly #waiting: WaitingRequests<BudgetReservation>;
  readonly #parts: GateParts = {
    roomsFor: (request) => this.#roomsFor(request),
    now: () => this.#now(),
    over: (stream) => this.#reservations.delete(stream),
  };

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
  admit(request: AdmissionRequest, forecast: () => CostForecast): BudgetReservation | undefined {
    return this.#waiting.admitNow(request, this.#deciding(request, forecast)).reservation;
  }

  admitWhenRoom(
    request: AdmissionRequest,
    forecast: () => CostForecast,
    signal: AbortSignal,
  ): AdmittedReservation<BudgetReservation> | Promise<AdmittedReservation<BudgetReservation>> {
    return this.#waiting.admit(request, this.#deciding(request, forecast), signal);
  }

  #deciding(request: AdmissionRequest, forecast: () => CostForecast): Deciding<BudgetReservation> {
    return {
      rooms: () => this.#roomsFor(request),
      forecast,
      fits: fitsAlone,
      now: this.#now,
      reservation: (...decided) => this.#reserve(request, ...decided),
    };
  }

  #reserve(
    request: AdmissionRequest,
    share: BoundedShare,
    expected: CompleteForecast,
    rooms: readonly Room[],
    subjects: readonly string[],
  ): BudgetReservation {
    const stream = streamName('exchange', request.exchangeId);
    const likely = expected.learned ? expected.likely : 0;
    const amount = this.#keep(stream, subjects, share.amount, likely);
    return new GateReservation(this.#parts, { request, stream, amount, expected, rooms, limit: share.limit });
  }

  #roomsFor({ caller, labels }: Pick<AdmissionRequest, 'caller' | 'labels'>): readonly Room[] {
    const counters = this.#ledger.countersOf(caller.userPath ?? '/', labels, this.#now());
    return counters.map((budget) => ({ budget, reserved: this.#reserved.get(budgetSubject(budget)) }));
  }

  /** Restores the reservation of work that started before a restart and has not ended. */
  restore(stream: StreamName, account: Pick<AdmissionRequest, 'labels'> & { readonly userPath: string }, nano: number) {
    const rooms = this.#ledger.countersOf(account.userPath, account.labels, this.#now()).map((budget) => ({ budget }));
    if (rooms.length === 0) return;
    const reservation = this.#keep(stream, subjectsOfRooms(rooms), nano, nano);
    reservation.defer();
    reservation.settle(true);
  }

  /** The work that continued after this exchange is over, and the ledger has counted its cost. */
  releaseDeferred(stream: StreamName): void {
    const reservation = this.#reservations.get(stream);
    if (reservation === undefined) return;
    reservation.release();
    if (reservation.over) this.#reservations.delete(stream);
  }

  #keep(stream: StreamName, subjects: readonly string[], amount: number, likely: number): ReservedAmount {
    this.#waiting.likely.add(subjects, likely);
    const reservation = new ReservedAmount(
      (change) => {
        this.#reserved.add(subjects, change);
        if (change < 0) this.#waiting.retry();
      },
      () => this.#waiting.likely.add(subjects, -likely),
    );
    reservation.expect(amount);
    this.#reservations.set(stream, reservation);
    return reservation;
  }

  /** The ledger has counted one usage of this exchange. @param nano its cost in nano-dollars */
  releaseCounted(stream: StreamName, nano: number): void {
    const reservation = this.#reservations.get(stream);
    if (reservation === undefined) return;
    reservation.counted(nano);
    if (reservation.over) this.#reservations.delete(stream);
  }
}

/** What a reservation uses of its gate. */
interface GateParts {
  roomsFor(request: AdmissionRequest): readonly Room[];
  now(): EpochMs;
  /** Nothing of the reservation can follow. */
  over(stream: StreamName): void;
}

interface ReservedRequest {
  readonly request: AdmissionRequest;
  readonly stream: StreamName;
  readonly amount: ReservedAmount;
  readonly expected: CompleteForecast;
  /** The budgets when the request was admitted. */
  readonly rooms: readonly Room[];
  readonly limit: SetLimit | undefined;
}

class GateReservation implements BudgetReservation {
  readonly #gate: GateParts;
  readonly #reserved: ReservedRequest;
  limit: SetLimit | undefined;
  #bound: number | undefined;

  constructor(gate: GateParts, reserved: ReservedRequest) {
    this.#gate = gate;
    this.#reserved = reserved;
    this.limit = reserved.limit;
    this.#bound = reserved.expected.bound;
  }

  get reserved(): number {
    return this.#reserved.amount.expected;
  }

  reserve(nano: number): void {
    this.expect({ least: nano, likely: nano, most: nano, learned: true });
  }

  expect(other: CostForecast): void {
    const { request, amount, rooms } = this.#reserved;
    amount.expect(0);
    const roomsNow = this.#gate.roomsFor(request);
    const instead = completed(other, roomsNow.length === 0 ? rooms : roomsNow);
    const changed = shareOf(roomsNow, instead, fitsAlone);
    if (changed === undefined) throw this.#refusalIn(roomsNow, instead);
    this.limit = changed.limit;
    this.#bound = instead.bound;
    amount.expect(changed.amount);
  }

  correct(nano: number): undefined {
    if (this.#bound !== undefined) this.#reserved.amount.expect(nano);
  }

  defer(): number {
    return this.#reserved.amount.defer();
  }

  again(): Refusal | undefined {
    const { request, expected } = this.#reserved;
    const roomsNow = this.#gate.roomsFor(request);
    const isOver = roomsNow.some(({ budget, reserved }) => budget.spent + reserved > budget.amount);
    return isOver ? this.#refusalIn(roomsNow, { ...expected, bound: 0 }) : undefined;
  }

  charge(charge: Pick<Charge, 'totalCost' | 'isFailed'>): void {
    this.#reserved.amount.charge(charge);
  }

  settle(isRecorded: boolean): void {
    const { amount, stream } = this.#reserved;
    amount.settle(isRecorded);
    if (amount.over) this.#gate.over(stream);
  }

  #refusalIn(rooms: readonly Room[], what: CompleteForecast): Refusal {
    const { caller } = this.#reserved.request;
    return refusalOf(rooms, what, fitsAlone, { at: this.#gate.now(), caller });
  }
}

class ReservedAmount {
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

/**
 * When other reservations exist, a request is refused unless the longest answer that it allows fits. Without other
 * reservations, its likely cost decides, and an estimate without samples does not refuse it.
 */
const fitsAlone: FitsWithoutBound = ({ budget: { amount, spent }, reserved }, { least, likely, most, learned }) => {
  if (spent >= amount || spent + reserved + least > amount) return false;
  return reserved > 0 ? spent + reserved + most <= amount : !learned || spent + likely <= amount;
};
