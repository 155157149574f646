/**
 * `npm run bench -- --profile`: processor time of a server by area, as a table. `--stalls`: what holds its event loop at half
 * of its load.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startLoadProcess } from '../load/load-process.ts';
import type { Options } from '../options.ts';
import { plainTable } from '../report/table.ts';
import { runRound, type Stand } from '../sections/round.ts';
import { keepAwake } from '../servers/awake.ts';
import { cores } from '../servers/cores.ts';
import { startSubjects } from '../servers/start-subjects.ts';
import type { Subject } from '../servers/subject.ts';
import { startUpstreams } from '../upstream/start-upstreams.ts';
import { WORKS, type Work } from '../work.ts';
import { probing, whileProbed } from './probed.ts';
import { areasOf, type CpuProfile } from './profile-areas.ts';
import { stallsOf } from './stalls.ts';

const DEFAULT_WORKS = ['chat-json', 'chat-sse'];
const CONNECTIONS = 50;
const WARM_UP_SECONDS = 3;
/** Below it an area is left out of the table. */
const LEAST_SHARE = 0.002;
/** A stall is no shorter. */
const STALL_MS = 10;
const SHOWN_STALLS = 20;

/** Of the selected servers and works; default: `gateway`, `chat-json` and `chat-sse`. */
export async function takeProfiles(options: Options, workDir: string): Promise<void> {
  const awake = options.awake ? keepAwake() : undefined;
  const upstreams = await startUpstreams();
  const load = startLoadProcess(cores.rest);
  const kinds = options.choosesServers ? options.servers : (['gateway'] as const);
  const works = WORKS.filter(({ name }) => (options.choosesParts ? options.wants(name) : DEFAULT_WORKS.includes(name)));
  try {
    const subjects = await startSubjects({
      kinds: kinds.filter((kind) => kind !== 'direct'),
      trees: options.trees,
      workDir,
      upstreams,
      ...probing('profile', workDir),
    });
    try {
      for (const work of works) {
        for (const subject of subjects.all) await profile({ load, awake }, subject, work, options, workDir);
      }
    } finally {
      await subjects.stop();
    }
  } finally {
    load.stop();
    awake?.stop();
    await upstreams.stop();
  }
}

async function profile(stand: Stand, subject: Subject, work: Work, options: Options, workDir: string): Promise<void> {
  const [connections = CONNECTIONS] = options.connections ?? [];
  const { seconds } = options;
  const warmUp = await runRound(stand, subject, work, { connections, seconds: WARM_UP_SECONDS });
  const perSecond = options.stalls ? warmUp.result.perSecond / 2 : undefined;
  const { seen, result: round } = await whileProbed(subject.process(work.upstream), subject.name, workDir, () =>
    runRound(stand, subject, work, { connections, seconds, perSecond, warmUpSeconds: 0 }),
  );
  const taken = seen as CpuProfile;
  const folder = join(workDir, 'profile');
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${subject.name}-${work.name}.cpuprofile`);
  writeFileSync(file, JSON.stringify(taken));
  if (options.stalls) {
    const stalls = stallsOf(taken, STALL_MS);
    const rate = perSecond?.toFixed(0);
    console.log(`\n${subject.name}, ${work.describe}, ${rate}/s for ${seconds} s: ${stalls.length} stalls, ${file}`);
    const shown = stalls.slice(0, SHOWN_STALLS).map(({ ms, functions }) => {
      return [ms.toFixed(1), functions.map((each) => `${each.name} ${each.ms.toFixed(1)}`).join(', ')];
    });
    console.log(plainTable(['ms', 'most of it'], shown));
    return;
  }
  const areas = areasOf(taken);
  const all = areas.reduce((sum, { micros }) => sum + micros, 0);
  const answers = Math.max(1, round.result.total);
  const inMicros = (micros: number) => (micros / answers).toFixed(1);
  console.log(`\n${subject.name}, ${work.describe}, ${connections} connections: ${answers} exchanges, ${file}`);
  const rows = areas
    .filter(({ micros }) => micros >= all * LEAST_SHARE)
    .map(({ name, micros, functions }) => [
      name,
      `${((micros / all) * 100).toFixed(1)} %`,
      inMicros(micros),
      functions.map((each) => `${each.name} ${inMicros(each.micros)}`).join(', '),
    ]);
  rows.push(['all of the thread that runs JavaScript', '100 %', inMicros(all), '']);
  console.log(plainTable(['area', 'share', 'µs per exchange', 'most of it'], rows));
}
