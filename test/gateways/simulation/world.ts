/** Gateways on one log with disturbances, and then a calm time in which everything must end. */
import fc from 'fast-check';
import type { Position, StreamName } from '../../../src/events/event.ts';
import { LogUnavailable, type StreamWrite, WrongExpectedRevision } from '../../../src/events/log.ts';
import { createChance, type Random } from '../../crash/random.ts';
import { type BudgetMutation, budget } from './budget-fold.ts';
import { Checks, Violation } from './checks.ts';
import { leaseMs, SimulatedGateway } from './gateway.ts';
import { type LogFaults, SimulatedOrder } from './simulated-log.ts';
import { SimulatedProcess, VirtualTime } from './virtual-time.ts';

export interface Disturbance {
  readonly kind: 'kill' | 'stop' | 'pause' | 'suspend' | 'lag' | 'change' | 'burst';
  readonly machine: number;
  readonly at: number;
  readonly ms: number;
}

/** What happens; the rest follows from the seed. */
export interface History {
  readonly seed: number;
  readonly machines: number;
  readonly requests: number;
  readonly disturbances: readonly Disturbance[];
}

/** How long things are disturbed, and how long everything may take to end then. */
const DISTURBED_MS = 2.5 * leaseMs;
const CALM_MS = 8 * leaseMs;
/** Clocks run between 1 / 1.09 and 1.09 times as fast as time: at most 1.2 times as fast as each other. */
const FASTEST = 1.09;

export const histories: fc.Arbitrary<History> = fc.record({
  seed: fc.nat(),
  machines: fc.integer({ min: 2, max: 4 }),
  requests: fc.integer({ min: 1, max: 8 }),
  disturbances: fc.array(
    fc.record({
      kind: fc.constantFrom('kill', 'stop', 'pause', 'suspend', 'lag', 'change', 'change', 'burst'),
      machine: fc.nat({ max: 3 }),
      at: fc.integer({ min: 0, max: DISTURBED_MS }),
      ms: fc.integer({ min: 1, max: 2 * leaseMs }),
    }),
    { maxLength: 6 },
  ),
});

/** One of two gateways ends and comes back after its lease, with requests, while the log is slow for the one that was alone. */
export const rejoining: fc.Arbitrary<History> = fc
  .record({ seed: fc.nat(), away: fc.integer({ min: 1300, max: 1700 }), after: fc.integer({ min: 1, max: 300 }) })
  .map(({ seed, away, after }) => ({
    ...{ seed, machines: 2, requests: 1 },
    disturbances: [
      { kind: 'kill', machine: 1, at: 100, ms: away },
      { kind: 'lag', machine: 0, at: away, ms: leaseMs },
      { kind: 'burst', machine: 1, at: 100 + away + after, ms: 1 },
    ],
  }));

export interface Request {
  readonly id: string;
  readonly key: string;
  readonly bound: number;
  readonly cost: number;
  readonly providerMs: number;
  /** The machine through which the answer is read again. */
  readonly read: number | undefined;
}

/** Faults of the code under test, to see that they are found. */
export interface Mutation {
  readonly writes?: (writes: readonly StreamWrite[]) => readonly StreamWrite[];
  readonly applied?: () => Promise<void>;
  readonly appliedEverywhere?: () => Promise<void>;
  readonly hasOthers?: () => boolean;
  readonly knownToOthers?: () => undefined;
  readonly wallClock?: () => number;
  /** Whether heirs end what they have inherited. */
  readonly inherits?: boolean;
  readonly budget?: BudgetMutation;
  /** How many times as fast the fastest clock is as the slowest one. */
  readonly clocks?: number;
}

interface Machine {
  folder: string;
  gateway: SimulatedGateway;
  readonly rate: number;
  /** Until then, the log is slow for it. */
  lagsUntil: number;
}

const faulty: LogFaults = { appendMs: 30, readMs: 30, repeated: 0.05, late: 0.02, lost: 0.02 };
const lagging: LogFaults = { appendMs: 400, readMs: 400, repeated: 0.1, late: 0.1, lost: 0.1 };
const calm: LogFaults = { appendMs: 10, readMs: 10, repeated: 0, late: 0, lost: 0 };

export class World {
  readonly time = new VirtualTime();
  readonly random: Random;
  readonly mutation: Mutation;
  readonly checks = new Checks();
  readonly order: SimulatedOrder;
  /** The first thing that was wrong. */
  violation: unknown;
  readonly #machines: Machine[] = [];
  /** Requests and changes that have begun and not ended, of processes that live. */
  #underWay = new Map<SimulatedGateway, number>();
  #folders = 0;
  #requests = 0;
  #left: number;

  constructor({ seed, machines, requests, disturbances }: History, mutation: Mutation = {}) {
    this.random = createChance(seed);
    this.mutation = mutation;
    this.#left = requests;
    this.order = new SimulatedOrder(this.time, (append, writer) =>
      this.#check(() => this.checks.recorded(append, writer)),
    );
    this.order.record(0, [budget], '', { wake: () => {} });
    for (let index = 0; index < machines; index++) this.#addMachine();
    for (const disturbance of disturbances) this.time.after(disturbance.at, () => this.#disturb(disturbance));
    for (let index = 0; index < requests; index++) {
      this.time.after(this.random.between(0, DISTURBED_MS), () => {
        this.#left -= 1;
        this.#request(this.random.between(0, machines - 1));
      });
    }
  }

  /** Does the next thing. @returns whether there is more to do */
  step(): boolean {
    if (this.violation !== undefined || !this.time.step()) return false;
    if (this.time.now < DISTURBED_MS) return true;
    if (this.#isQuiet()) return false;
    if (this.time.now > DISTURBED_MS + CALM_MS) this.violation = new Violation(this.#unfinished());
    return this.violation === undefined;
  }

  #isQuiet(): boolean {
    return (
      this.#left === 0 &&
      this.checks.open.size === 0 &&
      this.#underWay.size === 0 &&
      this.#machines.every(({ gateway }) => gateway.isServing && gateway.process.isRunning)
    );
  }

  #unfinished(): string {
    const waiting = this.#machines.filter(({ gateway }) => !gateway.isServing).length;
    return `after a calm time: ${this.checks.open.size} open exchanges, ${this.#underWay.size} gateways with work, ${waiting} that do not serve`;
  }

  faultsOf(process: SimulatedProcess): LogFaults {
    if (this.time.now > DISTURBED_MS) return calm;
    const machine = this.#machines.find(({ gateway }) => gateway?.process === process);
    return machine !== undefined && machine.lagsUntil > this.time.now ? lagging : faulty;
  }

  #addMachine(): void {
    const fastest = this.mutation.clocks ?? FASTEST;
    const rate = fastest ** (this.random.between(-100, 100) / 100);
    const machine = { folder: this.#newFolder(), rate, lagsUntil: 0 } as Machine;
    this.#machines.push(machine);
    this.#start(machine);
  }

  #newFolder(): string {
    return `folder ${this.#folders++}`;
  }

  #start(machine: Machine): void {
    const process = new SimulatedProcess({ time: this.time, rate: machine.rate });
    machine.gateway = new SimulatedGateway(this, process);
    this.#work(machine.gateway, machine.gateway.start(machine.folder));
  }

  /** Its process starts again, as soon as it may. */
  #restart(machine: Machine, ms: number): void {
    const { gateway } = machine;
    gateway.kill();
    this.#underWay.delete(gateway);
    this.time.after(ms, () => {
      if (machine.gateway === gateway) this.#start(machine);
    });
  }

  /** Its lease has ended: it becomes another gateway, on what counts as another folder. */
  lost(gateway: SimulatedGateway): void {
    const machine = this.#machines.find((one) => one.gateway === gateway);
    if (machine === undefined) return;
    machine.folder = this.#newFolder();
    this.#restart(machine, this.random.between(1, 50));
  }

  #disturb({ kind, machine: index, ms }: Disturbance): void {
    const machine = this.#machines[index % this.#machines.length] as Machine;
    const { gateway } = machine;
    if (kind === 'kill') this.#restart(machine, ms);
    else if (kind === 'pause' || kind === 'suspend') gateway.process.pause(ms, kind === 'suspend');
    else if (kind === 'lag') machine.lagsUntil = this.time.now + ms;
    else if (kind === 'change') gateway.process.run(() => this.#change(gateway));
    else if (kind === 'burst') for (let n = 0; n < 3; n++) this.#request(index % this.#machines.length);
    else
      gateway.process.run(() =>
        this.#work(
          gateway,
          gateway.stop().then(() => this.#restart(machine, ms)),
        ),
      );
  }

  #change(gateway: SimulatedGateway): void {
    if (gateway.isServing) this.#work(gateway, gateway.change());
  }

  #request(index: number): void {
    const { random } = this;
    const gateway = this.#machines[index]?.gateway;
    const bound = random.between(5, 40);
    const request: Request = {
      ...{ id: `e${this.#requests++}`, key: `k${random.between(0, 4)}`, bound, cost: random.between(0, bound) },
      providerMs: random.between(1, 300),
      read: random.happens(0.8) ? random.between(0, this.#machines.length - 1) : undefined,
    };
    gateway?.process.run(() => this.#work(gateway, gateway.serve(request)));
  }

  readElsewhere(index: number, stream: StreamName, _position: Position): void {
    const gateway = this.#machines[index]?.gateway;
    gateway?.process.run(() => this.#work(gateway, gateway.read(stream)));
  }

  #work(gateway: SimulatedGateway, work: Promise<void>): void {
    this.#underWay.set(gateway, (this.#underWay.get(gateway) ?? 0) + 1);
    work
      .catch((error: unknown) => {
        this.violation ??= error;
      })
      .finally(() => {
        const left = (this.#underWay.get(gateway) ?? 1) - 1;
        if (left > 0) this.#underWay.set(gateway, left);
        else this.#underWay.delete(gateway);
      });
  }

  #check(check: () => void): void {
    try {
      check();
    } catch (error) {
      this.violation ??= error;
    }
  }

  /** Errors that clients of the log expect. */
  expectUnavailable(error: unknown): void {
    if (error instanceof LogUnavailable || error instanceof WrongExpectedRevision) return;
    this.violation ??= error;
    throw error;
  }
}

/**
 * Plays histories beside each other: all of them do one thing, and then everything runs that follows from it at once.
 * @returns the first violation of each history that has one
 */
export async function play(
  played: readonly History[],
  mutation?: Mutation,
): Promise<{ failures: { history: History; violation: unknown }[]; worlds: World[] }> {
  const worlds = played.map((history) => new World(history, mutation));
  let running = worlds;
  while (running.length > 0) {
    running = running.filter((world) => world.step());
    await new Promise(setImmediate);
  }
  const failures = worlds.flatMap(({ violation }, index) =>
    violation === undefined ? [] : [{ history: played[index] as History, violation }],
  );
  return { failures, worlds };
}
