/**
 * The gateway as one process and with two workers, in alternating rounds: `node scripts/run.mjs bench/workers.ts`. Both have the same
 * core: the figure is the processor time of an exchange, in all processes.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startLoadProcess } from './load/load-process.ts';
import { measureCell, warmUp } from './sections/closed-loop.ts';
import { keepAwake } from './servers/awake.ts';
import { cores } from './servers/cores.ts';
import { startSubjects } from './servers/start-subjects.ts';
import { startUpstreams } from './upstream/start-upstreams.ts';
import { WORKS } from './work.ts';

const cells = [
  ['chat-json', 50],
  ['chat-sse', 50],
] as const;
const how = { rounds: Number(process.argv[2] ?? 7), seconds: 1 };
const workDir = mkdtempSync(join(tmpdir(), 'chancery-bench-'));
const upstreams = await startUpstreams();
const awake = keepAwake();
const stand = { load: startLoadProcess(cores.rest), awake };
const subjects = await startSubjects({
  kinds: ['gateway'],
  trees: new Map([['workers', process.cwd()]]),
  workDir,
  upstreams,
  env: (name): Record<string, string> => (name.endsWith('workers') ? { GATEWAY_WORKERS: '2' } : {}),
});
try {
  for (const [name, connections] of cells) {
    const work = WORKS.find((each) => each.name === name);
    if (work === undefined) throw new Error(`there is no work ${name}`);
    // Each worker compiles its own code, with its share of the requests.
    await warmUp(stand, work, subjects.all, 12);
    const { servers, failures } = await measureCell(stand, work, connections, subjects.all, how);
    console.log(`${name}, ${connections} connections (median of ${how.rounds} rounds)`);
    for (const [server, { perSecond, p50, p99, cpuMicros }] of Object.entries(servers)) {
      console.log(
        `  ${server.padEnd(16)} ${perSecond.toFixed(0)}/s  p50 ${p50.toFixed(2)} ms  p99 ${p99.toFixed(2)} ms  CPU ${cpuMicros.toFixed(0)} µs`,
      );
    }
    const [alone, workers] = Object.values(servers);
    if (alone !== undefined && workers !== undefined) {
      console.log(
        `  two workers against one process: ${(workers.cpuMicros / alone.cpuMicros).toFixed(2)} of the processor time, ` +
          `${(workers.perSecond / alone.perSecond).toFixed(2)} of the rate`,
      );
    }
    if (Object.keys(failures).length > 0) console.log('  failures:', failures);
  }
} finally {
  await subjects.stop();
  await upstreams.stop();
  stand.load.stop();
  awake?.stop();
  rmSync(workDir, { recursive: true, force: true, maxRetries: 3 });
}
