/**
 * `npm run test:crash -- --rounds 200 [--seed N] [--seconds 1.5] [--clients 14] [--large 0.05]`: kills a gateway under load, again
 * and again, and checks after every restart that nothing acknowledged was lost. In some rounds the disk is full, syncs fail (both
 * injected, see failing-disk.ts) or a segment is missing (on a copy of the folder); in some the process of a plugin is killed too.
 * Exits with 1 when something was.
 */
import { parseArgs } from 'node:util';
import { temporaryFolder } from '../e2e/gateway-process.ts';
import { type CrashSum, runCrashRounds } from './rounds.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '50' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    seconds: { type: 'string', default: '1.5' },
    clients: { type: 'string', default: '14' },
    /** Share of large answers: more of them fill segments faster. */
    large: { type: 'string', default: '0.05' },
  },
});

const started = performance.now();
const seed = Number(values.seed);
const folder = temporaryFolder();
console.log(`data folder: ${folder.path}`);
console.log(
  `crash test: ${values.rounds} rounds of up to ${values.seconds} s, ${values.clients} clients, seed ${seed}`,
);

let shown = 0;
const sum = await runCrashRounds({
  dataDir: folder.path,
  rounds: Number(values.rounds),
  seed,
  secondsPerRound: Number(values.seconds),
  clients: Number(values.clients),
  largeAnswers: Number(values.large),
  onRound(round, sum) {
    for (const { check, what } of sum.violations.slice(shown)) console.log(`round ${round}: [${check}] ${what}`);
    shown = sum.violations.length;
    if (round % 10 === 0) console.log(`round ${round}: ${line(sum)}`);
  },
});

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
    `${sum.promises} background responses, ${sum.keys} keys`,
    `${sum.guarded} whole answers under ${sum.workflows} versions of workflows with guardrails`,
    `${sum.hits} hits of ${sum.cached} cached answers, ${sum.purges} purges`,
    `${sum.pluginAnswers} whole answers and ${sum.pluginFailures} failures with the plugin, ${sum.pluginKills} kills of it`,
    `${sum.events} events`,
    `${sum.violations.length} violations`,
  ].join(', ');
}
