/** `npm run bench`: runs the whole benchmark and writes RESULTS.md. See README.md. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { measureAll } from './benchmark.ts';
import { takeProfiles } from './inside/take-profiles.ts';
import { describeMachine } from './machine.ts';
import { type Options, parseOptions } from './options.ts';
import { printProgress } from './report/progress.ts';
import { type Run, report } from './report/report.ts';
import type { Cell } from './sections/closed-loop.ts';
import { runStreamIndexBench } from './sections/stream-index.ts';
import { pinSelf } from './servers/cores.ts';
import { endWithSignals } from './servers/end-with-signals.ts';
import { judge } from './targets.ts';

const args = process.argv.slice(2);
const folder = fileURLToPath(new URL('.', import.meta.url));
const workDir = join(folder, '.work');
mkdirSync(workDir, { recursive: true });
endWithSignals();

if (args[0] === 'index') await runStreamIndexBench(args.slice(1), workDir);
else await runBenchmark(parseOptions(args));

async function runBenchmark(options: Options): Promise<void> {
  pinSelf();
  if (options.profile) {
    await takeProfiles(options, workDir);
    return;
  }
  const began = performance.now();
  const results = await measureAll(options, workDir, printProgress);
  const own: Run = {
    ...results,
    machine: describeMachine(workDir),
    minutes: (performance.now() - began) / 60_000,
    rounds: options.rounds,
    seconds: options.seconds,
  };
  const run = options.again === undefined ? own : merged(JSON.parse(readFileSync(options.again, 'utf8')) as Run, own);
  const targets = judge(run);
  if (options.json !== undefined) writeFileSync(options.json, JSON.stringify({ ...run, targets }, null, 2));
  // Results of a part must not overwrite those of the whole benchmark.
  if (!options.isPartial || options.again !== undefined) {
    const why = readFileSync(join(folder, 'shortfalls.md'), 'utf8');
    writeFileSync(join(folder, 'RESULTS.md'), `${report(run).trimEnd()}\n\n${why}`);
    console.log(`\nRESULTS.md is written; the run took ${own.minutes.toFixed(1)} minutes.`);
  }
}

/** The run, with the cells that `second` has in place of its own. */
function merged(run: Run, second: Run): Run {
  const { date, commit } = second.machine;
  const title = ({ describe, connections }: Cell) => `${describe} at ${connections}`;
  const newer = new Map(second.cells.map((cell) => [title(cell), cell]));
  return {
    ...run,
    cells: run.cells.map((cell) => newer.get(title(cell)) ?? cell),
    sustained: second.sustained.length > 0 ? second.sustained : run.sustained,
    inside: second.inside.length > 0 ? second.inside : run.inside,
    log: second.log ?? run.log,
    startUp: second.startUp ?? run.startUp,
    adminState: second.adminState ?? run.adminState,
    again: [...(run.again ?? []), { date, commit, cells: second.cells.map(title) }],
  };
}
