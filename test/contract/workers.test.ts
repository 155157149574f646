/** The contracts on the log of worker processes, over a real socket. */
import type { EmbeddedLogOptions } from '../../src/events/embedded/embedded-log.ts';
import type { LogCapabilities } from '../../src/events/log.ts';
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

eventLogContract('a worker', onDisk, () => oneWorker());
eventLogContract('a worker, relaxed durability', { ...onDisk, durability: 'os' }, () =>
  oneWorker({ durability: 'relaxed' }),
);
eventLogContract('a worker, with segments of a few events each', onDisk, () => oneWorker({ segmentBytes: 2_000 }));

sharedLogContract('workers', () => sharedWorkers(), { bodySizes: [0, 300_000, 64 * 1024 * 1024 - 1_000] });
sharedLogContract('workers, with segments of a few events each', () => sharedWorkers({ segmentBytes: 2_000 }), {
  bodySizes: [70_000],
});
