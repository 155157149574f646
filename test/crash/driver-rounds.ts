/**
 * Crash rounds on the driver of an engine, without a gateway: several writers and readers while the engine is killed and
 * disturbed, and while writers and readers end in the middle of a call. Readers must see the same order of appends, each
 * writer's in the order of its numbers, and everything that was acknowledged.
 */
import { createHash, randomBytes } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { PreparedAppend } from '../../src/events/embedded/append-batch.ts';
import { streamName } from '../../src/events/event.ts';
import { frameAppend } from '../../src/events/replicated/append-frame.ts';
import {
  type EnginePlace,
  EngineUnavailable,
  type LogEngine,
  type SequencedAppend,
} from '../../src/events/replicated/engine.ts';
import type { CrashEngine } from './engines.ts';
import type { Violation } from './evidence.ts';
import type { Random } from './random.ts';

export interface DriverOptions {
  readonly engine: CrashEngine;
  readonly rounds: number;
  readonly chance: Random;
  readonly writers: number;
  readonly secondsPerRound: number;
}

export interface DriverSum {
  rounds: number;
  kills: number;
  disturbances: number;
  /** Appends that were acknowledged, appends whose writer ended before that, and calls that were repeated. */
  acknowledged: number;
  abandoned: number;
  repeatedCalls: number;
  /** Appends that lie on the engine, repetitions included. */
  stored: number;
  readerEnds: number;
  readonly violations: Violation[];
}

const WITHIN_MS = 30_000;

export async function runDriverRounds(options: DriverOptions): Promise<DriverSum> {
  const { engine, rounds, chance, secondsPerRound } = options;
  const connect = () => engine.connect();
  const sum: DriverSum = {
    ...{ rounds: 0, kills: 0, disturbances: 0, acknowledged: 0, abandoned: 0, repeatedCalls: 0, stored: 0 },
    ...{ readerEnds: 0, violations: [] },
  };
  const sent = new Map<string, string>();
  const acknowledged = new Set<string>();
  const progress = new EventEmitter();
  const ended = new AbortController();
  const reader = new ResumingReader(connect, chance.fork(), sum);
  const reading = reader.run(ended.signal);
  try {
    for (let round = 1; round <= rounds; round++) {
      const stop = new AbortController();
      const writers = Array.from({ length: options.writers }, () =>
        new Writer(connect, chance.fork(), sent, acknowledged, sum, progress).run(stop.signal),
      );
      const before = sum.acknowledged;
      await faults(engine, chance, secondsPerRound, sum);
      // On a busy machine, writers may have connected only now.
      while (sum.acknowledged < before + LEAST_PER_ROUND) await once(progress, 'acknowledged');
      stop.abort();
      await Promise.all(writers);
      sum.rounds = round;
    }
    const last = new Writer(connect, chance.fork(), sent, acknowledged, sum, progress);
    const barrier = await last.barrier();
    await reader.until(barrier);
    ended.abort();
    await reading;
    await check(connect, barrier, reader, { sent, acknowledged, sum });
  } finally {
    ended.abort();
    await reading;
  }
  return sum;
}

async function faults(engine: CrashEngine, chance: Random, seconds: number, sum: DriverSum): Promise<void> {
  const longest = Math.round(seconds * 1000);
  await sleep(chance.between(0, longest));
  if (chance.happens(0.6)) {
    sum.kills += 1;
    await engine.kill();
    await sleep(chance.between(0, 300));
    await engine.restart();
  } else {
    sum.disturbances += 1;
    await engine.disturb(chance);
  }
  await sleep(chance.between(0, longest));
}

/** Appends that are acknowledged in each round. */
const LEAST_PER_ROUND = 20;

const nameOf = ({ writer, number }: SequencedAppend) => `${writer}/${number}`;
const digestOf = (append: SequencedAppend) => createHash('sha1').update(frameAppend(append)).digest('base64');

/** Sends appends in calls of several, repeats a failed call, and ends in the middle of one. */
class Writer {
  readonly #connect: () => LogEngine;
  readonly #chance: Random;
  readonly #sent: Map<string, string>;
  readonly #acknowledged: Set<string>;
  readonly #sum: DriverSum;
  readonly #progress: EventEmitter;
  readonly #writer = randomBytes(8).toString('hex');
  #number = 0;

  constructor(
    connect: () => LogEngine,
    chance: Random,
    sent: Map<string, string>,
    acknowledged: Set<string>,
    sum: DriverSum,
    progress: EventEmitter,
  ) {
    this.#connect = connect;
    this.#chance = chance;
    this.#sent = sent;
    this.#acknowledged = acknowledged;
    this.#sum = sum;
    this.#progress = progress;
  }

  async run(stop: AbortSignal): Promise<void> {
    const engine = await opened(this.#connect, stop);
    if (engine === undefined) return;
    const close = () => void engine.close().catch(() => {});
    stop.addEventListener('abort', close, { once: true });
    if (stop.aborted) close();
    while (!stop.aborted) {
      const call = Array.from({ length: this.#chance.between(1, 20) }, () => this.#next());
      if (await this.#send(engine, call, stop)) continue;
      this.#sum.abandoned += call.length;
    }
    await engine.close();
  }

  /** An append of its own after everything else, which is on the engine when this resolves. */
  async barrier(): Promise<string> {
    const engine = await opened(this.#connect);
    if (engine === undefined) throw new Error('the engine cannot be opened');
    const append = this.#next();
    await this.#send(engine, [append]);
    await engine.close();
    return nameOf(append);
  }

  async #send(engine: LogEngine, call: readonly SequencedAppend[], stop?: AbortSignal): Promise<boolean> {
    for (const append of call) this.#sent.set(nameOf(append), digestOf(append));
    for (;;) {
      try {
        await engine.append(call);
        for (const append of call) this.#acknowledged.add(nameOf(append));
        this.#sum.acknowledged += call.length;
        this.#progress.emit('acknowledged');
        return true;
      } catch (error) {
        if (stop?.aborted) return false;
        if (!(error instanceof EngineUnavailable)) throw error;
        this.#sum.repeatedCalls += 1;
        await sleep(20);
      }
    }
  }

  #next(): SequencedAppend {
    const chance = this.#chance;
    const log = '0123456789abcdef';
    const number = ++this.#number;
    const envelope = { log, writer: this.#writer, number, seen: { position: number - 1, check: 7 } };
    if (chance.happens(0.05)) return { ...envelope, writes: [], records: Buffer.alloc(0) };
    const events = Array.from({ length: chance.between(1, 4) }, (_, index) => ({
      type: 'thing.noted',
      schema: 1,
      data: { number, index },
      context: { actor: 'system' as const },
      body: randomBytes(chance.happens(0.03) ? chance.between(100_000, 1_500_000) : chance.between(0, 2000)),
    }));
    const stream = streamName('thing', `s${chance.between(1, 5)}`);
    const { writes, records } = new PreparedAppend([{ stream, events, expectedRevision: 'any' }], 256 * 1024 * 1024);
    return { ...envelope, writes, records };
  }
}

/** Reads all over the rounds, from the place where the read before ended. */
class ResumingReader {
  /** In the order of the engine; repetitions only once. */
  readonly first = new Map<string, string>();
  readonly #connect: () => LogEngine;
  readonly #chance: Random;
  readonly #sum: DriverSum;
  #place: EnginePlace | undefined;
  #failure: unknown;

  constructor(connect: () => LogEngine, chance: Random, sum: DriverSum) {
    this.#connect = connect;
    this.#chance = chance;
    this.#sum = sum;
  }

  async run(ended: AbortSignal): Promise<void> {
    try {
      while (!ended.aborted) await this.#readFor(this.#chance.between(50, 2000), ended);
    } catch (error) {
      this.#failure = error;
    }
  }

  async until(name: string): Promise<void> {
    let deadline = performance.now() + WITHIN_MS;
    for (let read = 0; !this.first.has(name); await sleep(20)) {
      if (this.#failure !== undefined) throw this.#failure;
      // It may be far behind, but it must get on.
      if (this.first.size > read) deadline = performance.now() + WITHIN_MS;
      if (performance.now() > deadline) throw new Error(`after ${read} appends, none was read for ${WITHIN_MS} ms`);
      read = this.first.size;
    }
  }

  async #readFor(ms: number, ended: AbortSignal): Promise<void> {
    const end = AbortSignal.any([ended, AbortSignal.timeout(ms)]);
    const engine = await opened(this.#connect, end);
    if (engine === undefined) return;
    this.#sum.readerEnds += 1;
    try {
      for await (const { appends, resume } of engine.read(this.#place, end)) {
        for (const append of appends) {
          if (!this.first.has(nameOf(append))) this.first.set(nameOf(append), digestOf(append));
        }
        this.#place = resume;
      }
    } catch (error) {
      if (!(error instanceof EngineUnavailable)) throw error;
      await sleep(20);
    } finally {
      await engine.close();
    }
  }
}

interface Sent {
  readonly sent: ReadonlyMap<string, string>;
  readonly acknowledged: ReadonlySet<string>;
  readonly sum: DriverSum;
}

async function check(connect: () => LogEngine, last: string, reader: ResumingReader, all: Sent): Promise<void> {
  const { sent, acknowledged, sum } = all;
  const complain = (check: string, what: string) => sum.violations.push({ check, what });
  const again = await readAll(connect, last, sum);
  const names = [...again.keys()];
  const resumed = [...reader.first.keys()];
  const at = names.findIndex((name, index) => name !== resumed[index]);
  if (at !== -1 || resumed.length !== names.length) {
    complain(
      'order',
      `append ${at} of ${names.length} is ${names[at]}, and ${resumed[at]} of ${resumed.length} before`,
    );
  }
  for (const name of acknowledged) if (!again.has(name)) complain('acknowledged', `${name} is not on the engine`);
  for (const [name, digest] of again) {
    if (sent.get(name) !== digest) complain('content', `${name} is not what was sent`);
  }
  const numbers = new Map<string, number>();
  for (const name of names) {
    const [writer = '', number] = name.split('/');
    const before = numbers.get(writer) ?? 0;
    if (Number(number) !== before + 1) complain('numbers', `of ${writer}, ${number} follows ${before}`);
    numbers.set(writer, Number(number));
  }
}

async function readAll(connect: () => LogEngine, last: string, sum: DriverSum): Promise<Map<string, string>> {
  const engine = await opened(connect);
  if (engine === undefined) throw new Error('the engine cannot be opened');
  const first = new Map<string, string>();
  const stalled = new AbortController();
  const stall = setTimeout(() => stalled.abort(), WITHIN_MS);
  try {
    for await (const { appends } of engine.read(undefined, stalled.signal)) {
      stall.refresh();
      for (const append of appends) {
        sum.stored += 1;
        if (!first.has(nameOf(append))) first.set(nameOf(append), digestOf(append));
      }
      if (first.has(last)) return first;
    }
    throw new Error(`after ${first.size} appends, none was read for ${WITHIN_MS} ms`);
  } finally {
    clearTimeout(stall);
    await engine.close();
  }
}

/** A driver that is open; undefined when the signal came before. */
async function opened(connect: () => LogEngine, end?: AbortSignal): Promise<LogEngine | undefined> {
  const deadline = performance.now() + WITHIN_MS;
  while (!end?.aborted) {
    const engine = connect();
    try {
      await engine.open();
      return engine;
    } catch (error) {
      await engine.close();
      if (!(error instanceof EngineUnavailable) || performance.now() > deadline) throw error;
      await sleep(20);
    }
  }
  return undefined;
}
