/**
 * The gateway with its log in files and on Kafka, in alternating rounds: `node scripts/run.mjs bench/engines.ts`. The broker runs on
 * this machine (`npm run kafka:prepare` fetches it), or is the one of KAFKA_BROKERS.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startLoadProcess } from './load/load-process.ts';
import { measureCell, warmUp } from './sections/closed-loop.ts';
import { keepAwake } from './servers/awake.ts';
import { cores } from './servers/cores.ts';
import { brokerForBench } from './servers/kafka-broker.ts';
import { startSubjects } from './servers/start-subjects.ts';
import { startUpstreams } from './upstream/start-upstreams.ts';
import { WORKS } from './work.ts';

const cells = [
  ['chat-json', 50],
  ['chat-json', 1],
  ['chat-sse', 50],
] as const;
const how = { rounds: Number(process.argv[2] ?? 7), seconds: 1 };
const workDir = mkdtempSync(join(tmpdir(), 'chancery-bench-'));
const broker = await brokerForBench(workDir);
const upstreams = await startUpstreams();
const awake = keepAwake();
const stand = { load: startLoadProcess(cores.rest), awake };
const subjects = await startSubjects({
  kinds: ['gateway'],
  trees: new Map([['kafka', process.cwd()]]),
  workDir,
  upstreams,
  env: (name): Record<string, string> =>
    name.endsWith('kafka')
      ? {
          LOG_URL: `kafka://${broker.brokers}/bench-${Date.now()}`,
          CREDENTIALS_KEY: 'credentials key of the benchmark',
        }
      : {},
});
try {
  for (const [name, connections] of cells) {
    const work = WORKS.find((each) => each.name === name);
    if (work === undefined) throw new Error(`there is no work ${name}`);
    await warmUp(stand, work, subjects.all, 2);
    const { servers, failures } = await measureCell(stand, work, connections, subjects.all, how);
    console.log(`${name}, ${connections} connections (median of ${how.rounds} rounds)`);
    for (const [server, { perSecond, p50, p99, cpuMicros }] of Object.entries(servers)) {
      console.log(
        `  ${server.padEnd(16)} ${perSecond.toFixed(0)}/s  p50 ${p50.toFixed(2)} ms  p99 ${p99.toFixed(2)} ms  CPU ${cpuMicros.toFixed(0)} µs`,
      );
    }
    const [files, kafka] = Object.values(servers);
    if (files !== undefined && kafka !== undefined) {
      console.log(
        `  Kafka against files: ${(kafka.perSecond / files.perSecond).toFixed(2)} of the rate, p50 +${(kafka.p50 - files.p50).toFixed(2)} ms`,
      );
    }
    if (Object.keys(failures).length > 0) console.log('  failures:', failures);
  }
} finally {
  await subjects.stop();
  await upstreams.stop();
  stand.load.stop();
  awake?.stop();
  await broker.stop();
  rmSync(workDir, { recursive: true, force: true, maxRetries: 3 });
}
