/** Random programs on several handles of one log, and what must be true of the log afterwards. */
import { cpSync } from 'node:fs';
import fc from 'fast-check';
import { expect } from 'vitest';
import type { RecordedEvent, StreamName } from '../../../src/events/event.ts';
import { mintEventId } from '../../../src/events/event-id.ts';
import {
  type Appended,
  EventIdReused,
  type ExpectedRevision,
  LogUnavailable,
  type StreamWrite,
  WrongExpectedRevision,
} from '../../../src/events/log.ts';
import { collect, noted } from '../../contract/event-log.ts';
import { linesOf, whenState } from '../../contract/recovery.ts';
import { createChance } from '../../crash/random.ts';
import {
  type FaultRates,
  type MemoryEngine,
  MemoryEngineStore,
  randomFaults,
  turns,
} from '../../support/memory-engine.ts';
import { Replica, temporaryFolder } from '../../support/replicas.ts';

export interface WriteStep {
  readonly stream: StreamName;
  readonly expectedRevision: ExpectedRevision;
  readonly count: number;
}

export type Step =
  | { readonly kind: 'append'; readonly handle: number; readonly writes: readonly WriteStep[]; readonly wait: boolean }
  /** Appends again what an earlier step has appended, with another handle perhaps. */
  | { readonly kind: 'again'; readonly handle: number; readonly of: number; readonly wait: boolean }
  | { readonly kind: 'reopen'; readonly handle: number; readonly without: 'its checkpoint' | 'its folder' | undefined }
  /** The handle ends without closing; its folder, as it is at that moment, is opened again. */
  | { readonly kind: 'crash'; readonly handle: number }
  | { readonly kind: 'pause'; readonly turns: number }
  | { readonly kind: 'land late' | 'drop readers' };

export interface Program {
  readonly seed: number;
  readonly handles: number;
  readonly steps: readonly Step[];
}

interface Call {
  readonly writes: readonly StreamWrite[];
  readonly result: Promise<Appended | Error>;
}

/** Short, as nothing waits for a network, and a handle without its connection waits in vain. */
const timing = { queueTimeoutMs: 500, outcomeTimeoutMs: 500, stalledReadMs: 200, retryMs: 1 };
const streams = ['s-1', 's-2', 's-3'].map((text) => text as StreamName);

function stepsFor(handles: number): fc.Arbitrary<Step> {
  const handle = fc.integer({ min: 0, max: handles - 1 });
  const write = fc.record({
    stream: fc.constantFrom(...streams),
    expectedRevision: fc.oneof(
      { weight: 3, arbitrary: fc.constant<ExpectedRevision>('any') },
      fc.constantFrom<ExpectedRevision>('noStream', 'exists'),
      fc.bigInt({ min: 0n, max: 6n }),
    ),
    count: fc.integer({ min: 1, max: 3 }),
  });
  const writes = fc.array(write, { minLength: 1, maxLength: 3 });
  const wait = fc.boolean();
  const without = fc.constantFrom(undefined, 'its checkpoint' as const, 'its folder' as const);
  return fc.oneof(
    { weight: 20, arbitrary: fc.record({ kind: fc.constant('append' as const), handle, writes, wait }) },
    { weight: 5, arbitrary: fc.record({ kind: fc.constant('again' as const), handle, of: fc.nat({ max: 60 }), wait }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('reopen' as const), handle, without }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('crash' as const), handle }) },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constant('pause' as const), turns: fc.integer({ min: 1, max: 20 }) }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('land late' as const, 'drop readers' as const) }) },
  );
}

export const programs: fc.Arbitrary<Program> = fc
  .integer({ min: 1, max: 3 })
  .chain((handles) =>
    fc.record({ seed: fc.nat(), handles: fc.constant(handles), steps: fc.array(stepsFor(handles), { maxLength: 40 }) }),
  );

/** One run: opens the handles, plays the steps, and checks the log. */
export class ProgramRun {
  readonly store: MemoryEngineStore;
  readonly #chance;
  readonly #rates: FaultRates;
  readonly #replicas: Replica[] = [];
  /** The present connection of each handle. */
  readonly #connections = new Map<Replica, () => MemoryEngine | undefined>();
  readonly #ended: Replica[] = [];
  readonly #calls: Call[] = [];
  #faulty = true;
  #n = 0;

  constructor(seed: number, rates: FaultRates = {}) {
    this.#chance = createChance(seed);
    this.#rates = rates;
    const faults = randomFaults(this.#chance, this.#rates);
    this.store = new MemoryEngineStore({
      ...faults,
      append: (appends) => (this.#faulty ? faults.append?.(appends) : undefined),
      losesReader: () => this.#faulty && faults.losesReader?.() === true,
    });
  }

  async play({ handles, steps }: Pick<Program, 'handles' | 'steps'>): Promise<void> {
    for (let handle = 0; handle < handles; handle++) this.#replicas.push(await this.#open());
    for (const step of steps) await this.#step(step);
  }

  /** Ends the faults, and checks everything. */
  async check(): Promise<void> {
    this.#faulty = false;
    const results = await Promise.all(this.#calls.map(({ result }) => result));
    this.store.landLate();
    for (const { log } of this.#replicas) await whenState(log, 'ok');
    const fresh = await this.#open();
    this.#replicas.push(fresh);
    // read back through each handle, everything before it has been read by then
    for (const { log } of this.#replicas) {
      await log.append([{ stream: 'end-1' as StreamName, expectedRevision: 'any', events: [noted({ n: -1 })] }]);
    }
    const [last] = this.#replicas.slice(-1);
    const head = (await last?.log.head()) ?? '';
    const expected = await linesOf(fresh.log);
    for (const { log } of this.#replicas) {
      for await (const item of log.subscribe()) if (item.position >= head) break;
      expect(await linesOf(log)).toEqual(expected);
    }
    this.#checkCalls(results, await collect(fresh.log.readAll()));
  }

  async dispose(): Promise<void> {
    this.#faulty = false;
    await Promise.all([...this.#replicas, ...this.#ended].map((replica) => replica.dispose()));
  }

  async #open(dir?: string): Promise<Replica> {
    let connection: MemoryEngine | undefined;
    const connect = () => {
      connection = this.store.connect();
      return connection;
    };
    const replica = await Replica.open(connect, { ...(dir && { dir }), timing });
    this.#connections.set(replica, () => connection);
    return replica;
  }

  async #step(step: Step): Promise<void> {
    switch (step.kind) {
      case 'append':
        return this.#append(step.handle, this.#writesOf(step.writes), step.wait);
      case 'again': {
        const call = this.#calls[step.of % Math.max(1, this.#calls.length)];
        return call && this.#append(step.handle, call.writes, step.wait);
      }
      case 'reopen':
        return this.#replicas[step.handle]?.reopen({ without: step.without });
      case 'crash':
        return this.#crash(step.handle);
      case 'pause':
        return turns(step.turns);
      case 'land late':
        return this.store.landLate();
      case 'drop readers':
        return this.store.dropReaders();
    }
  }

  #writesOf(steps: readonly WriteStep[]): StreamWrite[] {
    return steps.map(({ stream, expectedRevision, count }) => {
      const events = Array.from({ length: count }, () =>
        noted({ n: this.#n++ }, { id: mintEventId(), body: Buffer.from(`body ${this.#n}`) }),
      );
      return { stream, expectedRevision, events };
    });
  }

  async #append(handle: number, writes: readonly StreamWrite[], wait: boolean): Promise<void> {
    const log = this.#replicas[handle]?.log;
    if (log === undefined) return;
    if (wait) await whenState(log, 'ok');
    const result = log.append(writes).catch((error: Error) => error);
    this.#calls.push({ writes, result });
    if (wait) await result;
  }

  async #crash(handle: number): Promise<void> {
    const crashed = this.#replicas[handle];
    if (crashed === undefined) return;
    const copy = await temporaryFolder();
    // a copy of the lock would release it: the kernel ends a lock with the first descriptor that is closed
    cpSync(crashed.dir, copy, { recursive: true, filter: (file) => !file.endsWith('writer.lock') });
    await this.#connections.get(crashed)?.()?.close();
    this.#ended.push(crashed);
    this.#replicas[handle] = await this.#open(copy);
  }

  #checkCalls(results: readonly (Appended | Error)[], all: readonly RecordedEvent[]): void {
    expect(all.map(({ position }) => Number(position))).toEqual(all.map((_, index) => index + 1));
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
    const byId = new Map(all.map((event) => [event.id, event]));
    /** Of each append: whether the answers to it say that it is there, may be there, or is not. */
    const expectations = new Map<readonly StreamWrite[], { there: boolean; maybe: boolean }>();
    for (const [index, { writes }] of this.#calls.entries()) {
      const result = results[index];
      const expectation = expectations.get(writes) ?? { there: false, maybe: false };
      expectations.set(writes, expectation);
      if (result instanceof Error) {
        if (isUnknown(result)) expectation.maybe = true;
        else expectIsRefusal(result);
      } else if (result !== undefined) {
        expectation.there = true;
        expectIsAnswered(result, writes, byId);
      }
    }
    for (const [writes, { there, maybe }] of expectations) expectIsThere(writes, byId, there, maybe);
    const known = new Set([...expectations.keys()].flatMap((writes) => idsOf(writes)));
    expect(all.filter(({ id, stream }) => !known.has(id) && stream !== 'end-1')).toEqual([]);
  }
}

function idsOf(writes: readonly StreamWrite[]): string[] {
  return writes.flatMap(({ events }) => events.flatMap(({ id }) => id ?? []));
}

function isUnknown(error: Error): boolean {
  return error instanceof LogUnavailable && error.outcome === 'unknown';
}

function expectIsRefusal(error: Error): void {
  const isOne =
    error instanceof LogUnavailable || error instanceof WrongExpectedRevision || error instanceof EventIdReused;
  if (!isOne) throw error;
}

function expectIsAnswered(
  { position, revisions }: Appended,
  writes: readonly StreamWrite[],
  byId: ReadonlyMap<string, RecordedEvent>,
): void {
  expect(byId.get(idsOf(writes).at(-1) ?? '')?.position).toBe(position);
  const lasts = writes.map(({ events }) => byId.get(events.at(-1)?.id ?? '')?.revision);
  expect(revisions).toEqual(lasts);
}

/** The events are there next to each other, or none of them is. */
function expectIsThere(
  writes: readonly StreamWrite[],
  byId: ReadonlyMap<string, RecordedEvent>,
  there: boolean,
  maybe: boolean,
): void {
  const ids = idsOf(writes);
  const found = ids.flatMap((id) => byId.get(id) ?? []);
  if (there || (maybe && found.length > 0)) {
    const first = Number(found[0]?.position);
    expect(found.map(({ position }) => Number(position) - first)).toEqual(ids.map((_, index) => index));
  } else {
    expect(found).toEqual([]);
  }
}
