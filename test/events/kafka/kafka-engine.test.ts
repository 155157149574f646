import { randomUUID } from 'node:crypto';
import type { Admin, KafkaMessage } from 'kafkajs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { kafkaJars } from '../../../infra/kafka/jars.ts';
import { createKafkaEngine } from '../../../src/events/kafka/kafka-engine.ts';
import kafkajs from '../../../src/events/kafka/kafkajs.ts';
import {
  EngineDamaged,
  EngineUnavailable,
  EngineUnsuitable,
  type LogEngine,
  PlaceLost,
} from '../../../src/events/replicated/engine.ts';
import { consumerGroupsReady, type KafkaBroker, startKafkaBroker } from '../../support/kafka-broker.ts';
import { kafkaOrSkip } from '../../support/kafka-for-tests.ts';
import {
  append,
  appendEach,
  appends,
  barrier,
  firstOnly,
  numbersOf,
  readCount,
  readTo,
  readUntil,
  writerA,
  writerB,
} from '../eventstore/appends.ts';

const { Kafka, logLevel } = kafkajs;
const shared = await kafkaOrSkip();
const jars = kafkaJars();
const open: LogEngine[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((engine) => engine.close()));
});

const newTopic = () => `log-${randomUUID()}`;
const addressOf = (topic: string, brokers = shared ?? []) => `kafka://${brokers.join(',')}/${topic}`;

async function engineOn(url: string): Promise<LogEngine> {
  const engine = createKafkaEngine({ url });
  open.push(engine);
  await engine.open();
  return engine;
}

async function withAdmin<T>(use: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = new Kafka({ brokers: [...(shared ?? [])], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  try {
    return await use(admin);
  } finally {
    await admin.disconnect();
  }
}

async function createTopic(topic: string, numPartitions: number, settings: Record<string, string>): Promise<void> {
  const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }));
  await withAdmin((admin) =>
    admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions, configEntries }] }),
  );
}

async function sendValue(topic: string, value: string | Buffer, headers: Record<string, string> = {}): Promise<void> {
  const producer = new Kafka({ brokers: [...(shared ?? [])], logLevel: logLevel.NOTHING }).producer();
  await producer.connect();
  await producer.send({ topic, messages: [{ value, headers }] });
  await producer.disconnect();
}

async function firstRecord(topic: string): Promise<KafkaMessage> {
  const consumer = new Kafka({ brokers: [...(shared ?? [])], logLevel: logLevel.NOTHING }).consumer({
    groupId: randomUUID(),
  });
  await consumer.connect();
  try {
    await consumer.subscribe({ topic, fromBeginning: true });
    const first = Promise.withResolvers<KafkaMessage>();
    await consumer.run({ autoCommit: false, eachMessage: async ({ message }) => first.resolve(message) });
    return await first.promise;
  } finally {
    await consumer.disconnect();
  }
}

describe.skipIf(shared === undefined)('a log on Kafka', () => {
  it('returns appends as they were handed over', async () => {
    const engine = await engineOn(addressOf(newTopic()));
    const sent = [
      append({ number: 1, bodies: [10, 0, 20], expectedRevision: 'noStream' }),
      append({ number: 2, expectedRevision: 17n }),
      barrier(3),
      append({ number: 4, expectedRevision: 'exists', stream: 'ünïcode' }),
    ];
    await engine.append(sent);
    expect((await readCount(engine, 4)).appends).toEqual(sent);
  });

  it('shows other programs the stream as key, and an event as CloudEvents headers', async () => {
    const topic = newTopic();
    const engine = await engineOn(addressOf(topic));
    await engine.append([append({ number: 1, id: '01939e6c-7a4e-7000-8000-000000000001' })]);
    const { key, headers = {} } = await firstRecord(topic);
    const texts = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
    expect(key?.toString()).toBe('thing-a');
    expect(texts).toMatchObject({
      ce_specversion: '1.0',
      ce_id: '01939e6c-7a4e-7000-8000-000000000001',
      ce_source: `kafka:///${topic}`,
      ce_type: 'thing.noted',
      ce_subject: 'thing-a',
      'content-type': 'application/vnd.chancery.append',
    });
  });

  it('keeps the order of several calls and of the appends in each', async () => {
    const engine = await engineOn(addressOf(newTopic()));
    await engine.append(appends(1, 300));
    await engine.append(appends(301, 305));
    expect(numbersOf((await readTo(engine, 305)).appends)).toEqual(
      Array.from({ length: 305 }, (_, index) => index + 1),
    );
  });

  it('cuts large appends into parts and puts them together again, beside those of another writer', async () => {
    const url = addressOf(newTopic());
    const [one, other] = [await engineOn(url), await engineOn(url)];
    const large = append({ number: 1, bodies: [3 * 1024 * 1024, 5, 900 * 1024] });
    const sent = append({ number: 2, bodies: Array.from({ length: 40 }, () => 60 * 1024) });
    await Promise.all([one.append([large, sent]), other.append(appends(1, 50, writerB))]);
    const { appends: read } = await readUntil(one, (all) => all.length >= 52);
    expect(read.filter(({ writer }) => writer === writerA)).toEqual([large, sent]);
    expect(numbersOf(read, writerB)).toHaveLength(50);
  });

  it('goes on after a place, also when an append is not complete there', async () => {
    const topic = newTopic();
    const engine = await engineOn(addressOf(topic));
    await appendEach(engine, appends(1, 3));
    await sendValue(topic, 'the first part of two', { append: `${writerB}/1`, part: 'gone/0/2' });
    await appendEach(engine, appends(4, 5));
    const { resume } = await readTo(engine, 5);
    await appendEach(engine, appends(6, 6));
    const numbers = numbersOf((await readTo(engine, 6, resume)).appends);
    expect(numbers).toEqual([4, 5, 6]);
  });

  it('shows the same order to two readers while two writers append', async () => {
    const url = addressOf(newTopic());
    const [one, other] = [await engineOn(url), await engineOn(url)];
    const reads = [one, other].map((engine) => readUntil(engine, (all) => all.length >= 200));
    const write = async (engine: LogEngine, writer: string) => {
      for (let number = 1; number <= 100; number += 10) await engine.append(appends(number, number + 9, writer));
    };
    await Promise.all([write(one, writerA), write(other, writerB)]);
    const [first, second] = await Promise.all(reads);
    expect(second?.appends).toEqual(first?.appends);
  });

  it('ends a reader when its signal is aborted, and reads and appends when it is closed', async () => {
    const engine = await engineOn(addressOf(newTopic()));
    const end = new AbortController();
    const reading = Array.fromAsync(engine.read(undefined, end.signal));
    setTimeout(() => end.abort(), 50);
    expect(await reading).toEqual([]);
    const other = Array.fromAsync(engine.read(undefined, new AbortController().signal));
    other.catch(() => {});
    await engine.close();
    await expect(other).rejects.toThrow(EngineUnavailable);
    await expect(engine.append(appends(1, 1))).rejects.toMatchObject({ outcome: 'none' });
  });

  it('creates its topic with one partition and without an end of retention', async () => {
    const topic = newTopic();
    await engineOn(addressOf(topic));
    const { resources } = await withAdmin((admin) =>
      admin.describeConfigs({
        includeSynonyms: false,
        resources: [{ type: kafkajs.ConfigResourceTypes.TOPIC, name: topic }],
      }),
    );
    const settings = Object.fromEntries(
      (resources[0]?.configEntries ?? []).map(({ configName, configValue }) => [configName, configValue]),
    );
    expect(settings).toMatchObject({ 'cleanup.policy': 'delete', 'retention.ms': '-1', 'retention.bytes': '-1' });
    await engineOn(addressOf(topic));
  });

  it.each([
    ['2 partitions', 2, { 'retention.ms': '-1' }],
    ['retention.ms=60000', 1, { 'retention.ms': '60000' }],
    ['cleanup.policy=compact', 1, { 'retention.ms': '-1', 'cleanup.policy': 'compact' }],
    ['retention.bytes=1000000', 1, { 'retention.ms': '-1', 'retention.bytes': '1000000' }],
    ['unclean.leader.election.enable=true', 1, { 'retention.ms': '-1', 'unclean.leader.election.enable': 'true' }],
    ['compression.type=zstd', 1, { 'retention.ms': '-1', 'compression.type': 'zstd' }],
    ['min.insync.replicas=2', 1, { 'retention.ms': '-1', 'min.insync.replicas': '2' }],
  ])('refuses a topic with %s, and says how to change it', async (reason, partitions, settings) => {
    const topic = newTopic();
    await createTopic(topic, partitions, settings);
    const opening = createKafkaEngine({ url: addressOf(topic) }).open();
    await expect(opening).rejects.toThrow(EngineUnsuitable);
    await expect(opening).rejects.toThrow(reason);
    const remedy = partitions === 1 ? `--entity-name ${topic} --add-config ${reason.split('=')[0]}=` : 'LOG_URL';
    await expect(opening).rejects.toThrow(remedy);
  });

  it('appends to a topic that its broker compresses with gzip, and reads from it', async () => {
    const topic = newTopic();
    await createTopic(topic, 1, { 'retention.ms': '-1', 'compression.type': 'gzip' });
    const engine = await engineOn(addressOf(topic));
    const sent = [...appends(1, 50), append({ number: 51, bodies: [3_000_000] })];
    await engine.append(sent);
    expect((await readTo(engine, 51)).appends).toEqual(sent);
  });

  it('fails with PlaceLost when records were removed, or the topic ends before the place', async () => {
    const topic = newTopic();
    const engine = await engineOn(addressOf(topic));
    await appendEach(engine, appends(1, 5));
    await expect(readCount(engine, 1, '6')).rejects.toThrow(PlaceLost);
    await withAdmin(async (admin) => {
      // kafkajs learns of the topic.
      await admin.fetchTopicOffsets(topic);
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '3' }] });
    });
    await expect(readCount(engine, 1)).rejects.toThrow(PlaceLost);
    // A reader that has read them refuses the topic too: no other gateway can read the whole log.
    await expect(readCount(engine, 1, '3')).rejects.toThrow(PlaceLost);
  });

  it('ignores records of other programs, and fails with EngineDamaged on an append with other bytes', async () => {
    const topic = newTopic();
    const engine = await engineOn(addressOf(topic));
    await engine.append(appends(1, 1));
    await sendValue(topic, 'not an append');
    await engine.append(appends(2, 2));
    expect(numbersOf((await readTo(engine, 2)).appends)).toEqual([1, 2]);
    const { frameAppend } = await import('../../../src/events/replicated/append-frame.ts');
    const [third] = appends(3, 3);
    if (third === undefined) throw new Error('no append');
    const bytes = frameAppend(third);
    bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 1, bytes.length - 1);
    await sendValue(topic, bytes);
    await expect(readTo(engine, 3)).rejects.toThrow(EngineDamaged);
  });
});

describe.skipIf('missing' in jars)('a log on a Kafka broker that fails', () => {
  let broker: KafkaBroker;
  beforeAll(async () => {
    broker = await startKafkaBroker();
  }, 60_000);
  afterAll(() => broker?.dispose());

  it('is unavailable while the broker is down, and goes on when it is back', async () => {
    const url = addressOf('killed', [broker.address]);
    const engine = await engineOn(url);
    await engine.append(appends(1, 3));
    const { resume } = await readTo(engine, 3);
    await broker.kill();
    const late = createKafkaEngine({ url });
    await expect(late.open()).rejects.toThrow(EngineUnavailable);
    await expect(engine.append(appends(4, 5))).rejects.toThrow(EngineUnavailable);
    await expect(engine.append(appends(4, 5))).rejects.toMatchObject({ outcome: 'none' });
    await expect(readCount(engine, 1, resume)).rejects.toThrow(EngineUnavailable);
    await broker.restart();
    await consumerGroupsReady(broker.address);
    await engine.append(appends(4, 5));
    expect(firstOnly(numbersOf((await readTo(engine, 5)).appends))).toEqual([1, 2, 3, 4, 5]);
  }, 60_000);

  it('has outcome "unknown" when a suspended broker does not answer in time', async () => {
    const engine = await engineOn(`${addressOf('suspended', [broker.address])}?requestTimeout=300`);
    await engine.append(appends(1, 2));
    broker.pause();
    try {
      await expect(engine.append(appends(3, 4))).rejects.toMatchObject({ outcome: 'unknown' });
    } finally {
      broker.resume();
    }
    await expect
      .poll(
        () =>
          engine.append(appends(3, 4)).then(
            () => 'appended',
            () => 'failed',
          ),
        { timeout: 20_000 },
      )
      .toBe('appended');
    expect(firstOnly(numbersOf((await readTo(engine, 4)).appends))).toEqual([1, 2, 3, 4]);
  }, 60_000);
});
