/** Gateways that read one log late, stop and are taken over: their budgets, without their servers. */
import { expect } from 'vitest';
import type { CountedBudget } from '../../src/commands/admission/budget-decision.ts';
import type { BudgetReservation } from '../../src/commands/admission/budget-gate.ts';
import { SharedBudgetGate } from '../../src/commands/admission/shared-budget-gate.ts';
import { Refusal } from '../../src/commands/refusal.ts';
import { costReserved } from '../../src/events/catalogue/exchange.ts';
import { type Position, type RecordedEvent, type StreamName, streamName } from '../../src/events/event.ts';
import {
  hasRoom,
  reservedBy,
  reservedFor,
  roomsFor,
  type SharedSpendState,
  sharedSpendView,
} from '../../src/projections/budget-reservations.ts';
import { type BudgetCounter, readCounter } from '../../src/projections/budgets.ts';
import { fold } from '../../src/projections/projection.ts';
import { requestFor } from '../admission/request.ts';
import { at, budget, MONDAY, used } from './history.ts';
import { type Account, context, deferred, ended, hourly, interrupted, refused, settled } from './reserved-history.ts';

/** A gateway that has read a part of the log. */
interface SimulatedGateway {
  state: SharedSpendState;
  read: number;
  gate: SharedBudgetGate;
  running: Map<StreamName, Running>;
}

interface Running {
  readonly account: Account;
  readonly reservation: BudgetReservation;
  readonly bound: number;
  /** How far its reservation is appended; undefined before that. */
  appended: number | undefined;
  called: boolean;
}

export const accounts: readonly Account[] = [
  { userPath: '/team/a' },
  { userPath: '/team/b', labels: ['jobs'] },
  { userPath: '/team/b', labels: ['jobs', 'night'] },
  { userPath: '/' },
];
const budgets: readonly RecordedEvent[] = [
  budget(MONDAY, 100, hourly),
  budget(MONDAY, 70, { subject: '/team', periodSeconds: 86_400 }),
  budget(MONDAY, 50, { scope: 'label', subject: 'jobs' }),
];

export class Simulation {
  readonly log: RecordedEvent[] = [...budgets];
  readonly gateways: SimulatedGateway[] = [];
  /** Exchanges whose provider was called and whose cost is not recorded, of gateways that have ended: with their costs. */
  readonly orphans = new Map<string, { readonly account: Account; readonly cost: number }>();
  readonly works = new Map<string, { readonly account: Account; readonly cost: number }>();
  now = MONDAY;
  /** What a gateway has that reads each event at once. */
  whole = fold(sharedSpendView, budgets);
  /** Numbers of the events whose reservations do not fit. */
  readonly #refused = new Set<number>();
  #exchanges = 0;

  constructor(count: number) {
    for (let n = 0; n < count; n++) this.gateways.push(this.#begin(sharedSpendView.initial(), 0));
  }

  #begin(state: SharedSpendState, read: number): SimulatedGateway {
    const view = (counter: BudgetCounter, ms: number): CountedBudget => ({
      ...counter,
      ...readCounter(counter, gateway.state.spend.budgets.settings, ms),
    });
    const gate = new SharedBudgetGate(
      {
        any: true,
        reservedBy: (stream) => reservedBy(gateway.state, stream),
        fitsWithoutBound: ({ budget, reserved }, amount) =>
          hasRoom({ counter: budget, spent: budget.spent, reserved }, { amount, isBounded: amount === 0 }),
        roomsFor: (exchange, more) =>
          roomsFor(gateway.state, exchange, ({ scope, subject }) => more(scope, subject)).map((room) => ({
            ...{ budget: view(room.counter, exchange.at), reserved: room.reserved, at: exchange.at },
          })),
        deferred: () => 0,
        whenProcessed: async () => {},
      },
      () => this.now,
    );
    const gateway: SimulatedGateway = { state, read, gate, running: new Map() };
    // A gateway reads the log to its end before its first request.
    this.read(gateway, this.log.length);
    return gateway;
  }

  /** At every position, each budget has what is reserved and spent. */
  #record(...events: readonly RecordedEvent[]): void {
    for (const event of events) {
      this.log.push(event);
      this.whole = sharedSpendView.apply(this.whole, event);
      if (event.type === costReserved.type && this.whole.refused !== undefined) this.#refused.add(this.log.length);
      const { counters, budgets: rules } = this.whole.spend;
      for (const counter of counters.values()) {
        const { spent } = readCounter(counter, rules.settings, event.at);
        const sum = spent + reservedFor(this.whole, counter.scope, counter.subject);
        expect(sum, `${counter.key} after ${event.type}`).toBeLessThanOrEqual(counter.amount);
      }
    }
  }

  request(gateway: SimulatedGateway, account: Account, bound: number): void {
    this.#exchanges += 1;
    const exchangeId = String(this.#exchanges);
    try {
      const forecast = { least: 0, likely: bound, most: bound, bound, learned: true };
      const reservation = gateway.gate.admit(requestFor({ exchangeId, ...account }), () => forecast);
      if (reservation === undefined) throw new Error('no budget concerns the request');
      const one: Running = { account, reservation, bound, appended: undefined, called: false };
      gateway.running.set(streamName('exchange', exchangeId), one);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
    }
  }

  /** Appends the reservations that wait, or changes one and appends it again. */
  append(gateway: SimulatedGateway): void {
    for (const [stream, one] of gateway.running) {
      const next = one.reservation.onLog?.next();
      // Without a change to record, the pipeline calls the provider.
      if (next === undefined) {
        if (one.appended === undefined) one.called = true;
        continue;
      }
      this.#record(at(this.now, costReserved.create(next, context(one.account.userPath)), stream));
      one.appended = this.log.length;
      one.called = false;
    }
  }

  read(gateway: SimulatedGateway, count: number): void {
    for (const event of this.log.slice(gateway.read, gateway.read + count)) {
      gateway.state = sharedSpendView.apply(gateway.state, event);
      gateway.read += 1;
      if (event.type !== costReserved.type) continue;
      const { refused: counter } = gateway.state;
      const { settings } = gateway.state.spend.budgets;
      gateway.gate.read(
        event.stream,
        counter && {
          budget: { ...counter.counter, ...readCounter(counter.counter, settings, event.at) },
          reserved: counter.reserved,
          at: event.at,
        },
      );
    }
  }

  /** What the log decided on the reservations that were read back: a call of the provider, or the end. */
  async decide(gateway: SimulatedGateway): Promise<void> {
    for (const [stream, one] of [...gateway.running]) {
      if (one.called || one.appended === undefined || one.appended > gateway.read) continue;
      const refusal = await one.reservation.onLog?.decided('0' as Position);
      expect(refusal !== undefined).toBe(this.#refused.has(one.appended));
      if (refusal === undefined) one.called = true;
      else this.#end(gateway, stream, one, [ended(this.now, stream.slice(9), refused)]);
    }
  }

  /** A paid attempt fails, and the next one reserves the whole again. */
  retry(gateway: SimulatedGateway, share: number): void {
    for (const [stream, one] of gateway.running) {
      if (!one.called) continue;
      const cost = Math.floor(one.bound * share);
      one.reservation.charge({ totalCost: String(cost), isFailed: true });
      if (cost === 0) return;
      this.#record(used(this.now, { cost, exchange: stream.slice(9), ...one.account }));
      one.called = false;
      one.appended = undefined;
      return;
    }
  }

  finish(gateway: SimulatedGateway, share: number, defers: boolean): void {
    for (const [stream, one] of gateway.running) {
      if (!one.called) continue;
      const exchange = stream.slice(9);
      const cost = Math.floor(one.bound * share);
      const end = ended(this.now, exchange);
      if (defers) {
        this.works.set(exchange, { account: one.account, cost });
        const amount = gateway.read === this.log.length ? String(one.reservation.defer()) : null;
        this.#end(gateway, stream, one, [end, deferred(this.now, exchange, amount, one.account)]);
      } else this.#end(gateway, stream, one, [end, used(this.now, { cost, exchange, ...one.account })]);
      return;
    }
  }

  #end(
    gateway: SimulatedGateway,
    stream: StreamName,
    { reservation }: Running,
    events: readonly RecordedEvent[],
  ): void {
    this.#record(...events);
    reservation.settle(true);
    gateway.running.delete(stream);
  }

  /** The process ends; a new one begins with a snapshot, or none. Its provider calls may go on until they are taken over. */
  crash(index: number, share: number, keepsSnapshot: boolean): void {
    const gateway = this.gateways[index];
    if (gateway === undefined) return;
    for (const [stream, { account, bound, appended }] of gateway.running) {
      if (appended !== undefined) this.orphans.set(stream.slice(9), { account, cost: Math.floor(bound * share) });
    }
    const saved: unknown = structuredClone(sharedSpendView.save?.(gateway.state));
    const state = keepsSnapshot ? sharedSpendView.load?.(saved) : undefined;
    this.gateways[index] = this.#begin(state ?? sharedSpendView.initial(), state === undefined ? 0 : gateway.read);
  }

  /** The heir closes an exchange: with the cost, when its provider was called. */
  takeOver(): void {
    const [first] = this.orphans;
    if (first === undefined) return;
    const [exchange, { account, cost }] = first;
    this.orphans.delete(exchange);
    const isCalled = this.whole.open.has(streamName('exchange', exchange));
    this.#record(ended(this.now, exchange, interrupted));
    // Of an answer without a recorded byte the cost stays unknown.
    if (isCalled && cost % 3 > 0) this.#record(used(this.now, { cost, exchange, ...account }));
  }

  settle(): void {
    const [first] = this.works;
    if (first === undefined) return;
    const [exchange, { account, cost }] = first;
    this.works.delete(exchange);
    this.#record(used(this.now, { cost, exchange, ...account }), settled(this.now, exchange));
  }
}
