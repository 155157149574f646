import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { EmbeddedLog, type EmbeddedLogOptions } from '../../src/events/embedded/embedded-log.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { eventLogContract, type LogUnderTest } from './event-log.ts';

async function embedded(options: EmbeddedLogOptions): Promise<LogUnderTest> {
  const dir = await mkdtemp(path.join(tmpdir(), 'chancery-log-'));
  const log = await EmbeddedLog.open(dir, options);
  return {
    log,
    dispose: async () => {
      await log.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

eventLogContract('memory', async () => {
  const log = new MemoryLog();
  return { log, dispose: () => log.close() };
});

eventLogContract('embedded, standard durability', () => embedded({ durability: 'standard' }));
eventLogContract('embedded, strict durability', () => embedded({ durability: 'strict' }));
eventLogContract('embedded, relaxed durability', () => embedded({ durability: 'relaxed' }));
eventLogContract('embedded, with segments of a few events each', () => embedded({ segmentBytes: 2_000 }));
