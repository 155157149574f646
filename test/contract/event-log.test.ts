import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { nodeDisk } from '../../src/events/embedded/disk.ts';
import { EmbeddedLog, type EmbeddedLogOptions } from '../../src/events/embedded/embedded-log.ts';
import { ReadOnlyLog } from '../../src/events/embedded/read-only-log.ts';
import type { EventLog, LogCapabilities } from '../../src/events/log.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { someOf } from '../support/seed.ts';
import { eventLogContract, type LogUnderTest } from './event-log.ts';

async function embedded(options: EmbeddedLogOptions): Promise<LogUnderTest & { log: EmbeddedLog }> {
  const dir = await mkdtemp(path.join(tmpdir(), 'chancery-log-'));
  const log = await EmbeddedLog.open(dir, options);
  return {
    log,
    dispose: async () => {
      await log.close();
      await rm(dir, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Appends with a writer, and reads everything as another process would. */
async function besideItsWriter(): Promise<LogUnderTest> {
  const { log: writer, dispose } = await embedded({ segmentBytes: 2_000, disk: nodeDisk });
  const reader = await ReadOnlyLog.open(writer.dir, { pollMs: 1 });
  const log: EventLog = {
    capabilities: writer.capabilities,
    append: (writes, options) => writer.append(writes, options),
    readStream: (stream, options) => reader.readStream(stream, options),
    readAll: (options) => reader.readAll(options),
    subscribe: (options) => reader.subscribe(options),
    head: () => reader.head(),
    status: () => reader.status(),
    onStatusChange: () => reader.onStatusChange(),
    close: async () => {
      await writer.close();
      await reader.close();
    },
  };
  return {
    log,
    dispose: async () => {
      await reader.close();
      await dispose();
    },
  };
}

const onDisk: LogCapabilities = {
  expectedRevision: 'native',
  globalOrder: 'total',
  durability: 'disk',
  maxEventBytes: 64 * 1024 * 1024,
  atomicMultiStream: true,
};
const relaxed: LogCapabilities = { ...onDisk, durability: 'os' };

async function inMemory(): Promise<LogUnderTest> {
  const log = new MemoryLog();
  return { log, dispose: () => log.close() };
}

const logs: readonly (readonly [string, LogCapabilities, () => Promise<LogUnderTest>])[] = [
  ['memory', { ...onDisk, durability: 'memory' }, inMemory],
  ['embedded, standard durability', onDisk, () => embedded({ durability: 'standard' })],
  ['embedded, strict durability', onDisk, () => embedded({ durability: 'strict' })],
  ['embedded, relaxed durability', relaxed, () => embedded({ durability: 'relaxed' })],
  ['embedded, with segments of a few events each', onDisk, () => embedded({ segmentBytes: 2_000 })],
  ['read only, beside its writer', onDisk, besideItsWriter],
];
for (const log of someOf(logs, undefined, 3)) eventLogContract(...log);
