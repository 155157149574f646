/**
 * Budgets where several gateways use the log: their spending, and the cost that open exchanges have reserved. The order of
 * the log decides which reservations fit, so every gateway comes to the same decisions, and together they reserve and
 * spend no more than a budget has.
 *
 * A reservation counts from its `cost.reserved` until usage replaces it, its exchange ends, or its work that continues
 * after the exchange is settled. When a gateway ends an exchange of another one that was killed or cut off, and nothing on
 * record tells what it cost, the reservation counts as spent: the provider may have served all of it. A reservation belongs
 * to no period: a new period, a reset and the end of a lease release nothing.
 */
import type { z } from 'zod';
import {
  costReserved,
  exchangeEnds,
  exchangeFailed,
  usageDeferred,
  usageRecorded,
  usageSettled,
} from '../events/catalogue/exchange.ts';
import { type EpochMs, pathsAbove, type RecordedEvent, type StreamName } from '../events/event.ts';
import { type BudgetCounter, readCounter } from './budgets.ts';
import { subjectKey } from './limits.ts';
import { isA, type Projection } from './projection.ts';
import { charge, countersOn, countersUnder, type SpendState, spendView } from './spend.ts';

/** What a cost is charged to. */
export interface CostAccount {
  readonly userPath: string;
  readonly labels?: readonly string[] | undefined;
}

interface OpenReservation extends CostAccount {
  readonly stream: StreamName;
  /** Of work that continues after its exchange. */
  readonly isDeferred?: boolean | undefined;
  /** Nano-dollars, like all amounts here. */
  readonly amount: number;
}

interface EndedReservation extends OpenReservation {
  /** Whether it counts as spent. */
  readonly isCharged: boolean;
}

/** A budget as one exchange sees it, or the one that has no room for it. */
export interface ExceededCounter {
  readonly counter: BudgetCounter;
  /** In the period at that time. */
  readonly spent: number;
  readonly reserved: number;
  /** End of that period, in milliseconds since the epoch. */
  readonly end: number;
}

export interface SharedSpendState {
  spend: SpendState;
  readonly open: Map<StreamName, OpenReservation>;
  /** The sum of the open reservations of each user path, those below it included, and of each label; by `subjectKey`. */
  readonly reserved: Map<string, number>;
  /** The reservation of the exchange whose end was the last event: its usage may follow. */
  ended: EndedReservation | undefined;
  /** Set by each `cost.reserved`: why its reservation does not fit; undefined when it does. */
  refused: ExceededCounter | undefined;
}

/** A request whose cost has no bound leaves this part of each budget free. */
const UNBOUNDED_MARGIN = 0.1;

export const sharedSpendView: Projection<SharedSpendState> = {
  name: 'shared-spend',
  version: 4,
  filter: {
    types: [
      ...(spendView.filter.types ?? []),
      costReserved.type,
      ...exchangeEnds,
      usageDeferred.type,
      usageSettled.type,
    ],
  },
  initial: () => ({
    spend: spendView.initial(),
    open: new Map(),
    reserved: new Map(),
    ended: undefined,
    refused: undefined,
  }),
  apply(state, event) {
    const { ended } = state;
    state.ended = undefined;
    if (isA(event, costReserved)) reserve(state, event);
    else if (exchangeEnds.has(event.type)) state.ended = end(state, event);
    else if (isA(event, usageSettled)) release(state, event.stream);
    else if (isA(event, usageDeferred)) defer(state, event, ended);
    else {
      state.spend = spendView.apply(state.spend, event);
      if (isA(event, usageRecorded)) spend(state, event, ended);
    }
    return state;
  },
  save: ({ spend, ...saved }) => ({ ...saved, spend: spendView.save?.(spend) }),
  load(given) {
    const { spend, ...saved } = given as SharedSpendState;
    return { ...saved, spend: spendView.load?.(spend) ?? spendView.initial() };
  },
};

/** Nano-dollars that an exchange has reserved. */
export function reservedBy({ open }: SharedSpendState, stream: StreamName): number {
  return open.get(stream)?.amount ?? 0;
}

/** Nano-dollars that are reserved for all budgets of a path or label. */
export function reservedFor({ reserved }: SharedSpendState, scope: 'user_path' | 'label', subject: string): number {
  return reserved.get(subjectKey(scope, subject)) ?? 0;
}

/** Of it, nano-dollars for work that continues after its exchange. */
export function deferredFor({ open }: SharedSpendState, scope: 'user_path' | 'label', subject: string): number {
  const key = subjectKey(scope, subject);
  let sum = 0;
  for (const one of open.values()) if (one.isDeferred === true && subjectsOf(one).includes(key)) sum += one.amount;
  return sum;
}

export interface WantedReservation extends CostAccount {
  readonly stream: StreamName;
  readonly amount: number;
  readonly isBounded: boolean;
  readonly at: EpochMs;
}

/** Whether the budget has room for the reservation. */
export function hasRoom(
  {
    counter,
    spent,
    reserved,
  }: Pick<ExceededCounter, 'spent' | 'reserved'> & { readonly counter: Pick<BudgetCounter, 'amount'> },
  { amount, isBounded }: Pick<WantedReservation, 'amount' | 'isBounded'>,
): boolean {
  const margin = isBounded ? 0 : counter.amount * UNBOUNDED_MARGIN;
  return spent < counter.amount && spent + reserved + amount + margin <= counter.amount;
}

/**
 * The budgets of an exchange, with what is spent and what others have reserved.
 * @param more nano-dollars to count as reserved that the log does not show yet
 */
export function roomsFor(
  state: SharedSpendState,
  { stream, userPath, labels, at }: Omit<WantedReservation, 'amount' | 'isBounded'>,
  more: (counter: BudgetCounter) => number = () => 0,
): ExceededCounter[] {
  const { spend } = state;
  const own = reservedBy(state, stream);
  const counters = [...countersOn(spend, userPath), ...(labels ?? []).flatMap((label) => countersUnder(spend, label))];
  return counters.map((counter) => {
    const { spent, end } = readCounter(counter, spend.budgets.settings, at);
    return { counter, spent, reserved: reservedFor(state, counter.scope, counter.subject) - own + more(counter), end };
  });
}

function reserve(state: SharedSpendState, event: RecordedEvent<string, z.infer<typeof costReserved.data>>): void {
  const { stream, at, context, data } = event;
  const { bounded: isBounded, labels } = data;
  const wanted = { stream, userPath: context.userPath ?? '/', labels, amount: Number(data.amount), isBounded, at };
  const exceeded = roomsFor(state, wanted).filter((room) => !hasRoom(room, wanted));
  // The one whose period ends last determines when a retry can succeed.
  state.refused = exceeded.toSorted((one, other) => other.end - one.end)[0];
  if (state.refused === undefined) replace(state, wanted);
}

/** @param ended what the end before it released: a gateway that closes the exchange of another one does not know the amount */
function defer(
  state: SharedSpendState,
  { stream, at, context, data }: RecordedEvent<string, z.infer<typeof usageDeferred.data>>,
  ended: EndedReservation | undefined,
): void {
  const released = ended?.stream === stream ? ended.amount : 0;
  if (ended?.isCharged === true && released > 0) chargeReservation(state, ended, at, -released);
  const amount = data.reservedCost === null ? released : Number(data.reservedCost);
  if (amount > 0)
    replace(state, { stream, userPath: context.userPath ?? '/', labels: data.labels, amount, isDeferred: true });
}

/** The gateway that ends an exchange of another one, or one that the log did not take in time, does not know what the provider served. */
function end(state: SharedSpendState, event: RecordedEvent): EndedReservation | undefined {
  const released = release(state, event.stream);
  if (released === undefined) return undefined;
  const isCharged =
    isA(event, exchangeFailed) &&
    event.context.actor === 'system' &&
    (event.data.reason === 'gateway_stopped' || event.data.reason === 'log_unavailable');
  if (isCharged) chargeReservation(state, released, event.at, released.amount);
  return { ...released, isCharged };
}

function chargeReservation(state: SharedSpendState, account: CostAccount, at: number, nano: number): void {
  charge(state.spend, { ...account, labels: account.labels, at, nano, isNow: nano > 0 });
}

/** The cost that is known, from the provider's report or from the recorded text, replaces the reservation. */
function spend(
  state: SharedSpendState,
  { stream, at, data }: RecordedEvent<string, z.infer<typeof usageRecorded.data>>,
  ended: EndedReservation | undefined,
): void {
  const spent = Number(data.totalCost ?? 0);
  replaceBySpent(state, stream, spent);
  if (ended?.stream !== stream || !ended.isCharged) return;
  if (data.totalCost !== null) chargeReservation(state, ended, at, -ended.amount);
}

function replaceBySpent(state: SharedSpendState, stream: StreamName, spent: number): void {
  const before = state.open.get(stream);
  if (before !== undefined) replace(state, { ...before, amount: Math.max(0, before.amount - spent) });
}

function replace(state: SharedSpendState, { stream, userPath, labels, amount, isDeferred }: OpenReservation): void {
  release(state, stream);
  state.open.set(stream, { stream, userPath, labels, amount, ...(isDeferred === true ? { isDeferred } : {}) });
  add(state, { userPath, labels }, amount);
}

function release(state: SharedSpendState, stream: StreamName): OpenReservation | undefined {
  const before = state.open.get(stream);
  if (before === undefined) return undefined;
  state.open.delete(stream);
  add(state, before, -before.amount);
  return before;
}

function add({ reserved }: SharedSpendState, account: CostAccount, change: number): void {
  if (change === 0) return;
  for (const subject of subjectsOf(account)) {
    const sum = (reserved.get(subject) ?? 0) + change;
    if (sum > 0) reserved.set(subject, sum);
    else reserved.delete(subject);
  }
}

/** Every path and label whose budgets the cost is charged to. */
export function subjectsOf({ userPath, labels = [] }: CostAccount): string[] {
  const paths = pathsAbove(userPath).map((path) => subjectKey('user_path', path));
  return [...paths, ...new Set(labels.map((label) => subjectKey('label', label)))];
}
