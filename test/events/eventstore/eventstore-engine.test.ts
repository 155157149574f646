import { randomUUID } from 'node:crypto';
import { EventStoreDBClient, jsonEvent } from '@eventstore/db-client';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createEventStoreEngine } from '../../../src/events/eventstore/eventstore-engine.ts';
import type { LogEngine } from '../../../src/events/replicated/engine.ts';
import { someOf } from '../../support/seed.ts';
import { eventStoreKind, type RunningEventStore, startEventStore } from '../../support/start-eventstore.ts';
import { append, appends, barrier, numbersOf, readCount, readTo, readUntil, writerA, writerB } from './appends.ts';

let server: RunningEventStore;
const open: LogEngine[] = [];

beforeAll(async () => {
  server = await startEventStore();
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((engine) => engine.close()));
});
afterAll(() => server.stop());

async function engineOn(logName: string): Promise<LogEngine> {
  const engine = createEventStoreEngine({ url: server.url(logName) });
  open.push(engine);
  await engine.open();
  return engine;
}

function newLogName(): string {
  return `log-${randomUUID()}`;
}

function clientOf(url: string): EventStoreDBClient {
  return EventStoreDBClient.connectionString(url.replace(/\/[^/?]+(\?|$)/, '$1'));
}

describe(`a log on EventStoreDB (${await eventStoreKind()})`, () => {
  it('returns appends as they were handed over', async () => {
    const engine = await engineOn(newLogName());
    const sent = [
      append({ number: 1, bodies: [10, 0, 20], expectedRevision: 'noStream' }),
      append({ number: 2, expectedRevision: 17n }),
      barrier(3),
      append({ number: 4, expectedRevision: 'exists', stream: 'ünïcode' }),
    ];
    await engine.append(sent);
    expect((await readCount(engine, 4)).appends).toEqual(sent);
  });

  it('keeps the order of several calls and of the appends in each', async () => {
    const engine = await engineOn(newLogName());
    await engine.append(appends(1, 300));
    for (let number = 301; number <= 305; number++) await engine.append([append({ number })]);
    await engine.append(appends(306, 400));
    const { appends: read } = await readTo(engine, 400);
    expect(numbersOf(read)).toEqual(Array.from({ length: 400 }, (_, index) => index + 1));
  });

  it('writes the events of an append to the stream of its first write, with readable metadata', async () => {
    const logName = newLogName();
    const engine = await engineOn(logName);
    await engine.append([append({ number: 1, stream: 'visible', bodies: [0, 0], expectedRevision: 4n })]);
    const client = clientOf(server.url(logName));
    const events = [];
    for await (const { event } of client.readStream(`${logName}.thing-visible`)) events.push(event);
    expect(events.map((event) => event?.type)).toEqual(['thing.noted', 'thing.noted']);
    expect(events.map((event) => event?.metadata)).toMatchObject([
      { stream: 'thing-visible', expected: '4', writer: writerA, number: 1, events: 2, place: 0, of: 2 },
      { stream: 'thing-visible', expected: '4', place: 1, of: 2 },
    ]);
    await client.dispose();
  });

  it('splits large appends and large events and puts them together again', async () => {
    const engine = await engineOn(newLogName());
    const sent = [
      append({ number: 1, bodies: [3 * 1024 * 1024, 5, 900 * 1024] }),
      append({ number: 2, bodies: Array.from({ length: 40 }, () => 60 * 1024) }),
      append({ number: 3 }),
    ];
    await engine.append(sent);
    const { appends: read } = await readCount(engine, 3);
    expect(read.map(({ number, records }) => [number, records.length])).toEqual(
      sent.map(({ number, records }) => [number, records.length]),
    );
    expect(read[0]?.records.equals(sent[0]?.records ?? Buffer.alloc(0))).toBe(true);
    expect(read).toEqual(sent);
  });

  it('accepts an append to thousands of streams', async () => {
    const engine = await engineOn(newLogName());
    const many = Array.from({ length: 3_000 }, (_, index) => append({ number: 1, stream: `${index}` }));
    const writes = many.flatMap((one) => one.writes);
    const sent = { ...append({ number: 1 }), writes, records: Buffer.concat(many.map(({ records }) => records)) };
    await engine.append([sent]);
    expect((await readCount(engine, 1)).appends).toEqual([sent]);
  });

  it('continues after every place', async () => {
    const engine = await engineOn(newLogName());
    const large = append({ number: 31, bodies: [2 * 1024 * 1024] });
    await engine.append(appends(1, 30));
    await engine.append([large, ...appends(32, 60)]);
    await engine.append(appends(61, 90));
    const { batches } = await readTo(engine, 90);
    const seen = new Set<number>();
    const places = new Set(someOf(batches, undefined, Math.ceil(batches.length / 5)));
    for (const batch of batches) {
      for (const number of numbersOf(batch.appends)) seen.add(number);
      if (seen.size === 90) break;
      if (!places.has(batch)) continue;
      const rest = numbersOf((await readTo(engine, 90, batch.resume)).appends);
      expect(new Set([...seen, ...rest]).size).toBe(90);
      expect(rest).toEqual([...rest].sort((one, other) => one - other));
    }
  });

  it('gives two readers the same order of two writers', async () => {
    const logName = newLogName();
    const [one, other] = [await engineOn(logName), await engineOn(logName)];
    const send = async (engine: LogEngine, writer: string) => {
      for (let from = 1; from <= 200; from += 20) await engine.append(appends(from, from + 19, writer));
    };
    await Promise.all([send(one, writerA), send(other, writerB)]);
    const reads = await Promise.all([one, other].map((engine) => readCount(engine, 400)));
    const orders = reads.map((read) => read.appends.map(({ writer, number }) => `${writer}/${number}`));
    expect(orders[0]).toEqual(orders[1]);
    for (const writer of [writerA, writerB]) {
      expect(numbersOf(reads[0]?.appends ?? [], writer)).toEqual(Array.from({ length: 200 }, (_, index) => index + 1));
    }
  });

  it('yields the same append again when it was handed over twice', async () => {
    const engine = await engineOn(newLogName());
    const twice = append({ number: 1, id: randomUUID(), bodies: [0, 0] });
    await engine.append([twice]);
    await engine.append([twice]);
    await engine.append([append({ number: 2 })]);
    expect(numbersOf((await readTo(engine, 2)).appends)).toEqual([1, 1, 2]);
  });

  it('yields a different append whose event has a known id', async () => {
    const engine = await engineOn(newLogName());
    const id = randomUUID();
    await engine.append([append({ number: 1, id, bodies: [0, 0] })]);
    await engine.append([append({ number: 2, id })]);
    await engine.append([append({ number: 3, id, bodies: [0, 0, 0] })]);
    expect(numbersOf((await readTo(engine, 3)).appends)).toEqual([1, 2, 3]);
  });

  it('separates two logs of one server whose names begin alike', async () => {
    const name = newLogName();
    const [one, other] = [await engineOn(name), await engineOn(`${name}-2`)];
    await one.append(appends(1, 5));
    await other.append(appends(101, 105));
    await one.append(appends(6, 8));
    expect(numbersOf((await readTo(one, 8)).appends)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(numbersOf((await readTo(other, 105)).appends)).toEqual([101, 102, 103, 104, 105]);
  });

  it('ignores events of others, also in streams of the log', async () => {
    const logName = newLogName();
    const engine = await engineOn(logName);
    const client = clientOf(server.url(logName));
    const foreign = () =>
      jsonEvent({ type: 'order.placed', data: { call: 'x-1', place: 0, of: 1 }, metadata: { call: 1 } });
    await engine.append([append({ number: 1 })]);
    await client.appendToStream('orders', [foreign(), foreign()]);
    await client.appendToStream(`${logName}.thing-a`, [foreign()]);
    await client.appendToStream(`${logName}.other`, [foreign()]);
    await engine.append([append({ number: 2 })]);
    const { appends: read, resume } = await readTo(engine, 2);
    expect(numbersOf(read)).toEqual([1, 2]);
    await engine.append([append({ number: 3 })]);
    expect(numbersOf((await readTo(engine, 3, resume)).appends)).toEqual([3]);
    await client.dispose();
  });

  it('yields appends that arrive while it waits, and ends with its signal', async () => {
    const engine = await engineOn(newLogName());
    const end = new AbortController();
    const read = engine.read(undefined, end.signal)[Symbol.asyncIterator]();
    for (let number = 1; number <= 20; number++) {
      const next = read.next();
      await engine.append([append({ number })]);
      expect(numbersOf((await next).value?.appends ?? [])).toEqual([number]);
    }
    const last = read.next();
    end.abort();
    expect(await last).toEqual({ done: true, value: undefined });
  });

  it('reads at the pace of its caller', async () => {
    const engine = await engineOn(newLogName());
    for (let from = 1; from <= 2_000; from += 100) await engine.append(appends(from, from + 99));
    let slowly = 0;
    const { appends: read } = await readUntil(engine, (all) => {
      slowly++;
      return all.length >= 2_000;
    });
    expect(numbersOf(read)).toEqual(Array.from({ length: 2_000 }, (_, index) => index + 1));
    expect(slowly).toBeGreaterThan(3);
  });
});
