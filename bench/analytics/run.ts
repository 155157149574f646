/**
 * Measures analytics on a generated history: `npm run bench:analytics -- --events 20000000`.
 *
 * It measures how fast analytics catches up, the memory of its process, how long the queries of the admin API take over
 * 30 days and at any depth, how late a request can be queried while others run, and how much slower the gateway is
 * beside it. Linux with `taskset` (util-linux).
 */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { Histogram } from '../load/histogram.ts';
import { startLoadProcess } from '../load/load-process.ts';
import { startGateway } from '../servers/gateway.ts';
import type { Server } from '../servers/launch.ts';
import { descendantsOf, memoryOf } from '../servers/process-stat.ts';
import { startProvider } from '../servers/stand-ins.ts';
import { catchUpRate, caughtUp, fillLog } from './history.ts';
import { askOfOne, askOften, jumpToPages, questions, turnPages } from './questions.ts';
import { measureLag, measureUnderLoad } from './under-load.ts';
import { SIMULATED_MODELS } from './work.ts';

const { values: options } = parseArgs({
  options: {
    /** In the history, about. */
    events: { type: 'string', default: '200000' },
    /** How often each query is sent. */
    times: { type: 'string', default: '20' },
    /** Streams per second while the lag is measured, and the words of each. */
    rate: { type: 'string', default: '1000' },
    words: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '20' },
    /** Of the work with and without analytics; each takes a second. */
    rounds: { type: 'string', default: '15' },
    /** A folder in which the history is kept, and used again when it is there. Default: a folder that is removed. */
    data: { type: 'string' },
    /** Only some of the parts, separated by commas. */
    only: { type: 'string', default: 'questions,lag,beside' },
  },
});

/** The first start folds the whole history into the read models. */
const START_TIMEOUT_MS = 600_000;

const workDir = fileURLToPath(new URL('../.work', import.meta.url));
const dataDir = options.data ?? join(workDir, `analytics-${process.pid}`);
const besideDir = join(workDir, `analytics-beside-${process.pid}`);
const aloneDir = join(workDir, `analytics-alone-${process.pid}`);
const only = new Set(options.only.split(','));
const [times, rounds] = [Number(options.times), Number(options.rounds)];

const say = (what: string, text: string) => console.log(`${what.padEnd(52)} ${text}`);
const inMs = (took: Histogram) =>
  `p50 ${took.quantile(0.5).toFixed(0)} ms, p95 ${took.quantile(0.95).toFixed(0)} ms, p99 ${took.quantile(0.99).toFixed(0)} ms, most ${took.max.toFixed(0)} ms (${took.count})`;

async function measureQuestions(gateway: Server): Promise<void> {
  for (const question of questions) {
    say(`GET ${question.startsWith('/') ? '' : '/admin/'}${question}`, inMs(await askOften(gateway, question, times)));
  }
  const { detail, conversation } = await askOfOne(gateway, times);
  say('GET /admin/audit/detail', inMs(detail));
  say('GET /admin/audit/conversation', inMs(conversation));
  say('pages of /admin/audit/log by cursor', inMs(await turnPages(gateway, times * 3)));
  say('pages of /admin/audit/log by number', inMs(await jumpToPages(gateway, times)));
}

mkdirSync(dataDir, { recursive: true });
const load = startLoadProcess();
const provider = await startProvider({ responses: 'native', words: Number(options.words), models: SIMULATED_MODELS });
const providers = { OPENAI: `${provider.origin}/v1` };
const running: Server[] = [];
try {
  const events = await fillLog(dataDir, Number(options.events));
  say('history', `${events.toLocaleString('en')} events`);
  const env = { ANALYTICS_ENABLED: 'true', ANALYTICS_HTTP_PORT: '0' };
  const gateway = await startGateway({ dataDir, providers, env, startTimeoutMs: START_TIMEOUT_MS });
  running.push(gateway);
  await caughtUp(gateway);
  say('catching up', `${Math.round(await catchUpRate(dataDir, events)).toLocaleString('en')} events/s`);
  const sayMemory = () =>
    say(
      'memory of the analytics process, now and at most',
      descendantsOf(gateway.pid)
        .map(memoryOf)
        .map(({ residentMb, peakMb }) => `${residentMb.toFixed(0)} and ${peakMb.toFixed(0)} MiB`)
        .join(', '),
    );
  sayMemory();
  if (only.has('questions')) {
    await measureQuestions(gateway);
    sayMemory();
  }
  if (only.has('lag')) {
    const subjectRequest = { perSecond: Number(options.rate), seconds: Number(options.seconds) };
    const {
      behindMs,
      load: result,
      eventsPerSecond,
      eventMicros,
    } = await measureLag(gateway, dataDir, load, subjectRequest);
    say(
      `behind, at ${result.perSecond.toFixed(0)} streams/s, ${eventsPerSecond.toFixed(0)} events/s`,
      `${inMs(behindMs)}; answers p50 ${result.latencyMs.p50.toFixed(0)} ms, p99 ${result.latencyMs.p99.toFixed(0)} ms`,
    );
    say('processor time of analytics for an event', `${eventMicros.toFixed(0)} µs`);
    for (const [what, count] of Object.entries(result.failures)) say(what, `${count} times`);
    sayMemory();
  }
  if (only.has('beside')) {
    await gateway.stop();
    const beside = await startGateway({ dataDir: besideDir, providers, env });
    const alone = await startGateway({ dataDir: aloneDir, providers });
    running.push(beside, alone);
    for (const apart of [false, true]) {
      for (const work of ['chat-json', 'chat-sse'] as const) {
        const both = { with: beside, without: alone, provider, load, apart };
        const { describe, ratio, rates } = await measureUnderLoad(work, rounds, 1, both);
        say(describe, `${ratio.toFixed(2)} of ${rates.without.toFixed(0)}/s without analytics`);
      }
    }
  }
} finally {
  load.stop();
  for (const server of running) await server.stop();
  await provider.stop();
  const made = options.data === undefined ? [besideDir, aloneDir, dataDir] : [besideDir, aloneDir];
  for (const folder of made) rmSync(folder, { recursive: true, force: true });
}
