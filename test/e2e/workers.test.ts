/** Several workers on one port, one data folder and one log. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { exchangeEnds, requestReceived } from '../../src/events/catalogue/exchange.ts';
import { configurationReloaded, gatewayStarted, leaseEnded, leaseGranted } from '../../src/events/catalogue/gateway.ts';
import { idOf } from '../../src/events/event.ts';
import type { Answered } from '../support/answered.ts';
import {
  ask,
  killAll,
  type ServedGateway,
  serve,
  startProcess,
  stopGateway,
  temporaryFolder,
} from './gateway-process.ts';
import { eventsIn } from './recorded-events.ts';

const folder = temporaryFolder();
const provider = createSimulatedProvider({ models: ['m'], responses: 'absent', remember: 100_000 });
const chat = '/v1/chat/completions';
let upstream = '';
let dataDir = '';
let tests = 0;

beforeAll(async () => {
  upstream = await provider.listen();
});
afterEach(() => {
  killAll();
  provider.control.release();
  provider.control.clear();
  tests += 1;
});
afterAll(async () => {
  killAll();
  await provider.close();
  folder.remove();
});

function start(workers: number, env: Record<string, string> = {}): Promise<ServedGateway> {
  dataDir = join(folder.path, String(tests));
  const settings = { LLAMACPP_BASE_URL: upstream, RETRY_MAX_RETRIES: '0', GATEWAY_WORKERS: String(workers) };
  return serve({ dataDir, env: { ...settings, ...env } });
}

const question = (content: string) => ({ model: 'llamacpp/m', messages: [{ role: 'user', content }] });
/** A connection of its own, and so the next worker. */
const alone = { headers: { connection: 'close' } };
const calls = () => provider.requests.filter(({ path }) => path === chat).length;

/** The process of each gateway that has started on this log, by its id. */
async function pids(): Promise<Map<string, number>> {
  const started = (await eventsIn(dataDir)).filter(({ type }) => type === gatewayStarted.type);
  return new Map(started.map(({ stream, data }) => [idOf(stream), gatewayStarted.data.parse(data).pid]));
}

/** The gateway that has received the latest exchange. */
async function latestGateway(): Promise<string> {
  // The provider may be called before the event is in a file.
  const received = await vi.waitUntil(async () =>
    (await eventsIn(dataDir)).findLast(({ type }) => type === requestReceived.type),
  );
  return requestReceived.data.parse(received.data).gateway ?? '';
}

/** For each exchange, the types of its ends. */
async function ends(): Promise<Map<string, string[]>> {
  const exchanges = new Map<string, string[]>();
  for (const { stream, type } of await eventsIn(dataDir)) {
    if (type === requestReceived.type) exchanges.set(idOf(stream), []);
    if (exchangeEnds.has(type)) exchanges.get(idOf(stream))?.push(type);
  }
  return exchanges;
}

interface Load {
  /** Ids of the exchanges whose clients have received the whole answer with 200. */
  readonly served: string[];
  /** Errors of connections, and other statuses. */
  readonly failed: string[];
  stop(): Promise<void>;
}

/** Clients that send one request after another, each with connections of its own. */
function startLoad(url: string, clients: number): Load {
  const served: string[] = [];
  const failed: string[] = [];
  let stopping = false;
  const client = async () => {
    while (!stopping) {
      try {
        const answer = await ask(url, chat, { json: question('load'), ...alone });
        await answer.text();
        if (answer.status === 200) served.push(answer.headers.get('x-exchange-id') ?? '');
        else failed.push(String(answer.status));
      } catch (error) {
        failed.push(String(error));
        if (!stopping) await new Promise((resolve) => setImmediate(resolve));
      }
    }
  };
  const running = Array.from({ length: clients }, client);
  return {
    served,
    failed,
    async stop() {
      stopping = true;
      await Promise.all(running);
    },
  };
}

async function untilServed(load: Load, more: number): Promise<void> {
  const from = load.served.length;
  await expect.poll(() => load.served.length, { timeout: 20_000, interval: 10 }).toBeGreaterThanOrEqual(from + more);
}

async function expectAllRecorded({ served }: Load): Promise<void> {
  const recorded = await ends();
  const wrong = served.filter((id) => recorded.get(id)?.join() !== 'exchange.completed');
  expect(wrong).toEqual([]);
  expect([...recorded.values()].filter(({ length }) => length !== 1)).toEqual([]);
}

/** Of all workers. */
async function requestsCounted({ url }: ServedGateway): Promise<number> {
  const text = await (await ask(url, '/metrics', alone)).text();
  const counts = text.matchAll(/^gateway_requests_total\{worker="\d+".*\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

const readiness = async ({ url }: ServedGateway) => (await ask(url, '/health/ready', alone)).json();

describe('two workers', () => {
  it('one is killed under load: the other one goes on and inherits, and it is replaced', async () => {
    // A lease that would expire long after the test.
    const gateway = await start(2, { LOG_LEASE: '10m' });
    provider.control.next({ hang: true }, { path: chat });
    const cut = ask(gateway.url, chat, { json: question('cut'), ...alone }).then(
      () => 'answered',
      () => 'closed',
    );
    await expect.poll(calls).toBe(1);
    const victim = (await pids()).get(await latestGateway()) ?? 0;
    const load = startLoad(gateway.url, 6);
    await untilServed(load, 50);
    const counted = await requestsCounted(gateway);
    expect(counted).toBeGreaterThanOrEqual(50);
    process.kill(victim, 'SIGKILL');
    expect(await cut).toBe('closed');
    await untilServed(load, 50);
    await expect
      .poll(async () => [...(await ends()).values()].filter((types) => types.join() === 'exchange.failed').length)
      .toBeGreaterThanOrEqual(1);
    await expect
      .poll(() => readiness(gateway), { timeout: 20_000 })
      .toMatchObject({ status: 'ready', workers: { configured: 2, running: 2 } });
    const failedBefore = load.failed.length;
    await untilServed(load, 50);
    expect(load.failed.slice(failedBefore)).toEqual([]);
    await load.stop();
    expect(await requestsCounted(gateway)).toBeGreaterThanOrEqual(counted);
    await stopGateway(gateway);
    await expectAllRecorded(load);
    expect((await pids()).size).toBe(3);
    expect(gateway.process.stderr).toContain('is replaced');
  }, 60_000);

  it('end when the primary process is killed; after a restart nothing that was acknowledged is missing', async () => {
    const gateway = await start(2);
    const before = calls();
    provider.control.next({ hang: true }, { path: chat });
    const json = { model: 'llamacpp/m', background: true, input: 'x' };
    const { id }: Answered = await (await ask(gateway.url, '/v1/responses', { json })).json();
    await expect.poll(calls).toBe(before + 1);
    const workers = [...(await pids()).values()];
    const load = startLoad(gateway.url, 6);
    await untilServed(load, 50);
    gateway.process.kill('SIGKILL');
    await gateway.process.exited;
    await load.stop();
    const isRunning = (pid: number) => {
      try {
        return process.kill(pid, 0);
      } catch {
        return false;
      }
    };
    await expect.poll(() => workers.filter(isRunning)).toEqual([]);
    const again = await start(2);
    await expect
      .poll(async () => {
        const found: Answered = await (await ask(again.url, `/v1/responses/${id}`, alone)).json();
        return found.status;
      })
      .toBe('completed');
    await stopGateway(again);
    await expectAllRecorded(load);
  }, 60_000);

  it('finish their open requests before the service ends with code 0', async () => {
    const gateway = await start(2);
    const answers = [];
    for (let n = 0; n < 2; n++) {
      provider.control.next({ holdAfterChunks: 3 }, { path: chat });
      answers.push(await ask(gateway.url, chat, { json: { ...question('held'), stream: true } }));
    }
    await expect.poll(() => provider.requests.filter(({ framesSent }) => framesSent === 3)).toHaveLength(2);
    gateway.process.kill('SIGTERM');
    await expect
      .poll(() =>
        ask(gateway.url, '/v1/models', alone).then(
          () => 'answered',
          () => 'refused',
        ),
      )
      .toBe('refused');
    provider.control.release();
    for (const answer of answers) expect(await answer.text()).toContain('data: [DONE]');
    expect(await gateway.process.exited).toEqual({ code: 0, signal: null });
    const events = await eventsIn(dataDir);
    const leases = (wanted: string) => events.filter(({ type }) => type === wanted);
    expect(new Set((await pids()).values()).size).toBe(2);
    expect(leases(leaseGranted.type)).toHaveLength(2);
    expect(leases(leaseEnded.type).map(({ data }) => leaseEnded.data.parse(data).reason)).toEqual([
      'stopped',
      'stopped',
    ]);
    expect(leases('gateway.stopped').map(({ data }) => data)).toMatchObject([
      { reason: 'SIGTERM', cutExchanges: 0 },
      { reason: 'SIGTERM', cutExchanges: 0 },
    ]);
  }, 60_000);

  it('use the folder of one process, and it uses theirs; a deactivated key works at none', async () => {
    let gateway = await start(1);
    const key: Answered = await (await ask(gateway.url, '/admin/auth-keys', { json: { name: 'k' } })).json();
    const use = async () => (await ask(gateway.url, chat, { json: question('x'), key: key.value, ...alone })).status;
    const json = { model: 'llamacpp/m', input: 'remember' };
    const { id }: Answered = await (await ask(gateway.url, '/v1/responses', { json })).json();
    await stopGateway(gateway);

    gateway = await start(2);
    expect(await Promise.all(Array.from({ length: 6 }, use))).toEqual(Array(6).fill(200));
    expect((await ask(gateway.url, `/v1/responses/${id}`, alone)).status).toBe(200);
    const off = await ask(gateway.url, `/admin/auth-keys/${key.id}/deactivate`, { method: 'POST', ...alone });
    expect(off.ok).toBe(true);
    expect(await Promise.all(Array.from({ length: 20 }, use))).toEqual(Array(20).fill(401));
    expect(new Set((await pids()).values()).size).toBe(3);
    await stopGateway(gateway);

    gateway = await start(1);
    expect(await use()).toBe(401);
    expect((await ask(gateway.url, `/v1/responses/${id}`)).status).toBe(200);
    await stopGateway(gateway);
    const reasons = (await eventsIn(dataDir)).filter(({ type }) => type === leaseEnded.type);
    expect(reasons).toHaveLength(4);
  }, 60_000);

  it('are counted by /health/ready from the first request on', async () => {
    const gateway = await start(2);
    const first = await ask(gateway.url, '/health/ready', alone);
    expect([first.status, await first.json()]).toMatchObject([
      200,
      { status: 'ready', workers: { configured: 2, running: 2 } },
    ]);
    await stopGateway(gateway);
  }, 60_000);

  it('do not start on a data folder in use: the process ends with the reason, and the first service goes on', async () => {
    const gateway = await start(2);
    const second = startProcess({ env: { DATA_DIR: dataDir, GATEWAY_WORKERS: '2' } });
    expect(await second.exited).toEqual({ code: 1, signal: null });
    expect(second.stderr).toMatch(/^The gateway could not start: [^\n]* already open for writing [^\n]*\n$/);
    expect(await readiness(gateway)).toMatchObject({ status: 'ready' });
    await stopGateway(gateway);
  }, 60_000);

  it.each([
    ['file', (path: string) => writeFileSync(path, 'kept')],
    ['folder', (path: string) => mkdirSync(path)],
  ])(
    'do not start with a %s at the path of their socket: one line names it, and it is kept',
    async (_, make) => {
      dataDir = join(folder.path, `${tests}`);
      mkdirSync(dataDir);
      const socketPath = join(dataDir, 'workers.sock');
      make(socketPath);
      const service = startProcess({ env: { DATA_DIR: dataDir, GATEWAY_WORKERS: '2' } });
      expect(await service.exited).toEqual({ code: 1, signal: null });
      expect(service.stderr).toBe(`The gateway could not start: ${socketPath} exists and is no socket; move it away\n`);
      expect(existsSync(socketPath)).toBe(true);
    },
    60_000,
  );

  it('that cannot start end the service with the reason', async () => {
    const PLUGINS = JSON.stringify([{ path: '/nowhere/plugin.ts', required: true }]);
    await expect(start(2, { PLUGINS, PLUGINS_ENABLED: 'true' })).rejects.toThrow(
      /^the gateway ended \(1\) before it listened:\nThe gateway could not start: .*nowhere[^\n]*\n$/,
    );
  }, 60_000);
});

describe('a reload of a service with workers', () => {
  const sentKeys = () =>
    provider.requests.filter(({ path }) => path === chat).map(({ headers }) => String(headers.authorization));

  it('is in force in all of them, on SIGHUP and on request, also in one that replaces another', async () => {
    const settings = join(folder.path, `${tests}.yaml`);
    const write = (key: string, more = '') =>
      writeFileSync(settings, `providers: { p: { type: vllm, base_url: "${upstream}", api_key: ${key} } }\n${more}`);
    write('first');
    const gateway = await start(3, { CHANCERY_CONFIG: settings });
    const ofAll = async () => {
      const before = sentKeys().length;
      const json = { model: 'p/m', messages: question('hello').messages };
      for (let n = 0; n < 6; n++) expect((await ask(gateway.url, chat, { json, ...alone })).status).toBe(200);
      return new Set(sentKeys().slice(before));
    };
    expect(await ofAll()).toEqual(new Set(['Bearer first']));

    write('second');
    const reloaded = await ask(gateway.url, '/admin/runtime/reload', { method: 'POST' });
    expect(await reloaded.json()).toEqual({
      changed: [{ setting: 'providers.p.api_key', secret: true }],
      needs_restart: [],
    });
    expect(await ofAll()).toEqual(new Set(['Bearer second']));

    write('third', 'server: { max_body_memory: 32M }\n');
    gateway.process.kill('SIGHUP');
    await vi.waitUntil(() => gateway.process.stderr.includes('change at the next start'), { timeout: 10_000 });
    expect(gateway.process.stderr).toContain('these settings change at the next start: server.max_body_memory');
    expect(await ofAll()).toEqual(new Set(['Bearer third']));

    write('[', '');
    gateway.process.kill('SIGHUP');
    await vi.waitUntil(() => gateway.process.stderr.includes('nothing has changed'), { timeout: 10_000 });
    const [pid = 0] = (await pids()).values();
    process.kill(pid, 'SIGKILL');
    await vi.waitUntil(async () => (await pids()).size === 4, { timeout: 20_000 });
    await vi.waitUntil(
      async () => ((await (await ask(gateway.url, '/health/ready')).json()) as Answered).workers.running === 3,
      { timeout: 20_000 },
    );
    expect(await ofAll()).toEqual(new Set(['Bearer third']));

    const reloads = (await eventsIn(dataDir)).filter(({ type }) => type === configurationReloaded.type);
    expect(reloads.map(({ data }) => configurationReloaded.data.parse(data).origin)).toEqual(['request', 'signal']);
    await stopGateway(gateway);
  }, 90_000);
});
