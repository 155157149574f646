/** Places on a topic whose records were replaced or removed, and records that transactions of other programs leave. */
import { randomUUID } from 'node:crypto';
import type { Admin, Transaction } from 'kafkajs';
import { afterEach, describe, expect, it } from 'vitest';
import { streamName } from '../../../src/events/event.ts';
import { createKafkaEngine } from '../../../src/events/kafka/kafka-engine.ts';
import kafkajs from '../../../src/events/kafka/kafkajs.ts';
import { EngineUnavailable, LogDiverged, type LogEngine, PlaceLost } from '../../../src/events/replicated/engine.ts';
import { collect, noted, write } from '../../contract/event-log.ts';
import { kafkaOrSkip } from '../../support/kafka-for-tests.ts';
import { Replica } from '../../support/replicas.ts';
import {
  append,
  appendEach,
  appends,
  numbersOf,
  readCount,
  readTo,
  readUntil,
  writerB,
} from '../eventstore/appends.ts';

const shared = await kafkaOrSkip();
const kafka = new kafkajs.Kafka({ brokers: [...(shared ?? [])], logLevel: kafkajs.logLevel.NOTHING });
const open: LogEngine[] = [];
const thing = streamName('thing', 'a');
afterEach(async () => {
  await Promise.all(open.splice(0).map((engine) => engine.close()));
});

const newTopic = () => `log-${randomUUID()}`;

async function engineOn(topic: string): Promise<LogEngine> {
  const engine = createKafkaEngine({ url: `kafka://${shared?.join(',')}/${topic}` });
  open.push(engine);
  await engine.open();
  return engine;
}

async function withAdmin<T>(use: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = kafka.admin();
  await admin.connect();
  try {
    return await use(admin);
  } finally {
    await admin.disconnect();
  }
}

async function deleteTopic(topic: string): Promise<void> {
  await withAdmin(async (admin) => {
    await admin.deleteTopics({ topics: [topic] });
    await expect.poll(() => admin.listTopics()).not.toContain(topic);
  });
}

async function deleteRecords(topic: string, before: number): Promise<void> {
  await withAdmin(async (admin) => {
    // kafkajs learns of the topic.
    await admin.fetchTopicOffsets(topic);
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: String(before) }] });
  });
}

/** The work of another program in transactions, one after the other. */
async function inTransactions(topic: string, works: readonly ((transaction: Transaction) => Promise<void>)[]) {
  const producer = kafka.producer({ transactionalId: randomUUID(), idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (const work of works) {
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: [{ value: 'of another program' }, { value: 'and more' }] });
    await work(transaction);
  }
  return producer;
}

describe.skipIf(shared === undefined)('a place on a topic', () => {
  it('is lost when the topic was deleted, created and filled beyond it', async () => {
    const topic = newTopic();
    const engine = await engineOn(topic);
    await appendEach(engine, appends(1, 5));
    const { resume } = await readTo(engine, 5);
    await appendEach(engine, appends(6, 6));
    expect(numbersOf((await readTo(engine, 6, resume)).appends)).toEqual([6]);
    await deleteTopic(topic);
    const other = await engineOn(topic);
    await appendEach(other, appends(1, 9, writerB));
    await expect(readCount(other, 1, resume)).rejects.toThrow(PlaceLost);
    await expect(readCount(other, 1, resume)).rejects.toThrow(`record 4 of the topic ${topic} is not the one`);
  });

  it('ends a reader that waits for the next record when the topic is deleted, and is lost when it was filled again', async () => {
    const topic = newTopic();
    const engine = await engineOn(topic);
    await appendEach(engine, appends(1, 5));
    let place: string | undefined;
    const read: number[] = [];
    const reading = (async () => {
      for await (const batch of engine.read(undefined, new AbortController().signal)) {
        place = batch.resume;
        read.push(...batch.appends.map(({ number }) => number));
      }
    })();
    reading.catch(() => {});
    await expect.poll(() => read.length).toBe(5);
    await deleteTopic(topic);
    await expect(reading).rejects.toThrow(EngineUnavailable);
    await appendEach(await engineOn(topic), appends(1, 9, writerB));
    await expect(readCount(engine, 1, place)).rejects.toThrow(PlaceLost);
    expect(read).toEqual([1, 2, 3, 4, 5]);
  }, 30_000);

  it('is lost when the record before it was removed', async () => {
    const topic = newTopic();
    const engine = await engineOn(topic);
    await appendEach(engine, appends(1, 5));
    const { resume } = await readTo(engine, 5);
    await appendEach(engine, appends(6, 8));
    await deleteRecords(topic, 5);
    await expect(readCount(engine, 1, resume)).rejects.toThrow('begins with record 5; 4 is needed');
  });

  it('is accepted without a check, as earlier versions stored it', async () => {
    const engine = await engineOn(newTopic());
    await appendEach(engine, appends(1, 5));
    expect(numbersOf((await readTo(engine, 5, '3')).appends)).toEqual([4, 5]);
  });

  it('is checked as well when it lies before the parts of an append that is not complete', async () => {
    const topic = newTopic();
    const engine = await engineOn(topic);
    await appendEach(engine, appends(1, 3));
    const producer = kafka.producer();
    await producer.connect();
    const headers = { append: `${writerB}/1`, part: 'gone/0/2' };
    await producer.send({ topic, messages: [{ value: 'the first part of two', headers }] });
    await producer.disconnect();
    await appendEach(engine, appends(4, 5));
    const { resume } = await readTo(engine, 5);
    expect(resume).toMatch(/^3:[0-9a-f]{8}$/);
    expect(numbersOf((await readTo(engine, 5, resume)).appends)).toEqual([4, 5]);
  });

  it('is verified without reading on, and says whether the log ends there', async () => {
    const topic = newTopic();
    const engine = await engineOn(topic);
    expect(await engine.verify(undefined)).toEqual({ isEnd: true });
    await appendEach(engine, appends(1, 5));
    const { resume } = await readTo(engine, 5);
    const [{ resume: earlier } = { resume: '' }] = (await readTo(engine, 3)).batches;
    expect(await engine.verify(undefined)).toEqual({ isEnd: false });
    expect(await engine.verify(resume)).toEqual({ isEnd: true });
    await appendEach(engine, appends(6, 6));
    expect(await engine.verify(resume)).toEqual({ isEnd: false });
    expect(earlier).toMatch(/^\d+:[0-9a-f]{8}$/);
    await expect(engine.verify('4:00000000')).rejects.toThrow(PlaceLost);
    await expect(engine.verify('100:00000000')).rejects.toThrow(PlaceLost);
    await expect(engine.verify('a place of another engine')).rejects.toThrow(PlaceLost);
  });

  it('is verified while the topic is gone, and after it was created and filled beyond it', async () => {
    const topic = newTopic();
    const engine = await engineOn(topic);
    await appendEach(engine, appends(1, 5));
    const { resume } = await readTo(engine, 5);
    await engine.verify(resume);
    await deleteTopic(topic);
    await expect(engine.verify(resume)).rejects.toThrow(EngineUnavailable);
    const other = await engineOn(topic);
    await expect(engine.verify(resume)).rejects.toThrow(PlaceLost);
    await appendEach(other, appends(1, 9, writerB));
    await expect(engine.verify(resume)).rejects.toThrow(`record 4 of the topic ${topic} is not the one`);
  });

  it('is found to be lost when records are removed before a reader has fetched them', async () => {
    const topic = newTopic();
    const engine = await engineOn(topic);
    // More than one fetch returns.
    const all = Array.from({ length: 90 }, (_, index) => append({ number: index + 1, bodies: [100 * 1024] }));
    await appendEach(engine, all);
    const batches = engine.read(undefined, new AbortController().signal)[Symbol.asyncIterator]();
    const first = await batches.next();
    await deleteRecords(topic, 89);
    const rest = (async () => {
      while ((await batches.next()).done !== true);
    })();
    await expect(rest).rejects.toThrow(EngineUnavailable);
    await expect(readCount(engine, 1, first.value?.resume)).rejects.toThrow(PlaceLost);
  });
});

describe.skipIf(shared === undefined)('a replica of a topic that was replaced', () => {
  const replicaOf = async (topic: string, dir?: string) => {
    const connect = () => createKafkaEngine({ url: `kafka://${shared?.join(',')}/${topic}` });
    return Replica.open(connect, dir === undefined ? {} : { dir });
  };
  const endOf = (topic: string) => withAdmin(async (admin) => (await admin.fetchTopicOffsets(topic))[0]?.high);

  it.each([
    ['shorter', 2],
    ['longer', 20],
  ])(
    'is refused at each start when the topic is %s now, and appends nothing',
    async (_, count) => {
      const topic = newTopic();
      const replica = await replicaOf(topic);
      for (let n = 0; n < 9; n++) await replica.log.append([write(thing, 'any', noted({ n }))]);
      await replica.log.close();
      await deleteTopic(topic);
      const other = await replicaOf(topic);
      for (let n = 0; n < count; n++) await other.log.append([write(thing, 'any', noted({ n: 100 + n }))]);
      const end = await endOf(topic);
      for (let n = 0; n < 4; n++) await expect(replica.reopen()).rejects.toThrow(LogDiverged);
      expect(await endOf(topic)).toBe(end);
      await Promise.all([replica.dispose(), other.dispose()]);
    },
    60_000,
  );

  it('is refused by gateways that have read them, and stops them, when records were deleted from the beginning', async () => {
    const topic = newTopic();
    const replica = await replicaOf(topic);
    const other = await replicaOf(topic);
    for (let n = 0; n < 9; n++) await replica.log.append([write(thing, 'any', noted({ n }))]);
    await other.log.close();
    await deleteRecords(topic, 3);
    const reason = 'begins with record 3: records were deleted from its beginning';
    await expect.poll(() => replica.log.status().reason, { timeout: 20_000 }).toContain(reason);
    expect(replica.log.status().reason).toContain('docs/scale.md, run-book "A replica that differs"');
    const end = await endOf(topic);
    for (const one of [other, replica]) await expect(one.reopen()).rejects.toThrow(LogDiverged);
    await expect(replicaOf(topic)).rejects.toThrow(LogDiverged);
    expect(await endOf(topic)).toBe(end);
    await Promise.all([replica.dispose(), other.dispose()]);
  }, 60_000);

  it('is refused when the topic is gone, which is not created', async () => {
    const topic = newTopic();
    const replica = await replicaOf(topic);
    await replica.log.append([write(thing, 'any', noted({ n: 1 }))]);
    await replica.log.close();
    await deleteTopic(topic);
    await expect(replica.reopen()).rejects.toThrow(`the topic ${topic} does not exist. Keep the folder`);
    expect(await withAdmin((admin) => admin.listTopics())).not.toContain(topic);
    await replica.dispose();
  }, 60_000);

  it('stops while it is open', async () => {
    const topic = newTopic();
    const replica = await replicaOf(topic);
    for (let n = 0; n < 9; n++) await replica.log.append([write(thing, 'any', noted({ n }))]);
    await deleteTopic(topic);
    const other = await engineOn(topic);
    await appendEach(other, appends(1, 30, writerB));
    await expect.poll(() => replica.log.status().reason, { timeout: 20_000 }).toContain('does not match the log');
    await replica.dispose();
  }, 60_000);
});

describe.skipIf(shared === undefined)('a log on a topic with transactions of other programs', () => {
  const commit = (transaction: Transaction) => transaction.commit();
  const abort = (transaction: Transaction) => transaction.abort();

  it('is read without their records, and goes on after each place', async () => {
    const topic = newTopic();
    const engine = await engineOn(topic);
    await appendEach(engine, appends(1, 2));
    const producer = await inTransactions(topic, [commit, abort, commit]);
    await appendEach(engine, appends(3, 4));
    await producer.disconnect();
    const other = await inTransactions(topic, [abort]);
    await other.disconnect();
    await appendEach(engine, appends(5, 5));
    const { appends: read, batches } = await readTo(engine, 5);
    expect(numbersOf(read)).toEqual([1, 2, 3, 4, 5]);
    for (const { resume } of batches.slice(0, -1)) {
      expect(numbersOf((await readTo(engine, 5, resume)).appends).at(-1)).toBe(5);
    }
    const { resume } = await readTo(engine, 5);
    await appendEach(engine, appends(6, 6));
    expect(numbersOf((await readTo(engine, 6, resume)).appends)).toEqual([6]);
  });

  it('is opened and appended to while a transaction is never committed', async () => {
    const topic = newTopic();
    const connect = () => createKafkaEngine({ url: `kafka://${shared?.join(',')}/${topic}` });
    const replica = await Replica.open(connect);
    const producer = await inTransactions(topic, [async () => {}]);
    for (let n = 0; n < 3; n++) await replica.log.append([write(thing, 'any', noted({ n }))]);
    await replica.reopen();
    const other = await Replica.open(connect);
    await other.log.append([write(thing, 2n, noted({ n: 3 }))]);
    expect(await collect(other.log.readAll())).toHaveLength(4);
    await Promise.all([replica.dispose(), other.dispose(), producer.disconnect()]);
  }, 60_000);

  it('is read by a reader that runs while they end, and while one is open', async () => {
    const topic = newTopic();
    const engine = await engineOn(topic);
    await appendEach(engine, appends(1, 1));
    const reading = readUntil(engine, (read) => read.some(({ number }) => number === 4));
    // Their markers arrive alone.
    const producer = await inTransactions(topic, [commit, abort, commit]);
    await appendEach(engine, appends(2, 2));
    const openTransaction: Transaction[] = [];
    const other = await inTransactions(topic, [async (transaction) => void openTransaction.push(transaction)]);
    await appendEach(engine, appends(3, 4));
    expect(numbersOf((await reading).appends)).toEqual([1, 2, 3, 4]);
    await openTransaction[0]?.abort();
    await Promise.all([producer.disconnect(), other.disconnect()]);
  });
});
