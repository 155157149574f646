/**
 * The gateway at full load for a long time: `node scripts/run.mjs bench/endurance.ts [minutes]`, default 30. Ten parts, each
 * half JSON and half streams, without a pause; for each part the rates, the tails and the memory. The last part against
 * the first says whether the gateway becomes slower or larger. The log of all parts stays on the disk until the end.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { startLoadProcess } from './load/load-process.ts';
import { warmUp } from './sections/closed-loop.ts';
import { type Round, runRound } from './sections/round.ts';
import { keepAwake } from './servers/awake.ts';
import { cores, pinSelf } from './servers/cores.ts';
import { endWithSignals } from './servers/end-with-signals.ts';
import { startSubjects } from './servers/start-subjects.ts';
import { startUpstreams } from './upstream/start-upstreams.ts';
import { WORKS } from './work.ts';

const PARTS = 10;
const CONNECTIONS = 50;
const minutes = Number(process.argv[2] ?? 30);
const works = WORKS.filter(({ name }) => name === 'chat-json' || name === 'chat-sse');
endWithSignals();
pinSelf();
const folder = join(import.meta.dirname, '.work');
mkdirSync(folder, { recursive: true });
const workDir = mkdtempSync(join(folder, 'endurance-'));
const upstreams = await startUpstreams();
const awake = keepAwake();
const stand = { load: startLoadProcess(cores.rest), awake };
const subjects = await startSubjects({ kinds: ['gateway'], workDir, upstreams });
const percent = (share: number) => `${(share * 100).toFixed(0)} %`;
const parts: Round[][] = [];
try {
  const [gateway] = subjects.all;
  if (gateway === undefined) throw new Error('no gateway was started');
  for (const work of works) await warmUp(stand, work, subjects.all, 5);
  for (let part = 1; part <= PARTS; part++) {
    const rounds: Round[] = [];
    for (const work of works) {
      const seconds = (minutes * 60) / PARTS / works.length;
      const restless = { ...gateway, rest: async () => true };
      const round = await runRound(stand, restless, work, { connections: CONNECTIONS, seconds });
      rounds.push(round);
      const { result, spentMicros, peakMb, disturbance } = round;
      const failures =
        Object.keys(result.failures).length === 0 ? '' : `  failures: ${JSON.stringify(result.failures)}`;
      console.log(
        `${part}/${PARTS} ${work.name}: ${result.perSecond.toFixed(0)}/s  p50 ${result.latencyMs.p50.toFixed(1)} ms  ` +
          `p99 ${result.latencyMs.p99.toFixed(1)} ms  CPU ${spentMicros.toFixed(0)} µs  peak ${peakMb.toFixed(0)} MB  ` +
          `stolen / others ${percent(disturbance.stolen)} / ${percent(disturbance.others)}${failures}`,
      );
    }
    parts.push(rounds);
  }
  for (const [at, work] of works.entries()) {
    const [first, last] = [parts[0]?.[at], parts.at(-1)?.[at]];
    if (first === undefined || last === undefined) continue;
    const ratio = (figure: (round: Round) => number) => (figure(last) / figure(first)).toFixed(2);
    console.log(
      `${work.name}, last tenth of the first: rate ${ratio(({ result }) => result.perSecond)}, ` +
        `p99 ${ratio(({ result }) => result.latencyMs.p99)}, peak memory ${ratio(({ peakMb }) => peakMb)}`,
    );
  }
} finally {
  await subjects.stop();
  await upstreams.stop();
  stand.load.stop();
  awake?.stop();
  rmSync(workDir, { recursive: true, force: true, maxRetries: 3 });
}
