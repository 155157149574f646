/** A reader that has to join its group again: after a pause of the process, or when the coordinator of its group moves. */
import { randomUUID } from 'node:crypto';
import type { Admin, Consumer, Kafka } from 'kafkajs';
import { describe, expect, it } from 'vitest';
import { createKafkaEngine } from '../../../src/events/kafka/kafka-engine.ts';
import kafkajs from '../../../src/events/kafka/kafkajs.ts';
import { kafkaOrSkip } from '../../support/kafka-for-tests.ts';
import { append, numbersOf } from '../eventstore/appends.ts';

const shared = await kafkaOrSkip();
const count = 60;
/** All of them together are more than one fetch returns. */
const appendBytes = 100 * 1024;

describe.skipIf(shared === undefined)('a reader of a log on Kafka', () => {
  it('goes on at its place when it joins its group again', async () => {
    const topic = `log-${randomUUID()}`;
    const engine = createKafkaEngine({ url: `kafka://${shared?.join(',')}/${topic}` });
    await engine.open();
    const sent = Array.from({ length: count + 1 }, (_, index) => append({ number: index + 1, bodies: [appendBytes] }));
    await engine.append(sent.slice(0, count));
    const end = new AbortController();
    const read: number[] = [];
    const reading = (async () => {
      for await (const batch of engine.read(undefined, end.signal)) {
        read.push(...numbersOf(batch.appends));
        if (read.includes(count + 1)) return;
      }
    })();
    await expect.poll(() => read.length).toBe(count);
    await takePartition(topic);
    await engine.append(sent.slice(count));
    await reading;
    expect(read).toEqual(sent.map(({ number }) => number));
    end.abort();
    await engine.close();
  }, 60_000);
});

/** Another member joins the group of the topic's reader, until both have been assigned anew, and leaves it. */
async function takePartition(topic: string): Promise<void> {
  const kafka = new kafkajs.Kafka({ brokers: [...(shared ?? [])], logLevel: kafkajs.logLevel.NOTHING });
  const groupId = await readerGroup(kafka, topic);
  const other: Consumer = kafka.consumer({ groupId });
  await other.connect();
  await other.subscribe({ topic });
  await other.run({ autoCommit: false, eachBatch: async () => {} });
  await expect.poll(async () => (await other.describeGroup()).members.length).toBe(2);
  await other.disconnect();
}

async function readerGroup(kafka: Kafka, topic: string): Promise<string> {
  const admin: Admin = kafka.admin();
  await admin.connect();
  try {
    const { groups } = await admin.listGroups();
    const named = groups.map(({ groupId }) => groupId).filter((groupId) => groupId.startsWith('chancery-'));
    const { groups: described } = await admin.describeGroups(named);
    const found = described.find(({ members }) => members.some(({ memberMetadata }) => memberMetadata.includes(topic)));
    if (found === undefined) throw new Error(`no group reads ${topic}`);
    return found.groupId;
  } finally {
    await admin.disconnect();
  }
}
