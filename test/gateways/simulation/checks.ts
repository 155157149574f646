/** What must be true at every place of the order, computed apart from the code under test. */
import type { z } from 'zod';
import { requestReceived, usageRecorded } from '../../../src/events/catalogue/exchange.ts';
import { leaseEnded, leaseGranted } from '../../../src/events/catalogue/gateway.ts';
import { idOf, type Position, type RecordedEvent, START } from '../../../src/events/event.ts';
import { type InFlight, inFlight } from '../../../src/projections/in-flight.ts';
import { BUDGET } from './budget-fold.ts';
import type { OrderedAppend } from './simulated-log.ts';

export class Violation extends Error {}

interface OpenExchange {
  owner: string | undefined;
  /** Upper bound of what it costs, from the call of its provider on. */
  bound: number;
}

export class Checks {
  /** Leases that last, in the order of their grants. */
  readonly #lasting = new Map<string, number>();
  readonly #ended = new Set<string>();
  readonly open = new Map<string, OpenExchange>();
  readonly #closed = new Set<string>();
  #folded: InFlight = inFlight.initial();
  #spent = 0;
  /** Up to it, administrators were told that every gateway acts on their changes. */
  #confirmed: Position = START;
  /** By what has happened in it, so that a test can state that the histories reach the cases. */
  readonly seen = { takeovers: 0, requests: 0, calls: 0, refusals: 0, changes: 0, inherited: 0, reads: 0, follows: 0 };

  /** @param writer the gateway whose process has sent it; empty before it has a lease */
  recorded({ events, result }: OrderedAppend, writer: string): void {
    if (result instanceof Error) return;
    if (writer !== '' && this.#ended.has(writer)) {
      throw new Violation('an append of a gateway whose lease has ended was accepted');
    }
    let changesLeases = false;
    for (const event of events) {
      this.#check(event, writer);
      if (inFlight.filter?.types?.includes(event.type) === true) this.#folded = inFlight.apply(this.#folded, event);
      changesLeases ||= event.type === leaseEnded.type || event.type === leaseGranted.type;
    }
    if (changesLeases) this.#compareOwners();
  }

  #check(event: RecordedEvent, writer: string): void {
    const id = idOf(event.stream);
    if (event.type === leaseGranted.type) {
      this.#grant(id, event);
    } else if (event.type === leaseEnded.type) {
      this.#end(id, event);
    } else if (event.type === requestReceived.type) {
      if (this.open.has(id) || this.#closed.has(id)) throw new Violation('an exchange began twice');
      this.open.set(id, { owner: writer, bound: 0 });
    } else if (event.type === usageRecorded.type) {
      this.#spent += Number((event.data as { totalCost: string }).totalCost);
    } else if (event.type.startsWith('exchange.') || event.type === 'request.refused') {
      this.#close(id, writer);
    }
  }

  #grant(id: string, event: RecordedEvent): void {
    this.#lasting.set(id, Number(event.position));
    for (const exchange of this.open.values()) exchange.owner ??= id;
  }

  #end(id: string, event: RecordedEvent): void {
    if (!this.#lasting.delete(id)) throw new Violation('a lease ended twice');
    this.#ended.add(id);
    const { reason, heir = this.#oldest() } = event.data as z.infer<typeof leaseEnded.data>;
    if (heir !== undefined && !this.#lasting.has(heir)) throw new Violation('the heir has no lease');
    if (reason === 'expired') this.seen.takeovers += 1;
    for (const exchange of this.open.values()) {
      if (exchange.owner !== id) continue;
      exchange.owner = heir;
      this.seen.inherited += 1;
    }
  }

  #oldest(): string | undefined {
    return this.#lasting.keys().next().value;
  }

  #close(id: string, writer: string): void {
    const exchange = this.open.get(id);
    if (exchange === undefined) throw new Violation('an exchange ended twice');
    if (exchange.owner !== writer) throw new Violation('an exchange was ended by a gateway that does not own it');
    this.open.delete(id);
    this.#closed.add(id);
  }

  #compareOwners(): void {
    if (this.#folded.exchanges.size !== this.open.size) throw new Violation('the fold has other open exchanges');
    for (const [id, { owner }] of this.open) {
      if (this.#folded.exchanges.get(id)?.gateway !== owner)
        throw new Violation('the fold has another owner of an exchange');
      if (owner === undefined && this.#lasting.size > 0) throw new Violation('an exchange has no owner');
    }
  }

  /** The provider of an exchange is called. */
  called(id: string, bound: number): void {
    this.seen.calls += 1;
    const exchange = this.open.get(id);
    if (exchange === undefined) throw new Violation('a provider was called for an exchange that has ended');
    exchange.bound = bound;
    const reserved = [...this.open.values()].reduce((sum, { bound }) => sum + bound, 0);
    if (this.#spent + reserved > BUDGET) throw new Violation('reserved and spent exceed the budget');
  }

  /** @param count how many events of something that was stored and answered before were found through another gateway */
  found(count: number): void {
    this.seen.reads += 1;
    if (count === 0) throw new Violation('what a client has stored was not found through another gateway');
  }

  confirmed(position: Position): void {
    this.seen.changes += 1;
    if (position > this.#confirmed) this.#confirmed = position;
  }

  /** A gateway that believes in its lease does something for which it needs neither the log nor anybody else. */
  acts(gateway: string, applied: Position): void {
    if (this.#ended.has(gateway)) throw new Violation('a gateway believes in a lease that has ended');
    if (applied < this.#confirmed) throw new Violation('a gateway acts on a configuration that was changed');
  }
}
