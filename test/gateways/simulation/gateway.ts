/** A gateway of the simulation: the product's code of leases over a simulated log, and requests in their simplest form. */

import { InheritedExchanges } from '../../../src/commands/exchange/background/open-exchange-tracker.ts';
import { FencedLog } from '../../../src/commands/gateways/fenced-log.ts';
import { type KnownLeases, Lease } from '../../../src/commands/gateways/lease.ts';
import { Inheritance, LeaseKeeper } from '../../../src/commands/gateways/lease-keeper.ts';
import { exchangeCompleted, exchangeFailed, requestReceived } from '../../../src/events/catalogue/exchange.ts';
import { idempotencyKeyClaimed } from '../../../src/events/catalogue/response.ts';
import {
  type EventContext,
  type NewEvent,
  type Position,
  type RecordedEvent,
  START,
  type StreamName,
  streamName,
} from '../../../src/events/event.ts';
import { type Appended, LogUnavailable, WrongExpectedRevision } from '../../../src/events/log.ts';
import { type InFlight, inFlight, openExchanges } from '../../../src/projections/in-flight.ts';
import { leasesView } from '../../../src/projections/leases.ts';
import { BudgetFold, reservation, usage } from './budget-fold.ts';
import { type OrderedAppend, SimulatedLog } from './simulated-log.ts';
import type { SimulatedProcess } from './virtual-time.ts';
import type { Request, World } from './world.ts';

const context: EventContext = { actor: 'system' };
export const leaseMs = 1000;
const isFolded: ReadonlySet<string> = new Set(inFlight.filter?.types);
const isEnd = (type: string) => type === exchangeCompleted.type || type === exchangeFailed.type;

/** Waits for positions that are reached in their order. */
class Reached {
  position: Position = START;
  #waiting: { readonly position: Position; readonly resolve: () => void }[] = [];

  to(position: Position): void {
    this.position = position;
    const due = this.#waiting.filter((one) => one.position <= position);
    if (due.length === 0) return;
    this.#waiting = this.#waiting.filter((one) => one.position > position);
    for (const { resolve } of due) resolve();
  }

  when(position: Position): Promise<void> {
    if (position <= this.position) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ position, resolve }));
  }
}

export class SimulatedGateway {
  readonly process: SimulatedProcess;
  readonly #world: World;
  readonly #log: SimulatedLog;
  readonly #fenced: FencedLog;
  readonly #granted = leasesView.initial();
  readonly #inheritance = new Inheritance();
  readonly #read = new Reached();
  readonly #applied = new Reached();
  /** Changes of the configuration that were read and are not in force yet. */
  readonly #unapplied: Position[] = [];
  /** Of the latest change of the configuration that was read. */
  #changedAt: Position = START;
  readonly #budget: BudgetFold;
  /** Exchanges that run here, or whose end is still to be recorded here. */
  readonly #running = new Set<StreamName>();
  readonly #followers = new Map<StreamName, (() => void)[]>();
  readonly #inherited: InheritedExchanges;
  readonly #leases: KnownLeases;
  #open: InFlight = inFlight.initial();
  #changing = Promise.withResolvers<void>();
  #lease: Lease | undefined;
  #keeper: LeaseKeeper | undefined;
  /** Whether it serves requests. */
  isServing = false;

  constructor(world: World, process: SimulatedProcess) {
    this.#world = world;
    this.process = process;
    const { order, random, mutation } = world;
    this.#budget = new BudgetFold(mutation.budget);
    this.#log = new SimulatedLog({
      ...{ order, process, random, faults: () => world.faultsOf(process) },
      read: (append) => this.#readAppend(append),
      change: mutation.writes,
    });
    this.#fenced = new FencedLog(this.#log.port);
    this.#leases = {
      granted: this.#granted,
      whenProcessed: (position) => this.#read.when(position),
      changed: () => this.#changing.promise,
    };
    this.#inherited = new InheritedExchanges({
      open: () => (mutation.inherits === false ? [] : this.#leftToMe()),
      whenProcessed: (position) => this.#read.when(position),
      close: (streams) => this.#closeAll(streams).then(() => []),
      resume: () => {},
      onError: (error) => world.expectUnavailable(error),
      retryMs: leaseMs / 3,
      after: process.after,
    });
  }

  get gateway(): string | undefined {
    return this.#lease?.gateway;
  }

  /** @param folder id of its data folder */
  async start(folder: string): Promise<void> {
    const { process } = this;
    await this.#read.when(this.#world.order.head);
    const lease = await this.#takeLease(folder);
    this.#lease = lease;
    this.#log.writer = lease.gateway;
    this.#inheritance.gateway = lease.gateway;
    const keeper = new LeaseKeeper({
      ...{ lease, leaseMs, leases: this.#leases, now: process.clock, every: process.every, after: process.after },
      applied: this.#world.mutation.applied ?? ((position) => this.#applied.when(position)),
      expired: () => {},
      onError: (error) => this.#world.expectUnavailable(error),
    });
    this.#keeper = keeper;
    this.#fenced.use({
      lease,
      appliedEverywhere: this.#world.mutation.appliedEverywhere ?? ((position) => keeper.appliedEverywhere(position)),
      processed: (position) => this.#applied.when(position),
      knownToOthers: this.#world.mutation.knownToOthers ?? (() => keeper.knownToOthers()),
      hasOthers: this.#world.mutation.hasOthers ?? (() => keeper.hasOthers()),
    });
    if (this.#changedAt > lease.grantedAt) keeper.changeRead(this.#changedAt);
    void lease.lost.then(() => this.#world.lost(this));
    this.#inheritance.passTo((position) => void this.#inherited.take(position));
    this.#inherited.begin();
    void this.#inherited.take(this.#read.position);
    await this.#applied.when(this.#read.position);
    this.isServing = true;
  }

  async #takeLease(folder: string): Promise<Lease> {
    for (;;) {
      try {
        const { clock } = this.process;
        const { wallClock = this.process.wallClock } = this.#world.mutation;
        const options = { log: this.#log.port, leases: this.#leases, folder, leaseMs, now: clock, wallClock };
        return await Lease.take(options);
      } catch (error) {
        this.#world.expectUnavailable(error);
        await this.process.sleep(50);
      }
    }
  }

  /** Ends without waiting for what runs. */
  async stop(): Promise<void> {
    this.isServing = false;
    this.#keeper?.stop();
    if (this.#lease === undefined) return;
    await this.#lease.end([]).catch((error) => this.#world.expectUnavailable(error));
  }

  kill(): void {
    this.isServing = false;
    this.#keeper?.stop();
    this.process.kill();
    this.#world.order.remove(this.#log);
  }

  #readAppend({ events, result }: OrderedAppend): void {
    for (const event of events) this.#readEvent(event);
    if (result instanceof Error) return;
    this.#read.to(result.position);
    if (this.#unapplied.length === 0) this.#applied.to(result.position);
  }

  #readEvent(event: RecordedEvent): void {
    const { stream, type, position } = event;
    if (isFolded.has(type)) this.#open = inFlight.apply(this.#open, event);
    this.#budget.apply(event);
    if (stream.startsWith('lease-') || stream.startsWith('gateway-')) {
      leasesView.apply(this.#granted, event);
      this.#inheritance.read(event);
      const changed = this.#changing;
      this.#changing = Promise.withResolvers<void>();
      changed.resolve();
    } else if (isEnd(type)) {
      for (const resume of this.#followers.get(stream) ?? []) resume();
      this.#followers.delete(stream);
    }
    if (!stream.startsWith('key-')) return;
    this.#unapplied.push(position);
    this.process.after(this.#world.random.between(0, 30), () => this.#applyNext());
    this.#changedAt = position;
    this.#keeper?.changeRead(position);
  }

  #applyNext(): void {
    const position = this.#unapplied.shift() ?? START;
    this.#applied.to(this.#unapplied.length === 0 ? this.#read.position : position);
  }

  /** An administrator changes the configuration. */
  async change(): Promise<void> {
    try {
      const stream = streamName('key', '1');
      const { position } = await this.#fenced.append([
        { stream, events: [{ type: 'key.changed', schema: 1, data: {}, context }], expectedRevision: 'any' },
      ]);
      // As routes wait for the projection that they show.
      await this.#applied.when(position);
      this.#world.checks.confirmed(position);
    } catch (error) {
      this.#world.expectUnavailable(error);
    }
  }

  async serve(request: Request): Promise<void> {
    const { checks } = this.#world;
    // A client gets 503 and tries another gateway.
    if (!this.isServing || this.#lease?.isValid !== true) return;
    checks.acts(this.#lease.gateway, this.#applied.position);
    checks.seen.requests += 1;
    try {
      await this.#answer(request, this.#lease.gateway);
    } catch (error) {
      this.#world.expectUnavailable(error);
    }
  }

  async #answer(request: Request, gateway: string): Promise<void> {
    const stream = streamName('exchange', request.id);
    const claims = streamName('idempotency', request.key);
    let appended: Appended | undefined;
    while (appended === undefined) {
      const newest = this.#log.known(claims).at(-1);
      if (newest !== undefined && (await this.#isAnswered(newest))) return;
      const claim = idempotencyKeyClaimed.create({ exchangeId: request.id, requestDigest: '' }, context);
      this.#running.add(stream);
      appended = await this.#begin(stream, gateway, request, {
        stream: claims,
        events: [claim],
        expectedRevision: newest?.revision ?? 'noStream',
      });
    }
    await this.#run(stream, request);
  }

  /** Waits for the end of the exchange that has the key. @returns whether it has an answer */
  async #isAnswered(claim: RecordedEvent): Promise<boolean> {
    const { exchangeId } = claim.data as { exchangeId: string };
    const held = streamName('exchange', exchangeId);
    const end = () => this.#log.known(held).find(({ type }) => isEnd(type));
    if (end() === undefined) {
      this.#world.checks.seen.follows += 1;
      await new Promise<void>((resolve) => {
        this.#followers.set(held, [...(this.#followers.get(held) ?? []), resolve]);
      });
    }
    return end()?.type === exchangeCompleted.type;
  }

  /** @returns undefined when another request has the key meanwhile */
  async #begin(
    stream: StreamName,
    gateway: string,
    { bound }: Request,
    claim: Parameters<FencedLog['append']>[0][number],
  ): Promise<Appended | undefined> {
    try {
      const events = [received(gateway), reservation(bound)];
      return await this.#fenced.append([{ stream, events, expectedRevision: 'noStream' }, claim]);
    } catch (error) {
      if (error instanceof WrongExpectedRevision && error.stream === claim.stream) return undefined;
      this.#leaveOpen(stream, error);
      throw error;
    }
  }

  async #run(stream: StreamName, { id, bound, cost, providerMs, read }: Request): Promise<void> {
    const { checks } = this.#world;
    try {
      if (this.#budget.fits(stream)) {
        checks.called(id, bound);
        await this.process.sleep(providerMs);
        const response = streamName('response', id);
        const events = [exchangeCompleted.create(completed, context), usage(cost)];
        const kept = { type: 'response.stored', schema: 1, data: {}, context };
        const { position } = await this.#fenced.append([
          { stream, events, expectedRevision: this.#revision(stream) },
          { stream: response, events: [kept], expectedRevision: 'noStream' },
        ]);
        if (read !== undefined) this.#world.readElsewhere(read, response, position);
      } else {
        checks.seen.refusals += 1;
        await this.#fenced.append([{ stream, events: [failed], expectedRevision: this.#revision(stream) }]);
      }
      this.#running.delete(stream);
    } catch (error) {
      this.#leaveOpen(stream, error);
      throw error;
    }
  }

  /** A client reads what another gateway has stored for it. */
  async read(stream: StreamName): Promise<void> {
    if (!this.isServing || this.#lease?.isValid !== true) return;
    try {
      let found = 0;
      for await (const _ of this.#fenced.readStream(stream)) found += 1;
      this.#world.checks.found(found);
    } catch (error) {
      this.#world.expectUnavailable(error);
    }
  }

  #revision(stream: StreamName): bigint {
    const last = this.#log.known(stream).at(-1);
    if (last === undefined) throw new Error(`nothing is known of ${stream}`);
    return last.revision;
  }

  /** Its end could not be recorded: that is tried until it is there, or the lease has ended. */
  #leaveOpen(stream: StreamName, error: unknown): void {
    if (!(error instanceof LogUnavailable) || this.#lease?.isLost === true) return;
    this.process.after(leaseMs / 4, () => {
      void this.#closeLeftOpen(stream).catch((failure) => {
        this.#world.expectUnavailable(failure);
        this.#leaveOpen(stream, failure);
      });
    });
  }

  async #closeLeftOpen(stream: StreamName): Promise<void> {
    // What was sent before is recorded now, or never.
    await this.#lease?.append([]);
    await this.#close(stream);
    this.#running.delete(stream);
  }

  #leftToMe(): StreamName[] {
    const left = openExchanges(this.#open).filter(
      ({ stream, exchange }) =>
        exchange.gateway === this.gateway && exchange.isInherited === true && !this.#running.has(stream),
    );
    return left.map(({ stream }) => stream);
  }

  async #closeAll(streams: readonly StreamName[]): Promise<void> {
    for (const stream of streams) await this.#close(stream);
  }

  async #close(stream: StreamName): Promise<void> {
    const events = this.#log.known(stream);
    const last = events.at(-1);
    if (last === undefined || events.some(({ type }) => isEnd(type))) return;
    await this.#fenced.append([{ stream, events: [failed], expectedRevision: last.revision }]);
  }
}

const failed = exchangeFailed.create(
  { status: 503, type: '', code: null, message: '', reason: 'gateway_stopped', chunks: 0, durationMs: 0 },
  context,
);

const completed = {
  ...{ status: 200, attempt: 1, provider: 'p', finishReason: null, chunks: 1, bytes: 1, durationMs: 1 },
};

function received(gateway: string): NewEvent {
  return requestReceived.create(
    {
      ...{ dialect: 'chat', method: 'POST', path: '/', headers: {}, stream: false, gateway },
      ...{ authMethod: 'api_key', capture: 'metadata' },
    },
    context,
  );
}
