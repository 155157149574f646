/**
 * Loaded into a server by `--import`: between the first SIGUSR2 and the second it watches the main thread's garbage
 * collections, or takes a processor profile, and writes the result to `BENCH_PROBE_FILE`. It only runs in
 * measurements of its own, so that it does not disturb the others.
 */
import { renameSync, writeFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { GCProfiler, getHeapStatistics } from 'node:v8';
import { isMainThread } from 'node:worker_threads';
import { allocationOf, type HeapUse } from './allocation.ts';

const SAMPLING_MICROS = 200;

interface Watch {
  stop(): Promise<unknown>;
}

const heapUse = (): HeapUse => {
  const { used_heap_size, external_memory } = getHeapStatistics();
  return { heap: used_heap_size, external: external_memory };
};

function watchGarbage(): Watch {
  const profiler = new GCProfiler();
  const before = heapUse();
  profiler.start();
  return { stop: async () => allocationOf(before, profiler.stop().statistics, heapUse()) };
}

async function takeProfile(): Promise<Watch> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.setSamplingInterval', { interval: SAMPLING_MICROS });
  await session.post('Profiler.start');
  return {
    stop: async () => {
      const { profile } = await session.post('Profiler.stop');
      session.disconnect();
      return profile;
    },
  };
}

const file = process.env['BENCH_PROBE_FILE'];
if (isMainThread && file !== undefined) {
  let watch: Promise<Watch> | undefined;
  process.on('SIGUSR2', () => {
    if (watch === undefined) {
      watch = process.env['BENCH_PROBE'] === 'profile' ? takeProfile() : Promise.resolve(watchGarbage());
      return;
    }
    const ending = watch;
    watch = undefined;
    void ending
      .then((started) => started.stop())
      .then((found) => {
        // Renamed last, so that the file is complete when it exists.
        writeFileSync(`${file}.part`, JSON.stringify(found));
        renameSync(`${file}.part`, file);
      });
  });
}
