import { createRequire } from 'node:module';
import type { Batch } from 'kafkajs';
import { describe, expect, it } from 'vitest';
import { RecordSequence, topicStart } from '../../../src/events/kafka/kafka-place.ts';
import { EngineUnavailable, PlaceLost } from '../../../src/events/replicated/engine.ts';

const load = createRequire(import.meta.url);
const KafkaBatch: new (topic: string, fetchedOffset: string, partition: object) => Batch = load(
  'kafkajs/src/consumer/batch.js',
);

/** As kafkajs makes it of a fetch: offsets of records, and of control records. */
function batch(records: readonly number[], control: readonly number[] = []): Batch {
  const messages = [...records, ...control]
    .toSorted((one, other) => one - other)
    .map((offset) => ({ offset: String(offset), value: Buffer.from('x'), isControlRecord: control.includes(offset) }));
  return new KafkaBatch('log', messages[0]?.offset ?? '0', { partition: 0, highWatermark: '100', messages });
}

function read(batches: readonly Batch[]): void {
  const sequence = new RecordSequence('log');
  sequence.begin(topicStart);
  for (const one of batches) {
    const reported = { firstOffset: one.firstOffset(), lastOffset: one.lastOffset() };
    sequence.startBatch(reported);
    if (one.messages.length > 0) sequence.checkRecords(one);
    sequence.endBatch(reported);
  }
}

describe('the sequence of records that kafkajs fetches', () => {
  it.each([
    ['records', [batch([0, 1, 2]), batch([3])]],
    ['control records among records', [batch([0, 2, 4], [1, 3])]],
    ['control records at the end of a fetch, and at the begin of the next', [batch([0], [1]), batch([3], [2])]],
    ['fetches of control records alone', [batch([], [0]), batch([1]), batch([], [2, 3]), batch([], [4]), batch([5])]],
  ])('accepts %s', (_what, batches) => {
    expect(() => read(batches)).not.toThrow();
  });

  it.each([
    ['between two records', [batch([0, 2])]],
    ['between a record and a control record', [batch([0, 3], [2])]],
  ])('finds a record that is missing %s', (_what, batches) => {
    expect(() => read(batches)).toThrow(PlaceLost);
    expect(() => read(batches)).toThrow('the topic log has no record 1 any more');
  });

  it.each([
    ['after it', [batch([0]), batch([2])]],
    ['after a fetch of control records', [batch([], [0]), batch([2])]],
    ['at the beginning of the topic', [batch([0, 1]), batch([0, 1, 2])]],
  ])('refuses a fetch that goes on %s instead of at the next record', (_what, batches) => {
    expect(() => read(batches)).toThrow(EngineUnavailable);
  });
});
