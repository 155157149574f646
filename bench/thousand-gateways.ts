/**
 * Leases of many gateways on one log, in virtual time with the code of the gateway: renewals, changes of the
 * configuration, takeovers after one gateway and after half of them have failed.
 * `node scripts/run.mjs bench/thousand-gateways.ts [gateways…]`
 *
 * The log is a model: an append needs `networkMs` to the engine, takes its turn there, and is read by each gateway after
 * `networkMs` and the time that reading takes. The rates are those of docs/scale.md.
 */
import { FencedLog } from '../src/commands/gateways/fenced-log.ts';
import { type KnownLeases, Lease } from '../src/commands/gateways/lease.ts';
import { LeaseKeeper } from '../src/commands/gateways/lease-keeper.ts';
import { leaseEnded } from '../src/events/catalogue/gateway.ts';
import { idOf, type Position, START, streamName } from '../src/events/event.ts';
import type { Appended, EventLog, StreamWrite } from '../src/events/log.ts';
import { leasesView } from '../src/projections/leases.ts';
import { createChance } from '../test/crash/random.ts';
import { type OrderedAppend, SimulatedOrder } from '../test/gateways/simulation/simulated-log.ts';
import { SimulatedProcess, VirtualTime } from '../test/gateways/simulation/virtual-time.ts';

const leaseMs = 10_000;
/** One way. */
const networkMs = 1;
/** 44,900 events/s in appends of three. */
const orderMs = 3 / 44.9;
/** Processor time of a gateway for an append of another one. */
const readMs = 0.0147;
const changes = 10;
const random = createChance(1);

interface Pending {
  resolve(appended: Appended): void;
  reject(error: Error): void;
}

class BenchGateway {
  readonly process: SimulatedProcess;
  readonly #order: SimulatedOrder;
  readonly #engine: Engine;
  readonly #pending = new Map<number, Pending>();
  readonly #granted = leasesView.initial();
  readonly #waiting: { readonly position: Position; readonly resolve: () => void }[] = [];
  readonly fenced: FencedLog;
  readonly #leases: KnownLeases;
  #changed = Promise.withResolvers<void>();
  #read = 0;
  #position: Position = START;
  #isReading = false;
  #freeAt = 0;
  #keeper: LeaseKeeper | undefined;
  lease: Lease | undefined;

  constructor(engine: Engine) {
    this.#engine = engine;
    this.#order = engine.order;
    this.process = new SimulatedProcess({ time: engine.order.time, rate: 1 });
    this.fenced = new FencedLog(this.#port);
    this.#leases = {
      granted: this.#granted,
      whenProcessed: (position) => this.#whenProcessed(position),
      changed: () => this.#changed.promise,
    };
    this.#order.add(this);
    this.wake();
  }

  get #port(): EventLog {
    const log = {
      append: (writes: readonly StreamWrite[]) => this.#append(writes),
      head: async () => this.#position,
      status: () => ({ head: this.#position }),
    };
    return log as unknown as EventLog;
  }

  async start(folder: string): Promise<void> {
    await this.#whenProcessed(this.#order.head);
    const { clock, every, after } = this.process;
    const wallClock = clock;
    const leases = this.#leases;
    const lease = await Lease.take({ log: this.#port, leases, folder, leaseMs, now: clock, wallClock });
    const keeper = new LeaseKeeper({
      ...{ lease, leaseMs, leases, now: clock, every, after },
      applied: (position) => this.#whenProcessed(position),
      expired: () => {},
      onError: (error) => console.error(error),
    });
    this.fenced.use({
      lease,
      appliedEverywhere: (position) => keeper.appliedEverywhere(position),
      processed: (position) => this.#whenProcessed(position),
      hasOthers: () => keeper.hasOthers(),
      knownToOthers: () => keeper.knownToOthers(),
    });
    this.lease = lease;
    this.#keeper = keeper;
  }

  kill(): void {
    this.#keeper?.stop();
    this.process.kill();
    this.#order.remove(this);
  }

  #append(writes: readonly StreamWrite[]): Promise<Appended> {
    return new Promise((resolve, reject) => {
      const number = this.#engine.send(writes, this);
      this.#pending.set(number, { resolve, reject });
    });
  }

  wake(): void {
    if (this.#isReading || this.#read === this.#order.appends.length) return;
    this.#isReading = true;
    // Reading takes its time also for what arrives meanwhile.
    const { time } = this.#order;
    this.#freeAt = Math.max(this.#freeAt, time.now + networkMs);
    time.after(this.#freeAt + readMs - time.now, this.#readAll);
  }

  readonly #readAll = (): void => {
    const end = this.#order.appends.length;
    if (this.process.isKilled) return;
    this.#freeAt = this.#order.time.now + (end - this.#read) * readMs;
    while (this.#read < end) this.#readAppend(this.#order.appends[this.#read++] as OrderedAppend);
    this.#isReading = false;
    this.wake();
  };

  #readAppend({ number, events, result }: OrderedAppend): void {
    for (const event of events) {
      if (event.stream.startsWith('key-')) this.#keeper?.changeRead(event.position);
      else leasesView.apply(this.#granted, event);
      const changed = this.#changed;
      this.#changed = Promise.withResolvers<void>();
      changed.resolve();
    }
    if (!(result instanceof Error)) this.#position = result.position;
    if (this.#waiting.length > 0) {
      for (const { resolve } of this.#waiting.filter(({ position }) => position <= this.#position)) resolve();
    }
    const pending = this.#pending.get(number);
    this.#pending.delete(number);
    if (result instanceof Error) pending?.reject(result);
    else pending?.resolve(result);
  }

  #whenProcessed(position: Position): Promise<void> {
    if (position <= this.#position) return Promise.resolve();
    return new Promise((resolve) => {
      const one = {
        position,
        resolve: () => {
          this.#waiting.splice(this.#waiting.indexOf(one), 1);
          resolve();
        },
      };
      this.#waiting.push(one);
    });
  }
}

/** Orders one append after the other. */
class Engine {
  readonly time = new VirtualTime();
  readonly heirs = new Map<string, string>();
  readonly endedAt = new Map<string, number>();
  refused = 0;
  events = 0;
  readonly order = new SimulatedOrder(this.time, (append) => this.#recorded(append));
  #numbers = 0;
  #freeAt = 0;

  send(writes: readonly StreamWrite[], from: BenchGateway): number {
    const number = this.#numbers++;
    this.time.after(networkMs, () => {
      this.#freeAt = Math.max(this.#freeAt, this.time.now) + orderMs;
      this.time.after(this.#freeAt - this.time.now, () => this.order.record(number, writes, '', from));
    });
    return number;
  }

  #recorded({ events, result }: OrderedAppend): void {
    if (result instanceof Error) this.refused += 1;
    this.events += events.length;
    for (const event of events) {
      if (event.type !== leaseEnded.type) continue;
      this.endedAt.set(idOf(event.stream), this.time.now);
      this.heirs.set(idOf(event.stream), (event.data as { heir?: string }).heir ?? '');
    }
  }

  /** What is due within half a millisecond runs before its effects. */
  async run(until: () => boolean): Promise<void> {
    while (!until()) {
      const slot = this.time.next + 0.5;
      while (this.time.next <= slot) this.time.step();
      await new Promise(setImmediate);
    }
  }

  runFor(ms: number): Promise<void> {
    const end = this.time.now + ms;
    return this.run(() => this.time.now >= end);
  }
}

async function measure(count: number): Promise<Record<string, string>> {
  const engine = new Engine();
  const gateways = Array.from({ length: count }, () => new BenchGateway(engine));
  for (const [index, gateway] of gateways.entries()) {
    gateway.process.after(random.between(0, leaseMs / 3), () => void gateway.start(`folder ${index}`));
  }
  await engine.run(() => gateways.every(({ lease }) => lease !== undefined));

  const steady = { events: engine.events, at: engine.time.now, cpu: process.cpuUsage() };
  await engine.runFor(leaseMs / 2);
  const seconds = (engine.time.now - steady.at) / 1000;
  const renewals = (engine.events - steady.events) / seconds;
  const { user } = process.cpuUsage(steady.cpu);

  const waits: number[] = [];
  const before = engine.events;
  for (let n = 0; n < changes; n++) waits.push(await timed(engine, [gateways[n % count] as BenchGateway]));
  const perChange = (engine.events - before - renewals * (sum(waits) / 1000)) / changes;
  const many = await timed(engine, gateways.slice(0, 50));

  const one = await fail(engine, gateways.splice(5, 1), gateways);
  const half = await fail(engine, gateways.splice(0, Math.floor(count / 2)), gateways);
  return {
    gateways: String(count),
    'renewals per s': renewals.toFixed(0),
    'processor time of a gateway': `${(user / 1e4 / seconds / count).toFixed(2)} %`,
    'change confirmed, median': `${median(waits).toFixed(0)} ms`,
    'longest of 10': `${Math.max(...waits).toFixed(0)} ms`,
    'events per change': perChange.toFixed(0),
    '50 changes at once': `${many.toFixed(0)} ms`,
    'one failed: taken over': `${(one.last / 1000).toFixed(1)} s`,
    'refused appends': String(one.refused),
    'change meanwhile': `${(one.change / 1000).toFixed(1)} s`,
    'half failed: all taken over': `${(half.last / 1000).toFixed(1)} s`,
    'refused appends of half': String(half.refused),
    'most taken over by one': String(half.most),
  };
}

/** @returns how long all changes at once take */
async function timed(engine: Engine, by: readonly BenchGateway[]): Promise<number> {
  const began = engine.time.now;
  let left = by.length;
  for (const { fenced } of by) {
    const event = { type: 'key.changed', schema: 1, data: {}, context: { actor: 'system' as const } };
    const write = { stream: streamName('key', '1'), events: [event], expectedRevision: 'any' as const };
    void fenced.append([write]).then(() => {
      left -= 1;
    });
  }
  await engine.run(() => left === 0);
  return engine.time.now - began;
}

async function fail(engine: Engine, failed: readonly BenchGateway[], left: readonly BenchGateway[]) {
  const { refused } = engine;
  const began = engine.time.now;
  for (const gateway of failed) gateway.kill();
  const change = await timed(engine, [left[0] as BenchGateway]);
  const ids = failed.map(({ lease }) => lease?.gateway ?? '');
  await engine.run(() => ids.every((id) => engine.endedAt.has(id)));
  const last = Math.max(...ids.map((id) => engine.endedAt.get(id) ?? 0)) - began;
  await engine.runFor(leaseMs / 10);
  const taken = new Map<string, number>();
  for (const id of ids) {
    const heir = engine.heirs.get(id) ?? '';
    taken.set(heir, (taken.get(heir) ?? 0) + 1);
  }
  return { last, change, refused: engine.refused - refused, most: Math.max(...taken.values()) };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

const counts = process.argv.length > 2 ? process.argv.slice(2).map(Number) : [10, 100, 300, 1000];
const rows: Record<string, string>[] = [];
for (const count of counts) rows.push(await measure(count));
for (const name of Object.keys(rows[0] ?? {})) {
  console.log(`| ${name.padEnd(30)} | ${rows.map((row) => (row[name] ?? '').padStart(10)).join(' | ')} |`);
}
