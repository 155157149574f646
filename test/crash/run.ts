/**
 * `npm run test:crash -- --rounds 200 [--seed N] [--seconds 1.5] [--clients 14] [--large 0.05]
 * [--engine kafka|eventstore [--driver]]`: kills a gateway under load, again
 * and again, and checks after every restart that nothing acknowledged was lost. In some rounds the disk is full, syncs fail (both
 * injected, see failing-disk.ts) or a segment is missing (on a copy of the folder); in some the process of a plugin is killed too.
 * With `--engine` the log is on that engine (a Kafka broker, or the stand-in for EventStoreDB), which is killed too;
 * with `--driver` no gateway is started and the driver of the engine is used directly (`--clients` are its writers).
 * With `--gateways 3` (on an engine) or `--workers 2` (in files) several gateways are one service (see several/; `--lease`, `--budgets`).
 * Exits with 1 when something was lost.
 */
import { parseArgs } from 'node:util';
import { temporaryFolder } from '../e2e/gateway-process.ts';
import type { CrashSum } from './crash-sum.ts';
import { runDriverRounds } from './driver-rounds.ts';
import { engineLine } from './engine-rounds.ts';
import { type CrashEngine, engineNames, startCrashEngine } from './engines.ts';
import { createChance } from './random.ts';
import { runCrashRounds } from './rounds.ts';
import { runSeveralRounds } from './several/several-rounds.ts';
import { severalLine } from './several/several-sum.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '50' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    seconds: { type: 'string', default: '1.5' },
    clients: { type: 'string', default: '14' },
    /** Share of large answers: more of them fill segments faster. */
    large: { type: 'string', default: '0.05' },
    engine: { type: 'string' },
    driver: { type: 'boolean', default: false },
    gateways: { type: 'string', default: '1' },
    /** Worker processes of one gateway on a log in files. */
    workers: { type: 'string', default: '1' },
    lease: { type: 'string', default: '2' },
    /** Share of the rounds with requests under a budget. */
    budgets: { type: 'string', default: '0.3' },
  },
});

const started = performance.now();
const seed = Number(values.seed);
const folder = temporaryFolder();
const engineName = engineNames.find((name) => name === values.engine);
if (values.engine !== undefined && engineName === undefined) {
  throw new Error(`--engine: there is no ${values.engine}; there are ${engineNames.join(', ')}`);
}
const gateways = Number(values.gateways);
const engine = engineName === undefined ? undefined : await startCrashEngine(engineName, gateways > 1 ? gateways : 0);
if (engine !== undefined && values.driver) process.exit(await driverRounds(engine));
console.log(`data folder: ${folder.path}`);
const workers = Number(values.workers);
if (workers > 1 || gateways > 1) process.exit(await severalRounds(engine));
console.log(
  `crash test: ${values.rounds} rounds of up to ${values.seconds} s, ${values.clients} clients, seed ${seed}${engine === undefined ? '' : `, on ${engine.logUrl}`}`,
);

let shown = 0;
const sum = await runCrashRounds({
  dataDir: folder.path,
  rounds: Number(values.rounds),
  seed,
  secondsPerRound: Number(values.seconds),
  clients: Number(values.clients),
  largeAnswers: Number(values.large),
  engine,
  onRound(round, sum) {
    for (const { check, what } of sum.violations.slice(shown)) console.log(`round ${round}: [${check}] ${what}`);
    shown = sum.violations.length;
    if (round % 10 === 0) console.log(`round ${round}: ${line(sum)}`);
  },
}).finally(() => engine?.dispose());

for (const { check, what } of sum.violations.slice(shown)) console.log(`at the end: [${check}] ${what}`);
const seconds = ((performance.now() - started) / 1000).toFixed(0);
console.log(`${sum.rounds} rounds in ${seconds} s: ${line(sum)}`);
if (sum.violations.length === 0) folder.remove();
else console.log('The data folder is kept.');
process.exitCode = sum.violations.length === 0 ? 0 : 1;

function line(sum: CrashSum): string {
  return [
    `${sum.kills} kills (${sum.openAtKill} exchanges open at the time)`,
    `${sum.endedStarts} starts ended early`,
    `${sum.gracefulStops} orderly stops`,
    Object.entries(sum.faults)
      .map(([fault, rounds]) => `${rounds} times ${fault}`)
      .join(', '),
    `${sum.requests} requests`,
    `${sum.wholeAnswers} whole answers, ${sum.cutAnswers} cut`,
    `${(sum.bytes / 1e6).toFixed(1)} MB received`,
    `${sum.providerCalls} provider calls`,
    `${sum.promises} background responses, ${sum.keys} keys, ${sum.socketTurns} turns over WebSockets`,
    `${sum.guarded} whole answers under ${sum.workflows} versions of workflows with guardrails`,
    `${sum.hits} hits of ${sum.cached} cached answers, ${sum.purges} purges`,
    `${sum.pluginAnswers} whole answers and ${sum.pluginFailures} failures with the plugin, ${sum.pluginKills} kills of it, ${sum.reloads} reloads`,
    ...(sum.engine === undefined ? [] : [engineLine(sum.engine)]),
    `${sum.events} events`,
    `${sum.violations.length} violations`,
  ].join(', ');
}

async function driverRounds(engine: CrashEngine): Promise<number> {
  const { rounds, seconds, clients } = values;
  console.log(`driver of ${engine.logUrl}: ${rounds} rounds, ${clients} writers, seed ${seed}`);
  const { violations, ...sum } = await runDriverRounds({
    engine,
    rounds: Number(rounds),
    chance: createChance(seed),
    writers: Number(clients),
    secondsPerRound: Number(seconds),
  }).finally(() => engine.dispose());
  for (const { check, what } of violations) console.log(`[${check}] ${what}`);
  console.log(
    `${((performance.now() - started) / 1000).toFixed(0)} s: ${violations.length} violations, ${JSON.stringify(sum)}`,
  );
  return violations.length === 0 ? 0 : 1;
}

async function severalRounds(engine: CrashEngine | undefined): Promise<number> {
  const { rounds, seconds, clients, lease, budgets } = values;
  console.log(
    `${workers > 1 ? `${workers} workers` : `${gateways} gateways on ${engine?.logUrl}`}: ${rounds} rounds, ${clients} clients, lease ${lease} s, seed ${seed}`,
  );
  let printed = 0;
  const sum = await runSeveralRounds({
    folder: folder.path,
    rounds: Number(rounds),
    seed,
    gateways,
    workers,
    secondsPerRound: Number(seconds),
    leaseMs: Number(lease) * 1000,
    clients: Number(clients),
    budgets: Number(budgets),
    engine,
    onRound(round, sum) {
      for (const { check, what } of sum.violations.slice(printed)) console.log(`[${check}] ${what}`);
      printed = sum.violations.length;
      if (round % 5 === 0) console.log(`round ${round}: ${severalLine(sum)}`);
    },
  }).finally(() => engine?.dispose());
  for (const { check, what } of sum.violations.slice(printed)) console.log(`[${check}] ${what}`);
  const seconds_ = ((performance.now() - started) / 1000).toFixed(0);
  console.log(`${sum.rounds} rounds in ${seconds_} s (seed ${seed}): ${severalLine(sum)}`);
  console.log(
    `SHA-256 of every log: ${sum.digest}; ${sum.replayed} events replayed from the engine (${sum.ignored} appends ignored)`,
  );
  if (sum.violations.length === 0) folder.remove();
  else console.log('The data folders are kept.');
  return sum.violations.length === 0 ? 0 : 1;
}
