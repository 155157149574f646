/**
 * The Kafka broker that test files share: that of `KAFKA_BROKERS`, else one from the jars, else one in a container. Each
 * test has topics of its own.
 */
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { inject } from 'vitest';
import type { KafkaForTests } from './shared-kafka.ts';

/** Starts the broker of this run when the first test file calls it. */
export async function kafkaForTests(): Promise<KafkaForTests> {
  const given = process.env['KAFKA_BROKERS'] ?? '';
  if (given !== '') return { brokers: given.split(',').map((broker) => broker.trim()) };
  return JSON.parse(await text(connect(inject('sharedKafka'))));
}

/** As `kafkaForTests`; prints the reason when there is none, for a file whose tests are skipped then. */
export async function kafkaOrSkip(): Promise<readonly string[] | undefined> {
  const kafka = await kafkaForTests();
  if ('brokers' in kafka) return kafka.brokers;
  console.log(`tests on Kafka are skipped: ${kafka.missing}`);
  return undefined;
}
