/** The contracts on replicas of an engine in memory. Those of Kafka and EventStoreDB have files of their own. */
import { createChance } from '../crash/random.ts';
import { type FaultChoice, MemoryEngineStore } from '../support/memory-engine.ts';
import { Replica, replicatedCapabilities, sharedReplicas } from '../support/replicas.ts';
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

eventLogContract('replicated, engine in memory', replicatedCapabilities, () => oneReplica());
eventLogContract('replicated, slow readers', replicatedCapabilities, () => oneReplica(slowReads()));

const bodySizes = [0, 1_000_000, 5_000_000, 64 * 1024 * 1024 - 1_000];
sharedLogContract('replicated, engine in memory', () => overMemory(), { bodySizes });
sharedLogContract('replicated, slow readers', () => overMemory(slowReads()), { bodySizes: [70_000] });
sharedLogContract('replicated, every append twice', () => overMemory({ append: () => ({ kind: 'twice' }) }), {
  bodySizes: [70_000],
});
