/**
 * Several gateways on one log: `node scripts/run.mjs bench/gateways.ts [kafka|eventstore]`. When a change of an administrator is in
 * force everywhere, what reads of one's own writes cost, and how long a takeover takes. Kafka runs on this machine (`npm run
 * kafka:prepare` fetches it); `eventstore` is the stand-in of the tests.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createSimulatedProvider } from '../infra/simulated-provider/server.ts';
import { ask, killAll, type ServedGateway, serve } from '../test/e2e/gateway-process.ts';
import { startEventStore } from '../test/support/start-eventstore.ts';
import { brokerForBench } from './servers/kafka-broker.ts';

const CHANGES = 60;
const READS = 200;
const LEASE_MS = 2000;
/** Requests per second to each gateway during the measurements. */
const LIGHT_LOAD = 10;
const model = 'llamacpp/simulated-small';

const workDir = mkdtempSync(join(tmpdir(), 'chancery-bench-'));
const provider = createSimulatedProvider({ responses: 'absent' });
const upstream = await provider.listen();
const [engine = 'kafka'] = process.argv.slice(2);
const { url, stop: stopEngine } = await logOf(engine);

async function logOf(name: string): Promise<{ readonly url: string; stop(): Promise<void> }> {
  if (name === 'eventstore') {
    const store = await startEventStore();
    return { url: store.url('bench'), stop: () => store.stop() };
  }
  const broker = await brokerForBench(workDir);
  return { url: `kafka://${broker.brokers}/bench-${Date.now()}`, stop: async () => void (await broker.stop()) };
}

const start = (name: string): Promise<ServedGateway> =>
  serve({
    dataDir: join(workDir, name),
    env: {
      ...{ LOG_URL: url, LOG_LEASE: `${LEASE_MS}ms`, CREDENTIALS_KEY: 'credentials key of the benchmark' },
      ...{ LLAMACPP_BASE_URL: upstream, ANALYTICS_ENABLED: 'false', DRAIN_TIMEOUT: '0s', RETRY_MAX_RETRIES: '0' },
    },
  });

function figures(name: string, ms: readonly number[]): void {
  const sorted = ms.toSorted((a, b) => a - b);
  const at = (share: number) =>
    (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0).toFixed(1);
  console.log(`${name.padEnd(64)} p50 ${at(0.5)} ms  p99 ${at(0.99)} ms  (${ms.length})`);
}

async function timed<T>(work: () => Promise<T>): Promise<{ readonly ms: number; readonly value: T }> {
  const from = performance.now();
  const value = await work();
  return { ms: performance.now() - from, value };
}

const jsonOf = async (answer: Response | Promise<Response>) => JSON.parse(await (await answer).text());

/** A few requests per second to each gateway until it is stopped. */
function lightLoad(gateways: readonly ServedGateway[]): () => void {
  const send = ({ url: to }: ServedGateway) =>
    void ask(to, '/v1/chat/completions', { json: { model, messages: [{ role: 'user', content: 'x' }] } })
      .then((answer) => answer.text())
      .catch(() => {});
  const timer = setInterval(() => gateways.forEach(send), 1000 / LIGHT_LOAD);
  return () => clearInterval(timer);
}

/** From the request of an administrator until every gateway refuses the key. */
async function changes(gateways: readonly ServedGateway[]): Promise<void> {
  const confirmed: number[] = [];
  const stillAccepted: number[] = [];
  for (let n = 0; n < CHANGES; n++) {
    const one = gateways[n % gateways.length] as ServedGateway;
    const { id, value } = await jsonOf(ask(one.url, '/admin/auth-keys', { json: { name: `key ${n}` } }));
    const { ms } = await timed(() => ask(one.url, `/admin/auth-keys/${id}/deactivate`, { method: 'POST' }));
    confirmed.push(ms);
    const statuses = await Promise.all(
      gateways.map(async ({ url: to }) => (await ask(to, '/v1/models', { key: value })).status),
    );
    if (statuses.some((status) => status !== 401)) stillAccepted.push(n);
  }
  figures('a change is in force in all gateways (3), from its request', confirmed);
  if (stillAccepted.length > 0) console.log(`  ${stillAccepted.length} were confirmed before they were in force`);
}

async function readsOf(name: string, write: ServedGateway, read: ServedGateway): Promise<void> {
  const took: number[] = [];
  for (let n = 0; n < READS; n++) {
    const { id } = await jsonOf(ask(write.url, '/v1/responses', { json: { model, input: 'x' } }));
    const { ms, value } = await timed(async () => {
      const answer = await ask(read.url, `/v1/responses/${id}`);
      await answer.text();
      return answer.status;
    });
    if (value !== 200) throw new Error(`${name}: ${value}`);
    took.push(ms);
  }
  figures(name, took);
}

/** From the signal until another gateway has resumed and completed the background response. */
async function takeover(signal: 'SIGKILL' | 'SIGSTOP', other: ServedGateway): Promise<number> {
  const one = await start(`taken-over-${signal}-${performance.now()}`);
  provider.control.next({ hang: true }, { path: '/v1/chat/completions' });
  const { id } = await jsonOf(ask(one.url, '/v1/responses', { json: { model, background: true, input: 'x' } }));
  await delay(300);
  const { ms } = await timed(async () => {
    one.process.kill(signal);
    while ((await jsonOf(ask(other.url, `/v1/responses/${id}`))).status !== 'completed') await delay(10);
  });
  one.process.kill('SIGKILL');
  return ms;
}

try {
  const first = await start('a');
  await readsOf('a read of a response, one gateway', first, first);
  const gateways = [first, await start('b'), await start('c')];
  await readsOf('a read of a response, three gateways, through the same one', first, first);
  await readsOf('a read of a response, three gateways, through another one', first, gateways[1] as ServedGateway);
  const stopLoad = lightLoad(gateways);
  await changes(gateways);
  stopLoad();
  for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
    const took = [await takeover(signal, first), await takeover(signal, first), await takeover(signal, first)];
    figures(`takeover after ${signal}, LOG_LEASE ${LEASE_MS} ms`, took);
  }
} finally {
  killAll();
  await provider.close();
  await stopEngine();
  rmSync(workDir, { recursive: true, force: true, maxRetries: 3 });
}
