/**
 * Processor time of the log that worker processes share, against the embedded log in one process: for each append with one
 * write and with four, and for each event that a worker reads while it is appended.
 *
 *     node scripts/run.mjs bench/shared-log.ts [appends]
 */
import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { EmbeddedLog } from '../src/events/embedded/embedded-log.ts';
import { type NewEvent, streamName } from '../src/events/event.ts';
import { mintEventId } from '../src/events/event-id.ts';
import type { EventLog, StreamWrite } from '../src/events/log.ts';
import { serveSharedLog } from '../src/events/shared/serve-shared-log.ts';
import { SharedLog } from '../src/events/shared/shared-log.ts';

interface Work {
  readonly appends: number;
  readonly writes: number;
  readonly inFlight: number;
  readonly follows: boolean;
  /** Exchanges with so much processor time of their own instead of appends. */
  readonly spinUs?: number;
}

type Order =
  | {
      readonly kind: 'open';
      readonly role: 'primary' | 'worker' | 'alone';
      readonly dir: string;
      readonly socketPath: string;
    }
  | { readonly kind: 'work'; readonly work: Work }
  | { readonly kind: 'follow'; readonly until: number }
  | { readonly kind: 'measure' }
  | { readonly kind: 'close' };

interface Answer {
  /** Processor time since the last answer. */
  readonly cpuMs: number;
  readonly elapsedMs: number;
}

/** Iterations of `spin` in a microsecond. */
const spinsPerUs = 600;
const context = { actor: 'key:bench' } as const;
const text = 'x'.repeat(500);

function writesOf(n: number, count: number): StreamWrite[] {
  const id = mintEventId();
  return Array.from({ length: count }, (_, index) => {
    const event: NewEvent = { type: 'thing.noted', schema: 1, data: { n, index, text }, context };
    return { stream: streamName(`thing${index}`, id), events: [event], expectedRevision: 'noStream' };
  });
}

/** What a gateway does for one request: processor time, an append that is written, and one that is durable. */
async function exchange(log: EventLog, n: number, spinUs: number): Promise<void> {
  spin(spinUs / 2);
  const [received, ...others] = writesOf(n, 4);
  if (received === undefined) return;
  await log.append([received], { until: 'written' });
  await nextTurn();
  spin(spinUs / 2);
  await log.append([{ ...received, events: others.flatMap(({ events }) => events), expectedRevision: 0n }]);
}

/** Works for about so long on this machine, whatever else runs on it. */
function spin(us: number): void {
  let x = us;
  for (let left = us * spinsPerUs; left > 0; left--) x = Math.imul(x, 0x85ebca6b) ^ (x >>> 13);
  if (x === 1) throw new Error('not reached');
}

async function appendAll(log: EventLog, { appends, writes, inFlight, spinUs }: Work): Promise<void> {
  let next = 0;
  const client = async () => {
    while (next < appends) {
      if (spinUs === undefined) await log.append(writesOf(next++, writes));
      else await exchange(log, next++, spinUs);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, client));
}

async function follow(log: EventLog, until: number): Promise<void> {
  for await (const item of log.subscribe({ after: await log.head() })) if (Number(item.position) >= until) return;
}

async function child(): Promise<void> {
  let log: EventLog | undefined;
  let server: { close(): Promise<void> } | undefined;
  let cpu = process.cpuUsage();
  let since = performance.now();
  const handle = async (order: Order): Promise<void> => {
    if (order.kind === 'open') {
      const { role, dir, socketPath } = order;
      if (role === 'worker') log = await SharedLog.open({ socketPath, dir });
      else {
        const embedded = await EmbeddedLog.open(dir);
        log = embedded;
        if (role === 'primary') server = await serveSharedLog({ log: embedded, socketPath });
      }
    } else if (order.kind === 'close') {
      await server?.close();
      await log?.close();
    } else if (log !== undefined && order.kind === 'work') {
      if (order.work.follows) void follow(log, Number.POSITIVE_INFINITY);
      await appendAll(log, order.work);
    } else if (log !== undefined && order.kind === 'follow') await follow(log, order.until);
  };
  process.on('message', (order: Order) => {
    if (order.kind === 'follow') process.send?.({ cpuMs: 0, elapsedMs: 0 });
    void handle(order).then(() => {
      const { user, system } = process.cpuUsage(cpu);
      const answer: Answer = { cpuMs: (user + system) / 1000, elapsedMs: performance.now() - since };
      cpu = process.cpuUsage();
      since = performance.now();
      if (order.kind !== 'follow') process.send?.(answer);
      if (order.kind === 'close') process.disconnect();
    });
  });
}

function ask(process: ChildProcess, order: Order): Promise<Answer> {
  return new Promise((resolve) => {
    process.once('message', (answer) => resolve(answer as Answer));
    process.send(order);
  });
}

class Processes {
  readonly #dir = mkdtempSync(path.join(tmpdir(), 'chancery-bench-'));
  readonly all: ChildProcess[] = [];

  async start(role: 'primary' | 'worker' | 'alone'): Promise<ChildProcess> {
    const one = fork(import.meta.filename, ['child'], { execArgv: process.execArgv });
    this.all.push(one);
    const dir = path.join(this.#dir, 'log');
    await ask(one, { kind: 'open', role, dir, socketPath: path.join(this.#dir, 'log.sock') });
    return one;
  }

  /** Processor time of all since the last call. */
  async cpuMs(): Promise<number> {
    const answers = await Promise.all(this.all.map((one) => ask(one, { kind: 'measure' })));
    return answers.reduce((sum, { cpuMs }) => sum + cpuMs, 0);
  }

  async stop(): Promise<void> {
    for (const one of this.all.toReversed()) await ask(one, { kind: 'close' });
    rmSync(this.#dir, { recursive: true, force: true });
  }
}

/** Microseconds of all processes for each append. */
async function measure(workers: number, work: Work): Promise<{ cpu: number; rate: number }> {
  const processes = new Processes();
  const first = await processes.start(workers === 0 ? 'alone' : 'primary');
  const appenders = workers === 0 ? [first] : [];
  for (let n = 0; n < workers; n++) appenders.push(await processes.start('worker'));
  const share = { ...work, appends: work.appends / appenders.length, inFlight: work.inFlight / appenders.length };
  const warm = { ...share, appends: 2_000 / appenders.length };
  await Promise.all(appenders.map((one) => ask(one, { kind: 'work', work: warm })));
  await processes.cpuMs();
  const since = performance.now();
  const worked = await Promise.all(
    appenders.map((one) => ask(one, { kind: 'work', work: { ...share, follows: false } })),
  );
  const elapsed = performance.now() - since;
  const cpuMs = (await processes.cpuMs()) + worked.reduce((sum, answer) => sum + answer.cpuMs, 0);
  await processes.stop();
  return { cpu: (cpuMs * 1000) / work.appends, rate: (work.appends * 1000) / elapsed };
}

/** Microseconds of a worker that only follows, for each event. */
async function measureTail(work: Work): Promise<number> {
  const processes = new Processes();
  const primary = await processes.start('primary');
  const tail = await processes.start('worker');
  await ask(tail, { kind: 'follow', until: Number.POSITIVE_INFINITY });
  await ask(primary, { kind: 'work', work: { ...work, appends: 2_000 } });
  await ask(tail, { kind: 'measure' });
  await ask(primary, { kind: 'work', work });
  const { cpuMs } = await ask(tail, { kind: 'measure' });
  await processes.stop();
  return (cpuMs * 1000) / (work.appends * work.writes);
}

async function main(): Promise<void> {
  const appends = Number(process.argv[2] ?? 20_000);
  const show = (label: string, { cpu, rate }: { cpu: number; rate: number }) =>
    console.log(`${label.padEnd(58)} ${cpu.toFixed(1).padStart(8)} µs  ${rate.toFixed(0).padStart(8)} appends/s`);
  for (const inFlight of [8, 64]) {
    for (const writes of [1, 4]) {
      for (const follows of [false, true]) {
        const work = { appends, writes, inFlight, follows };
        const what = `${writes} writes, ${inFlight} in flight${follows ? ', followed by all' : ''}`;
        show(`one process, ${what}`, await measure(0, work));
        show(`primary and 1 worker, ${what}`, await measure(1, work));
        show(`primary and 2 workers, ${what}`, await measure(2, work));
      }
      const tail = await measureTail({ appends, writes, inFlight, follows: false });
      console.log(
        `a worker that only follows, ${writes} writes, ${inFlight} in flight: ${tail.toFixed(2)} µs for each event`,
      );
    }
  }
}

await (process.argv[2] === 'child' ? child() : main());
