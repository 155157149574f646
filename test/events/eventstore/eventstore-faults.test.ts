/** Faults that only the stand-in can produce on request. */
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EventStoreDBClient } from '@eventstore/db-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createEventStoreEngine } from '../../../src/events/eventstore/eventstore-engine.ts';
import {
  EngineDamaged,
  type EnginePlace,
  EngineUnavailable,
  type LogEngine,
  PlaceLost,
} from '../../../src/events/replicated/engine.ts';
import { runStandIn } from '../../support/eventstore-stand-in/server.ts';
import { countOf } from '../../support/seed.ts';
import { type RunningStandIn, startStandIn } from '../../support/start-eventstore.ts';
import { append, appends, firstOnly, numbersOf, readTo, readUntil, writerA, writerB } from './appends.ts';

let server: RunningStandIn;
const open: LogEngine[] = [];

beforeEach(async () => {
  server = await startStandIn();
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((engine) => engine.close()));
  await server.stop();
});

async function openedEngine(idleMs?: number): Promise<LogEngine> {
  const engine = createEventStoreEngine({ url: server.url('log'), idleMs });
  open.push(engine);
  await engine.open();
  return engine;
}

/** Sends the same appends until the engine has acknowledged them, as an outbox does. */
async function appendSurely(engine: LogEngine, group: ReturnType<typeof appends>): Promise<number> {
  for (let attempts = 1; ; attempts++) {
    try {
      await engine.append(group);
      return attempts;
    } catch (error) {
      if (!(error instanceof EngineUnavailable) || attempts === 2_000) throw error;
    }
  }
}

/** Reading goes on at the place when the connection was lost, as the port permits. @returns numbers, without repetitions */
async function readSurely(engine: LogEngine, number: number, after?: EnginePlace): Promise<number[]> {
  for (let attempts = 1; ; attempts++) {
    try {
      return firstOnly(numbersOf((await readTo(engine, number, after)).appends));
    } catch (error) {
      if (!(error instanceof EngineUnavailable) || attempts === 2_000) throw error;
    }
  }
}

function upTo(last: number): number[] {
  return Array.from({ length: last }, (_, index) => index + 1);
}

async function unavailable(doing: Promise<unknown>): Promise<EngineUnavailable> {
  const error = await doing.then(
    () => new Error('it succeeded'),
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(EngineUnavailable);
  return error as EngineUnavailable;
}

describe('an append on EventStoreDB that fails', () => {
  it('has outcome "unknown" when the connection is cut instead of an answer, and can be repeated', async () => {
    const engine = await openedEngine();
    await engine.append(appends(1, 3));
    await server.setFaults({ cutAfterAppends: 1 });
    expect((await unavailable(engine.append(appends(4, 6)))).outcome).toBe('unknown');
    await appendSurely(engine, appends(4, 6));
    await engine.append(appends(7, 8));
    const numbers = numbersOf((await readTo(engine, 8)).appends);
    expect(firstOnly(numbers)).toEqual(upTo(8));
  });

  it('leaves out what follows a refused append, until it is repeated', async () => {
    const engine = await openedEngine();
    await server.setFaults({ refuseAppendAfter: 2 });
    expect((await unavailable(engine.append(appends(1, 6)))).outcome).toBe('unknown');
    await engine.append([append({ writer: writerB, number: 1 })]);
    const between = await readUntil(engine, (read) => numbersOf(read, writerB).length > 0);
    // Which one is refused depends on the client: it does not send them in order.
    const before = numbersOf(between.appends);
    expect(before.length).toBeLessThan(6);
    expect(before).toEqual(upTo(before.length));
    await appendSurely(engine, appends(1, 6));
    const numbers = numbersOf((await readTo(engine, 6)).appends);
    expect(numbers).toEqual([...before, ...upTo(6)]);
    const rest = await readTo(engine, 6, between.resume);
    expect(firstOnly([...before, ...numbersOf(rest.appends)])).toEqual(upTo(6));
  });

  it('has outcome "none" when the server cannot be reached, and succeeds when it is back', async () => {
    const engine = await openedEngine();
    await engine.append(appends(1, 2));
    await server.kill();
    await unavailable(engine.append(appends(3, 4)));
    expect((await unavailable(engine.append(appends(3, 4)))).outcome).toBe('none');
    await server.restart();
    await appendSurely(engine, appends(3, 4));
    expect(numbersOf((await readTo(engine, 4)).appends)).toEqual(upTo(4));
  });

  it('fails within the deadline when the server does not answer', async () => {
    const engine = createEventStoreEngine({ url: `${server.url('log')}&defaultDeadline=300` });
    open.push(engine);
    await engine.open();
    await engine.append(appends(1, 1));
    await server.setFaults({ delayMs: 60_000 });
    expect((await unavailable(engine.append(appends(2, 3)))).outcome).toBe('unknown');
    await server.setFaults({});
    await appendSurely(engine, appends(2, 3));
    expect(firstOnly(numbersOf((await readTo(engine, 3)).appends))).toEqual(upTo(3));
  });
});

describe('the order of appends on EventStoreDB', () => {
  it('is that of the caller when the server records them in another', async () => {
    const engine = await openedEngine();
    await server.setFaults({ reverse: true });
    await engine.append(appends(1, 40));
    await engine.append(appends(41, 80));
    const client = EventStoreDBClient.connectionString(`esdb://127.0.0.1:${server.port}?tls=false`);
    const physical: unknown[] = [];
    for await (const { event } of client.readAll()) physical.push(Object(event?.metadata)['number']);
    await client.dispose();
    expect(physical).not.toEqual(upTo(80));
    expect(numbersOf((await readTo(engine, 80)).appends)).toEqual(upTo(80));
  });

  it('holds while connections are cut, for two engines of one process', async () => {
    const [one, other] = [await openedEngine(), await openedEngine()];
    await server.setFaults({ delayMs: 5 });
    const sent = { [writerA]: 0, [writerB]: 0 };
    const send = async (engine: LogEngine, writer: typeof writerA | typeof writerB) => {
      for (let from = 1; from <= 400; from += 20) {
        await appendSurely(engine, appends(from, from + 19, writer));
        sent[writer]++;
      }
    };
    const cut = async () => {
      for (let round = 1; round < countOf(8, 20); round++) {
        await expect.poll(() => sent[writerA] >= round && sent[writerB] >= round, { interval: 1 }).toBe(true);
        await server.disconnect();
      }
    };
    await Promise.all([send(one, writerA), send(other, writerB), cut()]);
    await appendSurely(one, [append({ number: 401 })]);
    const { appends: read } = await readTo(one, 401);
    expect(firstOnly(numbersOf(read, writerA))).toEqual(upTo(401));
    expect(firstOnly(numbersOf(read, writerB))).toEqual(upTo(400));
  });

  it('holds while the server of another engine of the process is killed', async () => {
    const otherServer = await startStandIn();
    // So that this engine always waits for answers.
    await server.setFaults({ delayMs: 20 });
    const one = await openedEngine();
    const other = createEventStoreEngine({ url: otherServer.url('log') });
    open.push(other);
    let stop = false;
    let sentToOther = 0;
    const sendToOther = async () => {
      for (; !stop; sentToOther++) await appendSurely(other, appends(1, 20));
    };
    let last = 0;
    const send = async () => {
      for (; !stop; last += 20) await appendSurely(one, appends(last + 1, last + 20));
    };
    const restart = async () => {
      for (let round = 0; round < countOf(2, 5); round++) {
        const before = { last, sentToOther };
        await expect.poll(() => last > before.last && sentToOther > before.sentToOther, { interval: 3 }).toBe(true);
        await otherServer.kill();
        await otherServer.restart();
      }
      stop = true;
    };
    await Promise.all([send(), sendToOther(), restart()]);
    expect(firstOnly(numbersOf((await readTo(one, last)).appends))).toEqual(upTo(last));
    await otherServer.stop();
  });

  it('holds, and nothing acknowledged is lost, while the server is killed again and again', async () => {
    const engine = await openedEngine();
    let acknowledged = 0;
    let stop = false;
    const sending = (async () => {
      for (let from = 1; !stop; from += 10) {
        for (let sent = false; !sent; ) {
          sent = await engine.append(appends(from, from + 9)).then(
            () => true,
            () => false,
          );
        }
        acknowledged = from + 9;
      }
    })();
    for (let round = 0; round < countOf(2, 6); round++) {
      const before = acknowledged;
      await expect.poll(() => acknowledged, { interval: 5 }).toBeGreaterThan(before + 50);
      await server.kill();
      await server.restart();
    }
    stop = true;
    await sending;
    const numbers = firstOnly(numbersOf((await readTo(engine, acknowledged)).appends));
    expect(numbers).toEqual(upTo(acknowledged));
  }, 60_000);
});

describe('reading from EventStoreDB', () => {
  it('goes to the leader when the address names another node', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'eventstore-node-'));
    const node = await runStandIn({ data: join(folder, 'events'), leaderPort: server.port });
    const ofLeader = await openedEngine();
    await ofLeader.append(appends(1, 5));
    const engine = createEventStoreEngine({ url: `esdb://127.0.0.1:${node.port}/log?tls=false` });
    open.push(engine);
    await engine.open();
    await engine.append(appends(6, 9));
    const { appends: read, resume } = await readTo(engine, 9);
    expect(numbersOf(read)).toEqual(upTo(9));
    await server.disconnect();
    await appendSurely(engine, appends(10, 12));
    expect(await readSurely(engine, 12, resume)).toEqual([10, 11, 12]);
    expect(await readSurely(ofLeader, 12)).toEqual(upTo(12));
    await node.stop();
    rmSync(folder, { recursive: true });
  });

  it('goes on when the server drops the subscription', async () => {
    const engine = await openedEngine();
    await engine.append(appends(1, 5));
    const end = new AbortController();
    const numbers: number[] = [];
    for await (const batch of engine.read(undefined, end.signal)) {
      numbers.push(...numbersOf(batch.appends));
      const last = numbers.at(-1) ?? 0;
      if (last === 30) break;
      if (last % 5 !== 0 || batch.appends.length === 0) continue;
      await server.dropSubscriptions();
      await engine.append(appends(last + 1, last + 5));
    }
    expect(numbers).toEqual(upTo(30));
  });

  it('finds what a silent subscription has not yielded', async () => {
    const engine = await openedEngine(100);
    await engine.append(appends(1, 5));
    const end = new AbortController();
    const numbers: number[] = [];
    for await (const batch of engine.read(undefined, end.signal)) {
      numbers.push(...numbersOf(batch.appends));
      if (numbers.length === 5) {
        await server.setFaults({ muteSubscriptions: true });
        await engine.append(appends(6, 8));
      }
      if (numbers.length === 8) break;
    }
    expect(numbers).toEqual(upTo(8));
  });

  it('fails with EngineUnavailable when the server is killed, and goes on from the place when it is back', async () => {
    const engine = await openedEngine();
    await engine.append(appends(1, 5));
    const { resume } = await readTo(engine, 5);
    const waiting = unavailable(engine.read(resume, new AbortController().signal)[Symbol.asyncIterator]().next());
    await server.kill();
    await waiting;
    await server.restart();
    await appendSurely(engine, appends(6, 9));
    expect(numbersOf((await readTo(engine, 9, resume)).appends)).toEqual([6, 7, 8, 9]);
  });

  it('fails with PlaceLost after the server was restored from an older backup, also when it was written again', async () => {
    const engine = await openedEngine();
    await engine.append(appends(1, 5));
    await server.kill();
    copyFileSync(server.dataFile, `${server.dataFile}.backup`);
    await server.restart();
    await appendSurely(engine, appends(6, 10));
    const { resume } = await readTo(engine, 10);
    await server.kill();
    copyFileSync(`${server.dataFile}.backup`, server.dataFile);
    await server.restart();
    await expect(readTo(engine, 11, resume)).rejects.toBeInstanceOf(PlaceLost);
    await appendSurely(engine, appends(6, 10));
    await appendSurely(engine, appends(11, 15));
    await expect(readTo(engine, 15, resume)).rejects.toBeInstanceOf(PlaceLost);
  });

  it('fails with PlaceLost for a place of another engine', async () => {
    const engine = await openedEngine();
    await expect(readTo(engine, 1, '17')).rejects.toBeInstanceOf(PlaceLost);
  });

  it('fails with EngineDamaged when an append has other bytes than were written', async () => {
    const engine = await openedEngine();
    await engine.append([append({ number: 1, bodies: [100] })]);
    const client = EventStoreDBClient.connectionString(`esdb://127.0.0.1:${server.port}?tls=false`);
    for await (const { event } of client.readStream('log.thing-a')) {
      if (event === undefined || !(event.data instanceof Uint8Array)) throw new Error('no event');
      const data = Uint8Array.from(event.data);
      data[data.length - 1] = (data.at(-1) ?? 0) ^ 1;
      const metadata = new TextEncoder().encode(JSON.stringify({ ...Object(event.metadata), call: 'copy-1' }));
      const copy = {
        id: crypto.randomUUID(),
        type: event.type,
        contentType: 'application/octet-stream',
        data,
        metadata,
      };
      await client.appendToStream('log.thing-a', [copy as never]);
    }
    await client.dispose();
    await expect(readTo(engine, 2)).rejects.toBeInstanceOf(EngineDamaged);
  });
});
