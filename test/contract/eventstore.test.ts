/** The contracts on EventStoreDB: a real server where there is one, else the stand-in. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll } from 'vitest';
import { createEventStoreEngine } from '../../src/events/eventstore/eventstore-engine.ts';
import { Replica, replicatedCapabilities, sharedReplicas } from '../support/replicas.ts';
import { someOf } from '../support/seed.ts';
import { eventStoreKind, type RunningEventStore, startEventStore } from '../support/start-eventstore.ts';
import { eventLogContract } from './event-log.ts';
import { sharedLogContract } from './shared-log.ts';

const kind = await eventStoreKind();
let server: RunningEventStore;

beforeAll(async () => {
  server = await startEventStore();
}, 240_000);
afterAll(() => server.stop());

/** Connections to a new log. */
function newLog(): () => ReturnType<typeof createEventStoreEngine> {
  const url = server.url(`log-${randomUUID()}`);
  return () => createEventStoreEngine({ url });
}

const name = `EventStoreDB (${kind})`;

const contracts = [
  () =>
    eventLogContract(name, replicatedCapabilities, async () => {
      const replica = await Replica.open(newLog());
      return { log: replica.log, dispose: () => replica.dispose() };
    }),
  () =>
    sharedLogContract(
      name,
      async () => sharedReplicas(newLog(), { stop: () => server.kill(), start: () => server.restart() }),
      {
        bodySizes: [0, 300_000, 1_100_000, 5_000_000, 64 * 1024 * 1024 - 1_000],
        restarts: kind !== 'server',
        timeoutMs: 60_000,
      },
    ),
];

for (const contract of someOf(contracts)) contract();
