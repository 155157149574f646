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
import type { AdmissionRequest, Charge, RecordedReservation, ReservationOnLog } from '../model-request/admission.ts';
import type { Refusal } from '../refusal.ts';
import {
  type AdmittedReservation,
  type BoundedShare,
  type CountedBudget,
  completed,
  type Deciding,
  type FitsWithoutBound,
  likelyOf,
  type Room,
  refusalOf,
  refusalOfBudget,
  SumsBySubject,
  shareOf,
  subjectsOfRooms,
  WaitingRequests,
} from './budget-decision.ts';
import type { BudgetAdmission, BudgetReservation, SpendLedger } from './budget-gate.ts';
import type { SetLimit } from './cost-bound.ts';
import type { CostForecast } from './cost-forecast.ts';

/** The exchange that wants a reservation in place of the one that it has. Milliseconds since the epoch. */
export interface WantingExchange {
  readonly stream: StreamName;
  readonly userPath: string;
  readonly labels: readonly string[] | undefined;
  readonly at: number;
}

/** A budget without room, with the amount reserved in it. */
export interface ExceededBudget extends Room {
  readonly at: number;
}

/** Spending and reservations of all gateways, as far as the log has been read. */
export interface SharedLedger extends Pick<SpendLedger, 'any'> {
  /** Nano-dollars that the exchange has reserved. */
  reservedBy(stream: StreamName): number;
  /**
   * The budgets of an exchange, and what others have reserved in them.
   * @param more of each budget, nano-dollars to count as reserved that the log does not show yet
   */
  roomsFor(
    exchange: WantingExchange,
    more: (scope: CountedBudget['scope'], subject: string) => number,
  ): readonly Room[];
  /** Whether the order of the log admits this amount of a request without a bound, if nothing precedes it. */
  fitsWithoutBound(room: Room, amount: number): boolean;
  /** Nano-dollars that are reserved for work which continues after its exchange, in all budgets of a path or label. */
  deferred(scope: CountedBudget['scope'], subject: string): number;
  whenProcessed(position: Position): Promise<void>;
}

export class SharedBudgetGate implements BudgetAdmission {
  readonly #ledger: SharedLedger;
  readonly #now: () => number;
  /** Nano-dollars of this gateway that the log does not show yet, by subject: all budgets of one path, or of one label. */
  readonly #unread = new SumsBySubject();
  readonly #requests: WaitingRequests<BudgetReservation>;
  /** Those whose decision has not been read. */
  readonly #waiting = new Map<StreamName, SharedReservation>();

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

  admit(request: AdmissionRequest, forecast: () => CostForecast): BudgetReservation | undefined {
    return this.#requests.admitNow(request, this.#deciding(request, forecast)).reservation;
  }

  admitWhenRoom(
    request: AdmissionRequest,
    forecast: () => CostForecast,
    signal: AbortSignal,
  ): AdmittedReservation<BudgetReservation> | Promise<AdmittedReservation<BudgetReservation>> {
    return this.#requests.admit(request, this.#deciding(request, forecast), signal);
  }

  #deciding(request: AdmissionRequest, forecast: () => CostForecast): Deciding<BudgetReservation> {
    const { caller, labels, exchangeId } = request;
    const stream = streamName('exchange', exchangeId);
    const unread = (scope: CountedBudget['scope'], subject: string) => this.#unread.get(`${scope}:${subject}`);
    return {
      rooms: () => this.#ledger.roomsFor({ stream, userPath: caller.userPath ?? '/', labels, at: this.#now() }, unread),
      forecast,
      fits: (room, { most }) => this.#ledger.fitsWithoutBound(room, most),
      now: this.#now,
      reservation: (share, expected, rooms) => this.#keep(request, share, { expected, rooms }),
      deferred: ({ budget }) => this.#ledger.deferred(budget.scope, budget.subject),
    };
  }

  /** The log was read further: reservations may have been released. */
  changed(): void {
    this.#requests.retry();
  }

  #keep(
    request: AdmissionRequest,
    share: BoundedShare,
    { expected, rooms }: { readonly expected: CostForecast; readonly rooms: readonly Room[] },
  ): SharedReservation {
    const subjects = subjectsOfRooms(rooms);
    const likely = likelyOf(expected);
    const reservation = new SharedReservation(request, rooms, {
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
        this.#requests.likely.add(subjects, -likely);
      },
    });
    reservation.want(share, expected);
    this.#requests.likely.add(subjects, likely);
    return reservation;
  }

  /** The log was read up to a reservation. @param exceeded the budget that has no room for it */
  read(stream: StreamName, exceeded: ExceededBudget | undefined): void {
    const reservation = this.#waiting.get(stream);
    this.#waiting.delete(stream);
    if (reservation !== undefined) reservation.read(exceeded);
    // One that nothing waits for corrects an earlier one, and may be lower.
    else this.changed();
  }
}

interface HoldParts {
  readonly ledger: SharedLedger;
  now(): number;
  unread(scope: CountedBudget['scope'], subject: string): number;
  changeUnread(subjects: readonly string[], change: number): void;
  await(stream: StreamName, reservation: SharedReservation): void;
  forget(stream: StreamName): void;
}

class SharedReservation implements BudgetReservation {
  readonly #parts: HoldParts;
  readonly #request: AdmissionRequest;
  readonly #stream: StreamName;
  readonly #subjects: readonly string[];
  /** The budgets at its admission. */
  readonly #rooms: readonly Room[];
  #wanted = { amount: 0, isBounded: true };
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

  constructor(request: AdmissionRequest, rooms: readonly Room[], parts: HoldParts) {
    this.#request = request;
    this.#parts = parts;
    this.#stream = streamName('exchange', request.exchangeId);
    this.#subjects = subjectsOfRooms(rooms);
    this.#rooms = rooms;
  }

  reserve(nano: number, bound?: number): void {
    this.expect({ least: nano, likely: nano, most: nano, bound, learned: true });
  }

  expect(forecast: CostForecast): void {
    const { ledger, now } = this.#parts;
    const { caller, labels } = this.#request;
    const at = now();
    const exchange = { stream: this.#stream, userPath: caller.userPath ?? '/', labels, at };
    const rooms = ledger.roomsFor(exchange, this.#others);
    const expected = completed(forecast, rooms.length === 0 ? this.#rooms : rooms);
    const fits: FitsWithoutBound = (room, { most }) => ledger.fitsWithoutBound(room, most);
    const share = shareOf(rooms, expected, fits);
    if (share === undefined) throw refusalOf(rooms, expected, fits, { at, caller });
    this.want(share, expected);
  }

  want({ amount: nano, limit }: BoundedShare, { bound }: Pick<CostForecast, 'bound'>): void {
    const amount = Math.ceil(nano);
    this.#wanted = { amount, isBounded: bound !== undefined || amount === 0 };
    this.limit = limit;
    this.#isDue = true;
    this.#showUnread(Math.max(0, amount - this.#parts.ledger.reservedBy(this.#stream)));
  }

  /** What frees less than half of the reservation is not worth an event. */
  correct(nano: number): RecordedReservation | undefined {
    const { amount: reserved, isBounded } = this.#wanted;
    const amount = Math.ceil(nano);
    if (!isBounded || (amount > reserved / 2 && amount <= reserved)) return undefined;
    this.#wanted = { amount, isBounded };
    return this.#recorded();
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

  /** What other exchanges of this gateway have reserved and the log does not show yet. */
  readonly #others = (scope: CountedBudget['scope'], subject: string): number => {
    const isOwn = this.#subjects.includes(`${scope}:${subject}`);
    return this.#parts.unread(scope, subject) - (isOwn ? this.#unread : 0);
  };

  #next(): RecordedReservation | undefined {
    if (!this.#isDue || this.#wanted.amount === 0) return undefined;
    this.#isDue = false;
    this.#decision = undefined;
    this.#parts.await(this.#stream, this);
    return this.#recorded();
  }

  #recorded(): RecordedReservation {
    const { amount, isBounded } = this.#wanted;
    const { labels } = this.#request;
    return { amount: String(amount), bounded: isBounded, ...(labels === undefined ? {} : { labels }) };
  }

  async #decided(position: Position): Promise<Refusal | undefined> {
    await this.#parts.ledger.whenProcessed(position);
    if (this.#decision === undefined) throw new Error(`the reservation of ${this.#stream} is not in the log`);
    const { exceeded } = this.#decision;
    if (exceeded === undefined) return undefined;
    return refusalOfBudget(exceeded.budget, exceeded.reserved, exceeded.at, this.#request.caller);
  }

  #showUnread(unread: number): void {
    if (unread === this.#unread) return;
    this.#parts.changeUnread(this.#subjects, unread - this.#unread);
    this.#unread = unread;
  }
}
