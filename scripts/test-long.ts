/**
 * `npm run test:long [-- part…]`: everything that `.ci/run` leaves out: random tests with many more cases, all cases of the
 * tables and all files of which a run has a part (`someOf` in `test/support/seed.ts`, `test/support/drawn-files.ts`), the
 * tests of users' expectations on every engine, and hundreds of rounds in which gateways and engines are killed. Each part
 * prints its seed. Takes hours; a failed part does not keep the others from running. Exits with 1 when one failed.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
const vitest = ['node_modules/vitest/vitest.mjs', 'run'];
const engine = 'scripts/test-engine.ts';
const crash = 'test/crash/run.ts';

/** Arguments of Node by the name of the part. */
const parts: Readonly<Record<string, readonly string[]>> = {
  simulation: [...vitest, 'test/gateways/simulation'],
  attacks: [...vitest, 'test/attacks', 'test/analytics/attacks', 'test/analytics/exactly-once.test.ts'],
  // Every other file, with all cases of its tables.
  tables: [
    ...vitest,
    ...['gateways/simulation', 'attacks', 'analytics/attacks'].flatMap((folder) => ['--exclude', `test/${folder}/**`]),
  ],
  kafka: [engine, 'kafka', '--all'],
  'kafka-gateways': [engine, 'kafka', '--gateways', '2', '--all'],
  workers: [engine, 'files', '--workers', '2', '--all'],
  eventstore: [engine, 'eventstore', '--all'],
  crash: [crash, '--rounds', '200'],
  'crash-kafka': [crash, '--rounds', '100', '--engine', 'kafka'],
  'crash-eventstore': [crash, '--rounds', '100', '--engine', 'eventstore'],
  'crash-driver': [crash, '--rounds', '100', '--engine', 'kafka', '--driver'],
  'crash-gateways': [crash, '--rounds', '100', '--engine', 'kafka', '--gateways', '3'],
  'crash-workers': [crash, '--rounds', '50', '--workers', '2'],
};

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => parts[name] === undefined);
if (unknown.length > 0) throw new Error(`unknown: ${unknown.join(', ')}; there are ${Object.keys(parts).join(', ')}`);

const results: string[] = [];
for (const [name, args] of Object.entries(parts)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  console.log(`\n== ${name}`);
  const started = performance.now();
  const { status } = spawnSync(process.execPath, ['scripts/run.mjs', ...args], {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, CHANCERY_LONG_TESTS: '1' },
  });
  const seconds = Math.round((performance.now() - started) / 1000);
  results.push(`${status === 0 ? 'ok    ' : 'FAILED'} ${name} (${seconds} s)`);
  if (status !== 0) process.exitCode = 1;
}
console.log(`\n${results.join('\n')}`);
