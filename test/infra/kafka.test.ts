import type { Kafka } from 'kafkajs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isFree } from '../../infra/kafka/free-port.ts';
import { kafkaJars } from '../../infra/kafka/jars.ts';
import { liveBrokers } from '../../infra/kafka/live-brokers.ts';
import kafkajs from '../../src/events/kafka/kafkajs.ts';
import { type KafkaBroker, startKafkaBroker } from '../support/kafka-broker.ts';
import { kafkaOrSkip } from '../support/kafka-for-tests.ts';

const jars = kafkaJars();
if ('missing' in jars) console.log(`tests that start a Kafka broker are skipped: ${jars.missing}`);
const shared = await kafkaOrSkip();

/** Runs with a client that is disconnected afterwards. */
async function withKafka<T>(brokers: readonly string[], use: (kafka: Kafka) => Promise<T>): Promise<T> {
  return use(new kafkajs.Kafka({ brokers: [...brokers], logLevel: kafkajs.logLevel.NOTHING, clientId: 'tests' }));
}

async function send(brokers: readonly string[], topic: string, values: readonly string[]): Promise<void> {
  await withKafka(brokers, async (kafka) => {
    const producer = kafka.producer();
    await producer.connect();
    try {
      await producer.send({ topic, acks: -1, messages: values.map((value) => ({ value })) });
    } finally {
      await producer.disconnect();
    }
  });
}

async function createTopic(brokers: readonly string[], topic: string): Promise<void> {
  await withKafka(brokers, async (kafka) => {
    const admin = kafka.admin();
    await admin.connect();
    try {
      await admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions: 1 }] });
    } finally {
      await admin.disconnect();
    }
  });
}

async function lastOffset(brokers: readonly string[], topic: string): Promise<string | undefined> {
  return withKafka(brokers, async (kafka) => {
    const admin = kafka.admin();
    await admin.connect();
    try {
      return (await admin.fetchTopicOffsets(topic))[0]?.high;
    } finally {
      await admin.disconnect();
    }
  });
}

describe.skipIf(shared === undefined)('the Kafka broker that test files share', () => {
  it('stores what is sent to a topic', async () => {
    const brokers = shared ?? [];
    const topic = `shared-${crypto.randomUUID()}`;
    await createTopic(brokers, topic);
    await send(brokers, topic, ['a', 'b']);
    expect(await lastOffset(brokers, topic)).toBe('2');
  });
});

describe.skipIf('missing' in jars)('a Kafka broker of its own', () => {
  let broker: KafkaBroker;
  let port = 0;
  const topic = 'kept';

  beforeAll(async () => {
    broker = await startKafkaBroker();
    port = Number(broker.address.split(':')[1]);
    await createTopic([broker.address], topic);
  }, 60_000);
  afterAll(() => broker?.dispose());

  it('keeps what it acknowledged when it is killed and started again on its port', async () => {
    await send([broker.address], topic, ['before']);
    await broker.kill();
    expect(await liveBrokers(port, 200)).toBe(0);
    expect(await isFree(port)).toBe(true);
    await broker.restart();
    await send([broker.address], topic, ['after']);
    expect(await lastOffset([broker.address], topic)).toBe('2');
  }, 60_000);

  it('answers nothing while it is suspended, and goes on afterwards', async () => {
    broker.pause();
    try {
      // The signal stops each thread when the kernel gets to it.
      await expect.poll(() => liveBrokers(port, 300)).toBe(0);
      // The port is still taken.
      expect(await isFree(port)).toBe(false);
    } finally {
      broker.resume();
    }
    await expect.poll(() => liveBrokers(port, 1000)).toBe(1);
  }, 30_000);

  it('does not start on a port that is in use', async () => {
    await expect(startKafkaBroker({ port })).rejects.toThrow(`port ${port} of 127.0.0.1 is in use`);
  });

  it('stops in an orderly way and can be started again', async () => {
    await broker.stop();
    expect(await liveBrokers(port, 200)).toBe(0);
    await broker.restart();
    expect(await liveBrokers(port, 1000)).toBe(1);
  }, 60_000);
});
