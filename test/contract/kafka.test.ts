/** The contracts on Kafka: a broker from the jars that the tests end and start again, else the one of `KAFKA_BROKERS`. */
import { randomUUID } from 'node:crypto';
import { afterAll, describe, vi } from 'vitest';
import { kafkaJars } from '../../infra/kafka/jars.ts';
import { createKafkaEngine } from '../../src/events/kafka/kafka-engine.ts';
import type { LogEngine } from '../../src/events/replicated/engine.ts';
import { startKafkaBroker } from '../support/kafka-broker.ts';
import { kafkaOrSkip } from '../support/kafka-for-tests.ts';
import { Replica, replicatedCapabilities, sharedReplicas } from '../support/replicas.ts';
import { someOf } from '../support/seed.ts';
import { eventLogContract } from './event-log.ts';
import { sharedLogContract } from './shared-log.ts';

// The random programs of the contract create 25 topics.
vi.setConfig({ testTimeout: 90_000, hookTimeout: 60_000 });

const own = 'missing' in kafkaJars() ? undefined : await startKafkaBroker();
const brokers = own === undefined ? await kafkaOrSkip() : [own.address];
afterAll(() => own?.dispose());

/** Connections to a new log. */
function newLog(): () => LogEngine {
  const url = `kafka://${(brokers ?? []).join(',')}/log-${randomUUID()}`;
  return () => createKafkaEngine({ url });
}

const broker = {
  stop: async () => own?.kill(),
  start: async () => own?.restart(),
};

const contracts = [
  () =>
    eventLogContract('Kafka', replicatedCapabilities, async () => {
      const replica = await Replica.open(newLog());
      return { log: replica.log, dispose: () => replica.dispose() };
    }),
  () =>
    sharedLogContract('Kafka', async () => sharedReplicas(newLog(), broker), {
      bodySizes: [0, 300_000, 1_100_000, 5_000_000],
      restarts: own !== undefined,
      timeoutMs: 60_000,
    }),
];

describe.skipIf(brokers === undefined)('on Kafka', () => {
  for (const contract of someOf(contracts)) contract();
});
