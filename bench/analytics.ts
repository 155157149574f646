/**
 * What analytics costs and gives, on a history of its own: `node scripts/run.mjs bench/analytics.ts --events 1000000`.
 *
 * It measures how fast it catches up, the memory of its process, how long until a request can be asked for while others
 * run, and how long the questions of the admin API take over 30 days and page by page.
 */
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { openLog } from '../src/events/open-log.ts';
import { parsePosition } from '../src/events/sequence-position.ts';
import { type AnalyticsDb, createAnalyticsDb } from '../src/projections/analytics/analytics-db.ts';
import { writeHistory } from '../test/analytics/generated-history.ts';
import { Histogram } from './histogram.ts';
import { descendantsOf, memoryOf } from './process-stat.ts';
import { GATEWAY_KEY, type Server, startGateway, startProvider } from './servers.ts';

const { values: options } = parseArgs({
  options: {
    /** In the history, about. */
    events: { type: 'string', default: '200000' },
    /** How often each question is asked. */
    times: { type: 'string', default: '20' },
    /** Clients that talk while the lag is measured. */
    clients: { type: 'string', default: '20' },
    /** How many requests are waited for, while the clients talk. */
    probes: { type: 'string', default: '30' },
  },
});

const workDir = fileURLToPath(new URL('.work', import.meta.url));
const dataDir = join(workDir, `analytics-${process.pid}`);
const DAYS = 30;
const PER_SLICE = 20_000;
/** What an exchange of the history comes to, about. */
const EVENTS_EACH = 7;
const CATCH_UP_MS = 3600_000;
const headers = { authorization: `Bearer ${GATEWAY_KEY}`, 'content-type': 'application/json' };

/** In slices, since a history remembers what it has written. @returns how many events the log has */
async function fillLog(events: number): Promise<number> {
  const log = await openLog(pathToFileURL(join(dataDir, 'log')).href, { durability: 'relaxed' });
  const exchanges = Math.ceil(events / EVENTS_EACH);
  const everyMs = (DAYS * 24 * 3600_000) / exchanges;
  const from = Date.now() - DAYS * 24 * 3600_000;
  for (let done = 0, seed = 1; done < exchanges; done += PER_SLICE, seed++) {
    const slice = Math.min(PER_SLICE, exchanges - done);
    await writeHistory(log, { exchanges: slice, seed, from: from + done * everyMs, everyMs });
  }
  const head = parsePosition(await log.head());
  await log.close();
  return head;
}

function openDb(): AnalyticsDb {
  const { gateway } = JSON.parse(readFileSync(join(dataDir, 'clickhouse-passwords.json'), 'utf8'));
  return createAnalyticsDb({
    address: () => ({
      url: readFileSync(join(dataDir, 'clickhouse', 'address'), 'utf8').trim(),
      username: 'gateway',
      password: gateway,
      database: 'chancery',
    }),
  });
}

/** Events per second, from the first batch to the last: each was announced when the one before it was stored. */
async function caughtUp(gateway: Server, events: number): Promise<number> {
  const deadline = performance.now() + CATCH_UP_MS;
  for (;;) {
    const text = await (await fetch(`${gateway.origin}/metrics`)).text();
    const lag = /^gateway_projection_lag_events\{projection="analytics"\} (\d+)$/m.exec(text)?.[1];
    if (lag === '0') break;
    if (performance.now() > deadline) throw new Error(`still ${lag} of ${events} events behind`);
    await delay(200);
  }
  const db = openDb();
  const [row] = await db.rows<{ events: string; ms: string }>(
    `SELECT sum(events) - argMax(events, at) AS events,
      dateDiff('millisecond', min(at), max(at)) AS ms FROM $db._batches WHERE to <= {events: UInt64}`,
    { events },
  );
  await db.close();
  return Number(row?.events ?? 0) / (Number(row?.ms ?? 0) / 1000);
}

async function chat(gateway: Server, requestId: string): Promise<void> {
  const body = JSON.stringify({
    model: 'openai/simulated-small',
    stream: true,
    messages: [{ role: 'user', content: 'Hi' }],
  });
  const response = await fetch(`${gateway.origin}/v1/chat/completions`, {
    method: 'POST',
    headers: { ...headers, 'x-request-id': requestId },
    body,
  });
  await response.arrayBuffer();
  if (response.status !== 200) throw new Error(`a chat was answered with ${response.status}`);
}

/** From the end of an answer until its row can be asked for, while others talk. */
async function measureLag(gateway: Server, clients: number, probes: number) {
  const lag = new Histogram();
  const db = openDb();
  let talking = true;
  let chats = 0;
  const began = performance.now();
  const talk = Array.from({ length: clients }, async (_, client) => {
    for (let n = 0; talking; n++, chats++) await chat(gateway, `talk-${client}-${n}`);
  });
  for (let probe = 0; probe < probes; probe++) {
    const id = `probe-${probe}`;
    await chat(gateway, id);
    const ended = performance.now();
    for (let there = false; !there; ) {
      const query = 'SELECT count() AS n FROM $db.exchanges WHERE at > now() - 60 AND request_id = {id: String}';
      there = Number((await db.rows<{ n: string }>(query, { id }))[0]?.n) > 0;
      if (!there) await delay(20);
    }
    lag.record(performance.now() - ended);
  }
  talking = false;
  await Promise.all(talk);
  const rate = chats / ((performance.now() - began) / 1000);
  await db.close();
  return { lag, rate };
}

const questions = [
  `usage/summary?days=${DAYS}`,
  `usage/daily?days=${DAYS}`,
  `usage/models?days=${DAYS}`,
  `usage/user-paths?days=${DAYS}`,
  `usage/labels?days=${DAYS}`,
  `usage/sessions?days=${DAYS}`,
  `usage/log?days=${DAYS}`,
  'usage/throughput?granularity=minute',
  `audit/log?days=${DAYS}`,
  `audit/sessions?days=${DAYS}`,
  `audit/stats?days=${DAYS}`,
];

async function ask(gateway: Server, question: string, into: Histogram): Promise<unknown> {
  const began = performance.now();
  const response = await fetch(`${gateway.origin}/admin/${question}`, { headers });
  const text = await response.text();
  into.record(performance.now() - began);
  if (response.status !== 200) throw new Error(`${question} was answered with ${response.status}: ${text}`);
  return JSON.parse(text);
}

/** Page after page of the audit log, from the newest on. */
async function turnPages(gateway: Server, pages: number): Promise<Histogram> {
  const took = new Histogram();
  let cursor = '';
  for (let page = 0; page < pages; page++) {
    const answer = await ask(gateway, `audit/log?days=${DAYS}&limit=100${cursor}`, took);
    const next = typeof answer === 'object' && answer !== null && 'next_cursor' in answer ? answer.next_cursor : null;
    if (typeof next !== 'string') break;
    cursor = `&cursor=${encodeURIComponent(next)}`;
  }
  return took;
}

const say = (what: string, text: string) => console.log(`${what.padEnd(34)} ${text}`);
const inMs = (took: Histogram) =>
  `p50 ${took.quantile(0.5).toFixed(0)} ms, p95 ${took.quantile(0.95).toFixed(0)} ms, most ${took.max.toFixed(0)} ms (${took.count})`;

mkdirSync(dataDir, { recursive: true });
const provider = await startProvider({ responses: 'native', words: 20, models: ['simulated-small'] });
let gateway: Server | undefined;
try {
  const events = await fillLog(Number(options.events));
  say('history', `${events.toLocaleString('en')} events over ${DAYS} days`);
  const env = { ANALYTICS_ENABLED: 'true', ANALYTICS_HTTP_PORT: '0' };
  gateway = await startGateway({ dataDir, native: provider, env });
  say('catching up', `${Math.round(await caughtUp(gateway, events)).toLocaleString('en')} events/s`);
  const memory = () => descendantsOf(gateway?.pid ?? 0).map((pid) => memoryOf(pid).peakMb.toFixed(0));
  say('most memory of its process', `${memory().join(', ')} MiB`);
  const times = Number(options.times);
  for (const question of questions) {
    const took = new Histogram();
    for (let n = 0; n < times; n++) await ask(gateway, question, took);
    say(`GET /admin/${question.split('?')[0]}`, inMs(took));
  }
  say('pages of /admin/audit/log', inMs(await turnPages(gateway, times * 5)));
  const { lag, rate } = await measureLag(gateway, Number(options.clients), Number(options.probes));
  say('until a request can be asked for', `${inMs(lag)}, at ${rate.toFixed(0)} streams/s`);
  say('most memory of its process', `${memory().join(', ')} MiB`);
} finally {
  await gateway?.stop();
  await provider.stop();
  rmSync(dataDir, { recursive: true, force: true });
}
