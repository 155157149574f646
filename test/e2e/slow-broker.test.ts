/** A gateway whose log is on a Kafka broker that works, but takes long to answer. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../infra/kafka/free-port.ts';
import { kafkaJars } from '../../infra/kafka/jars.ts';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { exchangeEnds } from '../../src/events/catalogue/exchange.ts';
import { streamName } from '../../src/events/event.ts';
import { type DelayingProxy, startDelayingProxy } from '../support/delaying-proxy.ts';
import { type KafkaBroker, startKafkaBroker } from '../support/kafka-broker.ts';
import { json } from '../support/with-gateway.ts';
import { ask, killAll, MASTER_KEY, type ServedGateway, serve, temporaryFolder } from './gateway-process.ts';
import { eventsIn } from './recorded-events.ts';

const jars = kafkaJars();
if ('missing' in jars) console.log(`tests of a slow broker are skipped: ${jars.missing}`);
const model = 'llamacpp/simulated-small';
/** Each way. An append is acknowledged after two of them, which the gateway accepts up to 3 s. */
const delays = { slow: 400, tooSlow: 1_700 };
const atOnce = 40;
const patience = { timeout: 60_000, interval: 100 };

afterAll(killAll);

describe.skipIf('missing' in jars)('a gateway whose log is on a slow broker', () => {
  const folder = temporaryFolder();
  const provider = createSimulatedProvider({ responses: 'absent' });
  const acknowledged: string[] = [];
  let broker: KafkaBroker;
  let proxy: DelayingProxy;
  let gateway: ServedGateway;

  beforeAll(async () => {
    const [port, slow, controller] = [await freePort(), await freePort(), await freePort()];
    proxy = await startDelayingProxy(slow);
    broker = await startKafkaBroker({
      port,
      settings: {
        listeners: `PLAINTEXT://127.0.0.1:${port},SLOW://127.0.0.1:${slow},CONTROLLER://127.0.0.1:${controller}`,
        'advertised.listeners': `PLAINTEXT://127.0.0.1:${port},SLOW://127.0.0.1:${proxy.port}`,
        'controller.quorum.voters': `1@127.0.0.1:${controller}`,
        'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SLOW:PLAINTEXT',
      },
    });
    const LOG_URL = `kafka://127.0.0.1:${proxy.port}/log-${randomUUID()}`;
    const env = { LLAMACPP_BASE_URL: await provider.listen(), LOG_LEVEL: 'error', LOG_URL };
    gateway = await serve({ dataDir: folder.path, env });
  }, 90_000);
  afterAll(async () => {
    gateway?.process.kill('SIGKILL');
    await gateway?.process.exited;
    await Promise.all([broker?.dispose(), provider.close()]);
    await proxy?.close();
    folder.remove();
  });

  async function chat(): Promise<Response> {
    const messages = [{ role: 'user', content: 'Hello there' }];
    const response = await ask(gateway.url, '/v1/chat/completions', { json: { model, messages } });
    await response.clone().text();
    if (response.status === 200) acknowledged.push(response.headers.get('x-exchange-id') ?? '');
    return response;
  }

  const chats = () => Promise.all(Array.from({ length: atOnce }, chat));
  const ready = () => fetch(`${gateway.url}/health/ready`);

  async function lastRead(): Promise<number> {
    const metrics = await ask(gateway.url, '/metrics', { key: MASTER_KEY });
    return Number(/^gateway_log_engine_last_read_timestamp_seconds\S* (\S+)$/m.exec(await metrics.text())?.[1]);
  }

  it('serves every request, later, and is ready', async () => {
    proxy.setDelay(delays.slow);
    const began = performance.now();
    const answers = await chats();
    expect(answers.map(({ status }) => status)).toEqual(Array(atOnce).fill(200));
    expect(performance.now() - began).toBeGreaterThan(2 * delays.slow);
    const answer = await ready();
    expect([answer.status, await json(answer)]).toMatchObject([200, { log_engine: { connected: true } }]);
  }, 60_000);

  it('refuses requests at once and is not ready when an append takes longer than 3 s, although the broker works', async () => {
    proxy.setDelay(delays.tooSlow);
    const calls = provider.requests.length;
    const begun = chats();
    await expect.poll(async () => (await ready()).status, patience).toBe(503);
    const statuses = new Set((await begun).map(({ status }) => status));
    expect([...statuses].filter((status) => status !== 200 && status !== 503)).toEqual([]);
    expect(provider.requests.length - calls).toBeLessThanOrEqual(atOnce);
    const called = provider.requests.length;
    const began = performance.now();
    for (let request = 0; request < 5; request++) {
      const refused = await chat();
      expect([refused.status, await json(refused)]).toMatchObject([503, { error: { code: 'log_unavailable' } }]);
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    }
    expect(performance.now() - began).toBeLessThan(delays.tooSlow);
    expect(provider.requests.length).toBe(called);
    // What tests the way is read back, too late each time: the state does not alternate.
    const before = await lastRead();
    await expect.poll(lastRead, patience).toBeGreaterThan(before);
    const answer = await ready();
    expect([answer.status, await json(answer)]).toMatchObject([
      503,
      { components: { storage: 'down' }, log_engine: { connected: false } },
    ]);
  }, 120_000);

  it('serves again without a restart when the broker is fast, and has lost no acknowledged answer', async () => {
    proxy.setDelay(0);
    await expect.poll(async () => (await ready()).status, patience).toBe(200);
    expect((await chat()).status).toBe(200);
    gateway.process.kill('SIGTERM');
    expect(await gateway.process.exited, gateway.process.stderr).toEqual({ code: 0, signal: null });
    const events = await eventsIn(folder.path);
    const completed = new Set(events.filter(({ type }) => type === 'exchange.completed').map(({ stream }) => stream));
    expect(acknowledged.length).toBeGreaterThan(atOnce);
    expect(acknowledged.filter((id) => !completed.has(streamName('exchange', id)))).toEqual([]);
    const ended = new Set(events.filter(({ type }) => exchangeEnds.has(type)).map(({ stream }) => stream));
    const begun = events.filter(({ type }) => type === 'request.received').map(({ stream }) => stream);
    expect(begun.filter((stream) => !ended.has(stream))).toEqual([]);
  }, 90_000);
});
