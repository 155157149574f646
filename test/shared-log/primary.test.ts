/** What a worker's log does when its primary process is killed, stopped by the operating system, or has a full disk. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type RecordedEvent, streamName } from '../../src/events/event.ts';
import { LogUnavailable } from '../../src/events/log.ts';
import { SharedLog, type SharedLogOptions } from '../../src/events/shared/shared-log.ts';
import { collect, isEvent, noted, write } from '../contract/event-log.ts';
import { appendUntilAccepted, whenState } from '../contract/recovery.ts';
import { faultyDisk } from '../events/faulty-disk.ts';
import { ServedFolder } from '../support/shared-logs.ts';

const a = streamName('thing', 'a');
const numberOf = ({ data }: RecordedEvent) => (data as { n: number }).n;

/** A primary in a process of its own. */
class PrimaryProcess {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'chancery-primary-'));
  readonly dir = path.join(this.folder, 'log');
  readonly socketPath = path.join(this.folder, 'log.sock');
  #child: ChildProcess | undefined;

  static async start(): Promise<PrimaryProcess> {
    const primary = new PrimaryProcess();
    onTestFinished(() => {
      primary.#child?.kill('SIGKILL');
      rmSync(primary.folder, { recursive: true, force: true, maxRetries: 3 });
    });
    await primary.start();
    return primary;
  }

  async start(): Promise<void> {
    const file = path.join(import.meta.dirname, 'primary-process.ts');
    this.#child = spawn(process.execPath, [file, this.dir, this.socketPath], { stdio: ['ignore', 'pipe', 'inherit'] });
    if (this.#child.stdout !== null) await once(this.#child.stdout, 'data');
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  async kill(): Promise<void> {
    const exit = this.#child === undefined ? undefined : once(this.#child, 'exit');
    this.signal('SIGKILL');
    await exit;
  }

  async openWorker(options: Partial<SharedLogOptions> = {}): Promise<SharedLog> {
    const { socketPath, dir } = this;
    const timing = { retryMs: 5, checkMs: 50, ...options.timing };
    const log = await SharedLog.open({ socketPath, dir, ...options, timing });
    onTestFinished(() => log.close().catch(() => {}));
    return log;
  }
}

async function failureOf(append: Promise<unknown>): Promise<LogUnavailable> {
  const error = await append.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(LogUnavailable);
  return error as LogUnavailable;
}

describe('a primary that is killed', () => {
  it('and started again: no acknowledged append is lost, none is recorded twice, subscriptions have no gap', async () => {
    const primary = await PrimaryProcess.start();
    const one = await primary.openWorker();
    const other = await primary.openWorker();
    const seen: string[] = [];
    const total = 1_500;
    const following = (async () => {
      for await (const item of one.subscribe()) if (isEvent(item)) seen.push(item.position);
    })();
    let acknowledged = 0;
    let kills = 0;
    const killed: Promise<void>[] = [];
    const client = async (log: SharedLog, from: number) => {
      for (let n = from; n < total; n += 8) {
        for (;;) {
          try {
            // without ids, and whatever the stream has: only the log itself shows whether it was recorded
            await log.append([write(a, 'any', noted({ n }))]);
            break;
          } catch (error) {
            // never "unknown": its outcome is found out
            expect(error).toMatchObject({ code: 'log_unavailable', outcome: 'none' });
            await new Promise((resolve) => setImmediate(resolve));
            await whenState(log, 'ok');
          }
        }
        if (++acknowledged === 400 * (kills + 1) && kills < 3) {
          kills++;
          killed.push(primary.kill().then(() => primary.start()));
        }
      }
    };
    await Promise.all(Array.from({ length: 8 }, (_, n) => client(n % 2 === 0 ? one : other, n)));
    await Promise.all(killed);
    expect(kills).toBe(3);
    for (const log of [one, other]) await whenState(log, 'ok');
    const log = await primary.openWorker();
    const events = (await collect(log.readAll())).filter(({ type }) => type === 'thing.noted');
    expect(events.map(numberOf).toSorted((x, y) => x - y)).toEqual(Array.from({ length: total }, (_, n) => n));
    const all = (await collect(log.readAll())).map(({ position }) => position as string);
    await one.append([]);
    await one.close();
    await following;
    expect(seen).toEqual(all);
  }, 60_000);
});

describe('a primary that is stopped by the operating system', () => {
  it('makes the log unavailable with a reason; outcomes are reported; it goes on when the primary does', async () => {
    const primary = await PrimaryProcess.start();
    const timing = { stalledMs: 1_000, outcomeTimeoutMs: 1_500 };
    const log = await primary.openWorker({ timing });
    await log.append([write(a, 'noStream', noted({ n: 0 }))]);
    primary.signal('SIGSTOP');
    const sent = log.append([write(a, 'any', noted({ n: 1 }))]);
    const refusedLater = failureOf(sent);
    await whenState(log, 'unavailable');
    expect(log.status().reason).toMatch(/has not answered for 1000 ms/);
    expect(await failureOf(log.append([write(a, 'any', noted({ n: 2 }))]))).toMatchObject({ outcome: 'none' });
    expect(await refusedLater).toMatchObject({ outcome: 'unknown' });
    // reading needs no primary
    expect((await collect(log.readStream(a))).map(numberOf)).toEqual([0]);
    primary.signal('SIGCONT');
    await whenState(log, 'ok');
    await appendUntilAccepted(log, [write(a, 'any', noted({ n: 3 }))]);
    expect((await collect(log.readStream(a))).map(numberOf)).toEqual([0, 1, 3]);
  });

  it('bounds the bytes of the appends that wait for it', async () => {
    const primary = await PrimaryProcess.start();
    const log = await primary.openWorker({
      maxUnansweredBytes: 100_000,
      timing: { stalledMs: 1_000, outcomeTimeoutMs: 1_200 },
    });
    await log.append([]);
    primary.signal('SIGSTOP');
    const body = Buffer.alloc(10_000);
    const appends = Array.from({ length: 30 }, () => failureOf(log.append([write(a, 'any', noted({}, { body }))])));
    expect(log.status().queuedBytes).toBeLessThanOrEqual(100_000);
    const errors = await Promise.all(appends);
    const full = errors.filter(({ message }) => message.includes('queue for it is full'));
    expect(full.length).toBeGreaterThan(15);
    for (const error of full) expect(error.outcome).toBe('none');
    primary.signal('SIGCONT');
    await whenState(log, 'ok');
    await appendUntilAccepted(log, [write(a, 'any', noted())]);
    expect(log.status().queuedBytes).toBe(0);
  });
});

describe('a primary whose disk refuses writes', () => {
  it('makes the logs of its workers unavailable with its reason, and available again', async () => {
    const disk = faultyDisk();
    const served = await ServedFolder.open({ disk, commit: { probeMs: 5 } });
    onTestFinished(() => served.dispose());
    const one = await served.openWorker();
    const other = await served.openWorker();
    await one.append([write(a, 'noStream', noted({ n: 0 }))]);
    disk.failWrites('ENOSPC');
    expect(await failureOf(one.append([write(a, 'any', noted({ n: 1 }))]))).toMatchObject({ outcome: 'none' });
    await whenState(other, 'unavailable');
    expect(other.status().reason).toMatch(/ENOSPC/);
    expect(await failureOf(other.append([write(a, 'any', noted({ n: 2 }))]))).toMatchObject({ outcome: 'none' });
    disk.failWrites(undefined);
    for (const log of [one, other]) await whenState(log, 'ok');
    await other.append([write(a, 0n, noted({ n: 3 }))]);
    await one.append([]);
    expect((await collect(one.readAll())).map(numberOf)).toEqual([0, 3]);
    for (const log of [one, other]) await log.close();
  });

  it('reports appends as unknown whose sync failed, and shows them when they are on disk after all', async () => {
    const disk = faultyDisk();
    const served = await ServedFolder.open({ disk, commit: { probeMs: 5 } });
    onTestFinished(() => served.dispose());
    const log = await served.openWorker();
    const following = log.subscribe()[Symbol.asyncIterator]();
    await following.next();
    disk.failSyncs('EIO');
    expect(await failureOf(log.append([write(a, 'any', noted({ n: 0 }))]))).toMatchObject({ outcome: 'unknown' });
    await whenState(log, 'unavailable');
    disk.failSyncs(undefined);
    await whenState(log, 'ok');
    expect((await following.next()).value).toMatchObject({ data: { n: 0 } });
    await log.append([write(a, 0n, noted({ n: 1 }))]);
    expect((await collect(log.readStream(a))).map(numberOf)).toEqual([0, 1]);
    await log.close();
  });
});
