/**
 * Reads a topic from an offset. kafkajs reads only as member of a consumer group: each reader has a group of its own,
 * which never commits an offset and ends with it.
 */
import { randomBytes } from 'node:crypto';
import type { Consumer, KafkaMessage } from 'kafkajs';
import type { KafkaClient } from './kafka-clients.ts';
import { kafkaErrorOf } from './kafka-errors.ts';
import { Handover } from './kafka-handover.ts';
import { type KafkaPlace, placeAfter } from './kafka-place.ts';
import { RecordSequence } from './kafka-sequence.ts';

const sessionTimeoutMs = 15_000;
const heartbeatMs = 2_000;
/** An idle fetch ends after this time; it delays the end of a reader, not the records. */
const maxWaitMs = 250;
const maxFetchBytes = 4 * 1024 * 1024;

/**
 * Records without gaps, in batches: all that are not control records, also those of transactions that are open or were
 * aborted. Ends when the signal is aborted, and the client with it.
 * @throws EngineUnavailable, PlaceLost
 */
export async function* readRecords(
  client: KafkaClient,
  topic: string,
  from: KafkaPlace,
  signal: AbortSignal,
): AsyncGenerator<readonly KafkaMessage[]> {
  const consumer = client.kafka.consumer({
    groupId: `chancery-${randomBytes(12).toString('hex')}`,
    ...{ sessionTimeout: sessionTimeoutMs, heartbeatInterval: heartbeatMs, maxWaitTimeInMs: maxWaitMs },
    ...{ maxBytes: maxFetchBytes, maxBytesPerPartition: maxFetchBytes },
    // Otherwise an open transaction of another program would hold back the appends after it.
    readUncommitted: true,
    retry: { retries: 2, initialRetryTime: 100, restartOnFailure: () => Promise.resolve(false) },
  });
  const handover = new Handover(signal, heartbeatMs);
  const sequence = new RecordSequence(topic);
  let next = from;
  watch(consumer, handover, sequence);
  // The group has no offsets, so kafkajs would begin again at the first record each time it joins: also after a change of
  // the leader or the coordinator, and after this process was suspended for longer than its session lasts.
  consumer.on(consumer.events.GROUP_JOIN, () => {
    consumer.seek({ topic, partition: 0, offset: String(sequence.begin(next)) });
  });
  try {
    await handover.orEnd(client.limited(start(consumer, topic, handover, sequence)));
    for (;;) {
      const messages = await handover.take();
      if (messages === undefined) return;
      const fresh = messages.filter(({ offset }) => BigInt(offset) >= next.offset);
      const last = fresh.at(-1);
      if (last === undefined) continue;
      next = placeAfter(last);
      yield fresh;
    }
  } catch (error) {
    throw kafkaErrorOf(error, 'reading', 'none');
  } finally {
    handover.end();
    await client.end(() => consumer.disconnect());
  }
}

function watch(consumer: Consumer, handover: Handover, sequence: RecordSequence): void {
  const { CRASH, START_BATCH_PROCESS, END_BATCH_PROCESS } = consumer.events;
  consumer.on(CRASH, ({ payload }) => handover.fail(payload.error));
  consumer.on(START_BATCH_PROCESS, ({ payload }) => handover.failOn(() => sequence.startBatch(payload)));
  consumer.on(END_BATCH_PROCESS, ({ payload }) => sequence.endBatch(payload));
}

async function start(consumer: Consumer, topic: string, handover: Handover, sequence: RecordSequence): Promise<void> {
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatch: (payload) => {
      handover.failOn(() => sequence.checkRecords(payload.batch));
      return handover.give(payload);
    },
  });
}
