/**
 * Admits requests while their budgets last, where several gateways use the log. A reservation is recorded before the
 * provider is called, and the order of the log decides whether it fits: every gateway reads the same decision. Before
 * anything is recorded, the request is refused when it does not fit into what the log shows, with the reservations of this
 * gateway that the log does not show yet.
 *
 * Each reservation is the most that the request can cost. A request without such a bound reserves its likely cost, and
 * is refused in the last tenth of a budget.
 */
import type { Position, StreamName } from '../../events/event.ts';
import { streamName } from '../../events/event.ts';
import type { AdmissionRequest, Charge, ReservationOnLog } from '../model-request/admission.ts';
import type { Refusal } from '../refusal.ts';
import {
  type BudgetAdmission,
  type BudgetHold,
  type BudgetMeter,
  refusalOfBudget,
  type SpendLedger,
  shareOf,
} from './budget-gate.ts';
import type { CostForecast } from './cost-forecast.ts';

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
  whenProcessed(position: Position): Promise<void>;
}

export class SharedBudgetGate implements BudgetAdmission {
  readonly #ledger: SharedLedger;
  readonly #now: () => number;
  /** Nano-dollars of this gateway that the log does not show yet, by subject: all budgets of one path, or of one label. */
  readonly #unread = new Map<string, number>();
  /** Those whose decision has not been read. */
  readonly #waiting = new Map<StreamName, SharedHold>();

  /** @param now milliseconds since the epoch */
  constructor(ledger: SharedLedger, now: () => number) {
    this.#ledger = ledger;
    this.#now = now;
  }

  get isOpen(): boolean {
    return !this.#ledger.any;
  }

  admit(request: AdmissionRequest, forecast: () => CostForecast): BudgetHold | undefined {
    const { caller, labels } = request;
    const meters = this.#ledger.metersOf(caller.userPath ?? '/', labels, this.#now());
    if (meters.length === 0) return undefined;
    const hold = new SharedHold(request, meters, {
      ledger: this.#ledger,
      now: this.#now,
      unread: (scope, subject) => this.#unread.get(`${scope}:${subject}`) ?? 0,
      changeUnread: (subjects, change) => this.#changeUnread(subjects, change),
      await: (stream, one) => this.#waiting.set(stream, one),
      forget: (stream) => this.#waiting.delete(stream),
    });
    hold.expect(forecast());
    return hold;
  }

  /** The log was read up to a reservation. @param exceeded the budget that has no room for it */
  read(stream: StreamName, exceeded: ExceededBudget | undefined): void {
    const hold = this.#waiting.get(stream);
    if (hold === undefined) return;
    this.#waiting.delete(stream);
    hold.read(exceeded);
  }

  #changeUnread(subjects: readonly string[], change: number): void {
    for (const subject of subjects) {
      const left = (this.#unread.get(subject) ?? 0) + change;
      if (left > 0) this.#unread.set(subject, left);
      else this.#unread.delete(subject);
    }
  }
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
    this.#subjects = [...new Set(meters.map(({ scope, subject }) => `${scope}:${subject}`))];
    this.#share = shareOf(meters);
  }

  reserve(nano: number, bound?: number): void {
    this.#want({ amount: Math.ceil(bound ?? nano), isBounded: bound !== undefined });
  }

  expect({ bound, likely, most }: CostForecast): void {
    const amount = Math.ceil(bound ?? Math.max(likely ?? this.#share, most ?? 0));
    this.#want({ amount, isBounded: bound !== undefined || amount === 0 });
  }

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
    const { ledger, unread } = this.#parts;
    const own = this.#unread;
    const isOwn = (scope: string, subject: string) => this.#subjects.includes(`${scope}:${subject}`);
    const others = (scope: BudgetMeter['scope'], subject: string) =>
      unread(scope, subject) - (isOwn(scope, subject) ? own : 0);
    const exceeded = ledger.exceededBy(this.#costOf(wanted), others);
    if (exceeded !== undefined) throw this.#refusal(exceeded);
    this.#wanted = wanted;
    this.#isDue = true;
    this.#showUnread(Math.max(0, wanted.amount - ledger.reservedBy(this.#stream)));
  }

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
