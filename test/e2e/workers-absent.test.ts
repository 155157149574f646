/** A service whose workers are all gone, or that cannot be reached by new ones. */
import { renameSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { gatewayStarted } from '../../src/events/catalogue/gateway.ts';
import { ask, killAll, type ServedGateway, serve, temporaryFolder } from './gateway-process.ts';
import { eventsIn } from './recorded-events.ts';

const folder = temporaryFolder();
const provider = createSimulatedProvider();
let upstream = '';
let dataDir = '';
let tests = 0;

beforeAll(async () => {
  upstream = await provider.listen();
});
afterEach(() => {
  killAll();
  tests += 1;
});
afterAll(async () => {
  killAll();
  await provider.close();
  folder.remove();
});

function start(): Promise<ServedGateway> {
  dataDir = join(folder.path, String(tests));
  return serve({ dataDir, env: { LLAMACPP_BASE_URL: upstream, GATEWAY_WORKERS: '2', LOG_FORMAT: 'json' } });
}

/** The process of the worker that has started last, or of the one before. */
async function pid(fromLast: 1 | 2): Promise<number> {
  const started = (await eventsIn(dataDir)).filter(({ type }) => type === gatewayStarted.type);
  return gatewayStarted.data.parse(started.at(-fromLast)?.data).pid;
}

const alone = { headers: { connection: 'close' } };
/** No answer takes longer than this. */
const LIMIT_MS = 3_000;

async function get(url: string, path: string): Promise<{ status: number; body: unknown } | 'closed'> {
  try {
    const answer = await ask(url, path, { ...alone, signal: AbortSignal.timeout(LIMIT_MS) });
    return { status: answer.status, body: await answer.json() };
  } catch (error) {
    // A connection that was passed to a worker that ends.
    if (error instanceof Error && error.name !== 'TimeoutError') return 'closed';
    throw error;
  }
}

const untilReady = ({ url }: ServedGateway) =>
  expect
    .poll(() => get(url, '/health/ready'), { timeout: 40_000, interval: 50 })
    .toMatchObject({ status: 200, body: { status: 'ready', workers: { configured: 2, running: 2 } } });

describe('a service whose workers have all ended', () => {
  it('answers at once: /health with 200, readiness and requests with 503 not_ready, until a worker serves', async () => {
    const gateway = await start();
    const { url } = gateway;
    for (const victim of [await pid(1), await pid(2)]) process.kill(victim, 'SIGKILL');
    await expect
      .poll(() => get(url, '/health/ready'), { timeout: 10_000, interval: 5 })
      .toEqual({
        status: 503,
        body: {
          status: 'not_ready',
          components: { storage: 'ok' },
          workers: { configured: 2, running: 0, reason: 'no worker serves requests' },
        },
      });
    const [alive, refused] = await Promise.all([
      get(url, '/health'),
      ask(url, '/v1/responses', { json: { model: 'llamacpp/simulated-small', input: 'x' }, ...alone }),
    ]);
    expect(alive).toEqual({ status: 200, body: { status: 'ok' } });
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
    expect(await refused.json()).toMatchObject({ error: { code: 'not_ready' } });
    await untilReady(gateway);
  }, 60_000);

  it('keeps no connection waiting while they hang', async () => {
    const { url } = await start();
    const workers = [await pid(1), await pid(2)];
    for (const worker of workers) process.kill(worker, 'SIGSTOP');
    // Each worker has one connection that it has not confirmed.
    const stuck = [get(url, '/health'), get(url, '/health')];
    for (const one of stuck) await expect(one).rejects.toThrow();
    const health = await ask(url, '/health', { ...alone, signal: AbortSignal.timeout(8_000) });
    expect([health.status, await health.json()]).toEqual([200, { status: 'ok' }]);
    for (const worker of workers) process.kill(worker, 'SIGCONT');
  }, 60_000);
});

describe('the socket of the workers', () => {
  it.each([
    ['removed', (path: string) => unlinkSync(path)],
    ['moved away', (path: string) => renameSync(path, `${path}.old`)],
  ])(
    'is made again when it is %s: a worker that ends is replaced',
    async (_, harm) => {
      const gateway = await start();
      harm(join(dataDir, 'workers.sock'));
      process.kill(await pid(1), 'SIGKILL');
      const { process: service } = gateway;
      for (const line of ['is replaced', 'workers.sock was removed or replaced, and is made again'])
        await expect.poll(() => service.stderr, { timeout: 10_000 }).toContain(line);
      await untilReady(gateway);
      gateway.process.kill('SIGTERM');
      expect((await gateway.process.exited).code, gateway.process.stderr).toBe(0);
    },
    60_000,
  );

  it('is not made again over a file at its path: readiness and the log name it until it is moved away', async () => {
    const gateway = await start();
    const path = join(dataDir, 'workers.sock');
    unlinkSync(path);
    writeFileSync(path, 'kept');
    const reason = `${path} exists and is no socket; move it away`;
    await expect
      .poll(() => get(gateway.url, '/health/ready'), { timeout: 10_000 })
      .toMatchObject({ status: 200, body: { status: 'degraded', workers: { configured: 2, running: 2, reason } } });
    expect(gateway.process.stderr).toContain(reason);
    process.kill(await pid(1), 'SIGKILL');
    await expect
      .poll(() => get(gateway.url, '/health/ready'), { timeout: 10_000 })
      .toMatchObject({ body: { status: 'degraded', workers: { running: 1, reason } } });
    renameSync(path, `${path}.foreign`);
    await untilReady(gateway);
  }, 60_000);
});
