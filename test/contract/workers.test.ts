/** The contracts on the log of worker processes, over a real socket. */
import type { EmbeddedLogOptions } from '../../src/events/embedded/embedded-log.ts';
import type { LogCapabilities } from '../../src/events/log.ts';
import { someOf } from '../support/seed.ts';
import { ServedFolder, sharedWorkers } from '../support/shared-logs.ts';
import { eventLogContract, type LogUnderTest } from './event-log.ts';
import { sharedLogContract } from './shared-log.ts';

const onDisk: LogCapabilities = {
  expectedRevision: 'native',
  globalOrder: 'total',
  durability: 'disk',
  maxEventBytes: 64 * 1024 * 1024,
  atomicMultiStream: true,
};

async function oneWorker(options: EmbeddedLogOptions = {}): Promise<LogUnderTest> {
  const served = await ServedFolder.open(options);
  const log = await served.openWorker();
  return {
    log,
    dispose: async () => {
      await log.close();
      await served.dispose();
    },
  };
}

const logs: readonly (readonly [string, LogCapabilities, EmbeddedLogOptions])[] = [
  ['a worker', onDisk, {}],
  ['a worker, relaxed durability', { ...onDisk, durability: 'os' }, { durability: 'relaxed' }],
  ['a worker, with segments of a few events each', onDisk, { segmentBytes: 2_000 }],
];
for (const [name, capabilities, options] of someOf(logs)) {
  eventLogContract(name, capabilities, () => oneWorker(options));
}

const sharedLogs: readonly (readonly [string, EmbeddedLogOptions, readonly number[]])[] = [
  ['workers', {}, [0, 300_000, 64 * 1024 * 1024 - 1_000]],
  ['workers, with segments of a few events each', { segmentBytes: 2_000 }, [70_000]],
];
for (const [name, options, bodySizes] of someOf(sharedLogs)) {
  sharedLogContract(name, () => sharedWorkers(options), { bodySizes });
}
