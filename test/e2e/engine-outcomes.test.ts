/** What clients get while the engine of the log (EventStoreDB, stand-in) takes appends and its answers do not arrive. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { type HoldingProxy, startHoldingProxy } from '../support/holding-proxy.ts';
import { type RunningStandIn, startStandIn } from '../support/start-eventstore.ts';
import { ask, killAll, type ServedGateway, serve, temporaryFolder } from './gateway-process.ts';
import { eventsIn } from './recorded-events.ts';

const folder = temporaryFolder();
const dataDir = join(folder.path, 'data');
const provider = createSimulatedProvider({ responses: 'absent' });
const model = 'llamacpp/simulated-small';
const messages = [{ role: 'user', content: 'Hello there' }];
const background = { model, input: 'Reply with exactly: hello', background: true };
const CHAT = '/v1/chat/completions';
const env = { LOG_LEVEL: 'error', RETRY_MAX_RETRIES: '0', DRAIN_TIMEOUT: '1s' };
let engine: RunningStandIn;
let proxy: HoldingProxy;
let gateway: ServedGateway;

beforeAll(async () => {
  engine = await startStandIn();
  proxy = await startHoldingProxy(engine.port);
  const LOG_URL = engine.url('log').replace(String(engine.port), String(proxy.port));
  const LLAMACPP_BASE_URL = await provider.listen();
  gateway = await serve({ dataDir, env: { ...env, LLAMACPP_BASE_URL, LOG_URL } });
}, 30_000);
afterAll(async () => {
  killAll();
  await proxy.close();
  await engine.stop();
  await provider.close();
  folder.remove();
});

const post = (path: string, json: object, headers: Record<string, string> = {}) =>
  ask(gateway.url, path, { json, headers });
const calls = () => provider.requests.filter(({ method, path }) => method === 'POST' && path === CHAT).length;
const ready = async () => fetch(`${gateway.url}/health/ready`);
const isReady = () => expect.poll(async () => (await ready()).status, { timeout: 30_000, interval: 100 }).toBe(200);
const exchangeOf = (response: Response) => response.headers.get('x-exchange-id') ?? '';
const eventsOf = async (exchange: string) =>
  (await eventsIn(dataDir)).filter(({ stream }) => stream === `exchange-${exchange}`);

describe('requests whose appends the engine acknowledges and does not return', () => {
  let answers: Response[];
  let before: number;
  let followed: { readonly response: Response; readonly ms: number };
  let late: { readonly response: Response; readonly ms: number };
  let notReady: Response;
  const messages503: string[] = [];

  async function timed(request: Promise<Response>) {
    const since = performance.now();
    return { response: await request, ms: performance.now() - since };
  }

  it('are sent', async () => {
    provider.control.next({ firstByteDelayMs: 60_000 }, { path: CHAT });
    const first = post(CHAT, { model, messages }, { 'idempotency-key': 'followed' }).catch(() => undefined);
    await expect.poll(calls).toBe(1);
    const follower = timed(post(CHAT, { model, messages }, { 'idempotency-key': 'followed' }));
    before = calls();
    await engine.setFaults({ holdEvents: true });
    const sent = [
      post(CHAT, { model, messages }),
      post(CHAT, { model, messages }, { 'idempotency-key': 'chat' }),
      post('/v1/responses', background),
      post('/v1/responses', background, { 'idempotency-key': 'background' }),
      post('/v1/conversations', {}),
      post('/admin/auth-keys', { name: 'made once' }),
    ];
    await expect.poll(async () => (await ready()).status, { timeout: 10_000, interval: 100 }).toBe(503);
    notReady = await ready();
    late = await timed(post(CHAT, { model, messages }));
    followed = await follower;
    answers = await Promise.all(sent);
    await engine.setFaults({});
    await isReady();
    provider.control.release();
    void first;
  }, 60_000);

  it('get 503 that states that the outcome is not known, and are not to be sent again by themselves', async () => {
    for (const answer of answers) {
      expect(answer.status, answer.url).toBe(503);
      expect(answer.headers.get('x-should-retry'), answer.url).toBe('false');
      expect(answer.headers.get('retry-after'), answer.url).toBe('1');
      const { error } = (await answer.json()) as { error: { code: string; message: string } };
      expect(error.code).toBe('log_unavailable');
      messages503.push(error.message);
      expect(error.message).toContain('not known');
      expect(error.message).not.toContain('Nothing was half-done');
    }
  });

  it('name the background response that may be recorded', async () => {
    const [, , response] = answers;
    const id = `resp_${exchangeOf(response as Response).replaceAll('-', '')}`;
    expect(messages503[2]).toBe(
      `It is not known whether the background response '${id}' was recorded; if it was, it may run. Retrieve it by this id before you send the request again.`,
    );
  });

  it('make the gateway not ready in a few seconds, so that later ones get 503 with Retry-After at once', async () => {
    expect(await notReady.json()).toMatchObject({ status: 'not_ready', log_engine: { connected: false } });
    expect(late.response.status).toBe(503);
    expect(late.response.headers.get('retry-after')).toBe('1');
    expect(late.ms).toBeLessThan(1_000);
  });

  it('let one that waits for the answer to another one under its key end with 503 and Retry-After', async () => {
    expect(followed.response.status).toBe(503);
    expect(followed.response.headers.get('retry-after')).toBe('1');
    expect(followed.ms).toBeLessThan(10_000);
  });

  it('end as failed when the log can be written again, without a call of a provider', async () => {
    const [, , response, keyed] = answers.map(exchangeOf);
    for (const exchange of answers.slice(0, 4).map(exchangeOf)) {
      const ended = async () => (await eventsOf(exchange)).at(-1);
      await expect.poll(ended, { timeout: 10_000 }).toMatchObject({ type: 'exchange.failed', data: { status: 503 } });
    }
    const find = (exchange = '') => ask(gateway.url, `/v1/responses/resp_${exchange.replaceAll('-', '')}`);
    const stored = (await (await find(response)).json()) as object;
    expect(stored).toMatchObject({ status: 'failed', error: { code: 'log_unavailable' } });
    // The claim of a key is an append of its own, before the response is queued.
    expect((await find(keyed)).status).toBe(404);
    expect(calls()).toBe(before);
  });

  it('may have changed something', async () => {
    const keys = (await (await ask(gateway.url, '/admin/auth-keys')).json()) as { data?: { name: string }[] };
    expect(JSON.stringify(keys)).toContain('made once');
  });

  it('are served when they are sent again under their keys', async () => {
    const chat = await post(CHAT, { model, messages }, { 'idempotency-key': 'chat' });
    expect(chat.status).toBe(200);
    expect(chat.headers.get('idempotent-replayed')).toBeNull();
    const again = await post('/v1/responses', background, { 'idempotency-key': 'background' });
    const { id } = (await again.json()) as { id: string };
    const stream = await ask(gateway.url, `/v1/responses/${id}?stream=true`);
    expect(await stream.text()).toContain('response.completed');
  });
});

describe('a background response that was returned as queued', () => {
  it('is completed although its next append has no answer', async () => {
    provider.control.next({ firstByteDelayMs: 500 }, { path: CHAT });
    const before = calls();
    const created = await post('/v1/responses', background);
    const { id, status } = (await created.json()) as { id: string; status: string };
    expect(status).toBe('queued');
    proxy.hold();
    await expect.poll(async () => (await ready()).status, { timeout: 10_000, interval: 100 }).toBe(503);
    proxy.release();
    await isReady();
    const stream = await ask(gateway.url, `/v1/responses/${id}?stream=true`);
    expect(await stream.text()).toContain('response.completed');
    expect(calls()).toBeGreaterThan(before);
  }, 60_000);
});

describe('SIGTERM while the engine does not answer', () => {
  it('ends the gateway a few seconds after DRAIN_TIMEOUT, with exit code 0', async () => {
    proxy.hold();
    const open = post(CHAT, { model, messages }).catch(() => undefined);
    await expect.poll(async () => (await ready()).status, { timeout: 10_000, interval: 100 }).toBe(503);
    const since = performance.now();
    gateway.process.kill('SIGTERM');
    expect(await gateway.process.exited, gateway.process.stderr).toEqual({ code: 0, signal: null });
    expect(performance.now() - since).toBeLessThan(12_000);
    expect(gateway.process.stderr.split('\n').filter((line) => line.includes('    at '))).toEqual([]);
    await open;
  }, 60_000);
});
