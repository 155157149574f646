/** `npm run bench`: everything, side by side, into RESULTS.md. See README.md. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type AdminState, measureAdminState } from './admin-state.ts';
import { governedKey } from './governed-key.ts';
import { startLoadProcess } from './load-process.ts';
import type { LogBench } from './log.ts';
import { describeMachine } from './machine.ts';
import { type Cell, measureCell } from './measure.ts';
import { memoryOf } from './process-stat.ts';
import { type Run, report } from './report.ts';
import { GATEWAY_KEY, type Server, startBarePassthrough, startGateway, startProvider } from './servers.ts';
import { measureStartUp, type StartUp } from './start-up.ts';
import { judge } from './targets.ts';
import { type Asked, MODELS, type Subject, WORDS, WORKS } from './work.ts';

const { values: options } = parseArgs({
  options: {
    /** Short rounds: a look, not a result. */
    quick: { type: 'boolean', default: false },
    /** Work names, `log`, `start-up` and `admin-state`, separated by commas. */
    only: { type: 'string' },
    connections: { type: 'string' },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    /** Also writes everything that was measured to this file. */
    json: { type: 'string' },
    /** Writes a processor profile of the gateway to .work/profile, which slows it. */
    profile: { type: 'boolean', default: false },
  },
});

const folder = fileURLToPath(new URL('.', import.meta.url));
const workDir = join(folder, '.work');
const rounds = Number(options.rounds ?? (options.quick ? 2 : 5));
const seconds = Number(options.seconds ?? (options.quick ? 0.5 : 1));
const only = options.only?.split(',');
const connectionsAsked = options.connections?.split(',').map(Number);
const wanted = (name: string) => only === undefined || only.includes(name);
const works = WORKS.filter((work) => wanted(work.name));
const others = ['log', 'start-up', 'admin-state'];
const unknown = only?.filter((name) => !others.includes(name) && !WORKS.some((work) => work.name === name)) ?? [];
if (unknown.length > 0) {
  console.error(
    `unknown: ${unknown.join(', ')}; there are ${[...WORKS.map(({ name }) => name), ...others].join(', ')}`,
  );
  process.exit(2);
}

const began = performance.now();
mkdirSync(workDir, { recursive: true });
const dataDir = join(workDir, `gateway-${process.pid}`);
const nodeFlags = options.profile ? ['--cpu-prof', `--cpu-prof-dir=${join(workDir, 'profile')}`] : [];
const running: Server[] = [];
const started = async (server: Promise<Server>) => {
  running.push(await server);
  return server;
};

async function measureWorks(native: Server): Promise<{ cells: Cell[]; gateway: Run['gateway'] }> {
  const absent = await started(startProvider({ responses: 'absent', words: WORDS, models: MODELS }));
  const gateway = await started(startGateway({ dataDir, native, translated: absent, nodeFlags }));
  const asked: Record<Subject, Asked> = {
    provider: { server: native, key: GATEWAY_KEY },
    bare: { server: await started(startBarePassthrough(native)), key: GATEWAY_KEY },
    gateway: { server: gateway, key: GATEWAY_KEY },
    governed: { server: gateway, key: await governedKey(gateway) },
  };
  const load = startLoadProcess();
  const cells: Cell[] = [];
  for (const work of works) {
    for (const connections of work.connections.filter((each) => connectionsAsked?.includes(each) ?? true)) {
      const cell = await measureCell(work, connections, asked, load, { rounds, seconds });
      cells.push(cell);
      progress(cell);
    }
  }
  load.stop();
  return { cells, gateway: memoryOf(gateway.pid) };
}

function progress({ describe, connections, measured, ratio, governedRatio, failures }: Cell): void {
  const rates = Object.entries(measured).map(
    ([subject, { perSecond, p50 }]) => `${subject} ${perSecond.toFixed(0)}/s p50 ${p50.toFixed(2)}`,
  );
  const failed = Object.keys(failures).length > 0 ? `  FAILURES ${JSON.stringify(failures)}` : '';
  console.error(
    `${describe} ×${connections}: ${rates.join(' · ')} · ${ratio?.toFixed(2) ?? '–'} of bare${governedRatio === null ? '' : ` · governed ${governedRatio.toFixed(2)} of gateway`}${failed}`,
  );
}

async function measureLog(): Promise<LogBench> {
  const { benchLog } = await import('./log.ts');
  return benchLog({ dir: workDir, seconds: options.quick ? 1 : 3 });
}

async function measure(): Promise<Run> {
  // The log comes first and alone, while nothing else wants the processor.
  const log = wanted('log') ? await measureLog() : null;
  let startUp: StartUp | null = null;
  let adminState: AdminState | null = null;
  let cells: Cell[] = [];
  let gateway: Run['gateway'] = null;
  if (works.length > 0 || wanted('start-up') || wanted('admin-state')) {
    const native = await started(startProvider({ responses: 'native', words: WORDS, models: MODELS }));
    if (wanted('start-up')) startUp = await measureStartUp(workDir, native, options.quick ? 100_000 : 1_000_000);
    if (wanted('admin-state')) adminState = await measureAdminState(workDir, native);
    if (works.length > 0) ({ cells, gateway } = await measureWorks(native));
  }
  const remarks = [
    ...(options.quick ? ['a quick run: short rounds, figures to look at rather than to quote.'] : []),
    ...(options.profile ? ['the gateway was being profiled.'] : []),
    ...(only === undefined && connectionsAsked === undefined ? [] : ['only a part of the benchmark was run.']),
  ];
  return {
    machine: describeMachine(workDir),
    minutes: (performance.now() - began) / 60_000,
    rounds,
    seconds,
    remarks,
    cells,
    gateway,
    startUp,
    log,
    adminState,
  };
}

try {
  const run = await measure();
  const text = report(run);
  console.log(text);
  if (options.json !== undefined) writeFileSync(options.json, JSON.stringify({ ...run, targets: judge(run) }, null, 2));
  // A part of the benchmark must not stand where the whole is expected.
  if (run.remarks.length === 0) {
    const why = readFileSync(join(folder, 'shortfalls.md'), 'utf8');
    writeFileSync(join(folder, 'RESULTS.md'), `${text.trimEnd()}\n\n${why}`);
  } else {
    console.error('RESULTS.md is left as it was: it is only written by a full run.');
  }
} finally {
  await Promise.all(running.map((server) => server.stop()));
  rmSync(dataDir, { recursive: true, force: true });
}
