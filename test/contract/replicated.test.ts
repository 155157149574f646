/** The contracts on replicas of an engine in memory. Those of Kafka and EventStoreDB have files of their own. */
import { createChance } from '../crash/random.ts';
import { type FaultChoice, MemoryEngineStore } from '../support/memory-engine.ts';
import { Replica, replicatedCapabilities, sharedReplicas } from '../support/replicas.ts';
import { someOf } from '../support/seed.ts';
import { eventLogContract, type LogUnderTest } from './event-log.ts';
import { type SharedLog, sharedLogContract } from './shared-log.ts';

async function oneReplica(choice?: FaultChoice): Promise<LogUnderTest> {
  const store = new MemoryEngineStore(choice);
  const replica = await Replica.open(() => store.connect());
  return { log: replica.log, dispose: () => replica.dispose() };
}

async function overMemory(choice?: FaultChoice): Promise<SharedLog> {
  const store = new MemoryEngineStore(choice);
  return sharedReplicas(() => store.connect(), {
    stop: async () => store.stop(),
    start: async () => store.start(),
  });
}

const slowReads = (): FaultChoice => {
  const chance = createChance(7);
  return { readTurns: () => chance.between(0, 20), batchSize: () => chance.between(1, 3), rereads: () => 5 };
};

const logs: readonly (readonly [string, () => FaultChoice | undefined])[] = [
  ['replicated, engine in memory', () => undefined],
  ['replicated, slow readers', slowReads],
];
for (const [name, choice] of someOf(logs)) {
  eventLogContract(name, replicatedCapabilities, () => oneReplica(choice()));
}

const sharedLogs: readonly (readonly [string, () => FaultChoice | undefined, readonly number[]])[] = [
  ['replicated, engine in memory', () => undefined, [0, 1_000_000, 5_000_000, 64 * 1024 * 1024 - 1_000]],
  ['replicated, slow readers', slowReads, [70_000]],
  ['replicated, every append twice', () => ({ append: () => ({ kind: 'twice' }) }), [70_000]],
];
for (const [name, choice, bodySizes] of someOf(sharedLogs)) {
  sharedLogContract(name, () => overMemory(choice()), { bodySizes });
}
