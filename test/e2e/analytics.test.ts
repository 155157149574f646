import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { ClickHouseLogLevel, createClient } from '@clickhouse/client';
import { afterAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { AnalyticsJob } from '../../src/analytics/messages.ts';
import { hasChdb, startEmbedded } from '../analytics/embedded.ts';
import { main } from '../support/main-program.ts';
import { ask, killAll, root, type ServedGateway, serve, startProcess, temporaryFolder } from './gateway-process.ts';

const folder = temporaryFolder();
afterAll(() => {
  killAll();
  folder.remove();
});

const patience = { timeout: 30_000, interval: 100 };
const withAnalytics = { ANALYTICS_ENABLED: 'true', ANALYTICS_HTTP_PORT: '0' };

function addressIn({ process }: ServedGateway): string | undefined {
  return [...process.stdout.matchAll(/Analytics: ClickHouse at (\S+), database chancery\./g)].at(-1)?.[1];
}

async function send({ url }: ServedGateway): Promise<void> {
  const json = { model: 'demo/simulated-small', messages: [{ role: 'user', content: 'Hello!' }] };
  const answer = await ask(url, '/v1/chat/completions', { json });
  expect(answer.status).toBe(200);
  await answer.text();
}

/** Without the state of an engine of the log (`npm run test:engine`). */
async function readiness({ url }: ServedGateway): Promise<unknown> {
  const { log_engine: _, ...ready } = z.looseObject({}).parse(await (await fetch(`${url}/health/ready`)).json());
  return ready;
}

describe.skipIf(!hasChdb)('analytics as a process of the gateway', () => {
  test('starts with the gateway, answers SQL, restarts after a crash, and stops with the gateway', {
    timeout: 120_000,
  }, async () => {
    const dataDir = join(folder.path, 'supervised');
    const gateway = await serve({ dataDir, env: withAnalytics });
    await send(gateway);
    await expect.poll(() => addressIn(gateway), patience).toBeDefined();
    await expect
      .poll(() => readiness(gateway), patience)
      .toEqual({
        status: 'ready',
        components: { storage: 'ok', stream_index: 'ok', analytics: 'ok' },
      });

    const passwords = join(dataDir, 'clickhouse-passwords.json');
    expect(statSync(passwords).mode & 0o777).toBe(0o600);
    const { analyst }: { analyst: string } = JSON.parse(readFileSync(passwords, 'utf8'));
    async function requests(): Promise<number> {
      const client = createClient({
        url: addressIn(gateway),
        username: 'analyst',
        password: analyst,
        log: { level: ClickHouseLogLevel.OFF },
      });
      try {
        const result = await client.query({
          query: 'SELECT count() AS n FROM chancery.exchanges',
          format: 'JSONEachRow',
        });
        return Number((await result.json<{ n: number | string }>())[0]?.n);
      } catch {
        return -1;
      } finally {
        await client.close();
      }
    }
    await expect.poll(requests, patience).toBe(1);

    const log = await ask(gateway.url, '/admin/audit/log');
    expect(await log.json()).toMatchObject({ total: 1, entries: [{ status_code: 200, provider_name: 'demo' }] });
    const query = 'SELECT count() AS requests FROM exchanges';
    const answer = await ask(gateway.url, '/admin/sql', { json: { query, format: 'JSONEachRow' } });
    expect({ status: answer.status, text: await answer.text() }).toMatchObject({
      status: 200,
      text: expect.stringMatching(/"requests":"?1/),
    });

    const byPort = "SELECT 'by its own interface'";
    const headers = { authorization: `Basic ${Buffer.from(`analyst:${analyst}`).toString('base64')}` };
    const direct = await fetch(addressIn(gateway) ?? '', { method: 'POST', headers, body: byPort });
    expect([direct.status, await direct.text()]).toEqual([200, 'by its own interface\n']);
    const reads = z.object({
      entries: z.array(
        z.object({ actor: z.string(), after: z.looseObject({ filter: z.looseObject({ query: z.string() }) }) }),
      ),
    });
    const history = await ask(gateway.url, '/admin/history?subject=audit:reads&limit=200');
    const { entries } = reads.parse(await history.json());
    const readsOf = (text: string) =>
      entries.filter(({ after }) => after.filter.query === text).map(({ actor, after }) => ({ actor, ...after }));
    expect(readsOf(byPort)).toEqual([
      { actor: 'system', what: 'sql', filter: { query: byPort }, clickhouse_user: 'analyst' },
    ]);
    expect(readsOf(query)).toEqual([{ actor: 'master', what: 'sql', filter: { query, format: 'JSONEachRow' } }]);

    const pid = analyticsPid(gateway);
    process.kill(pid, 'SIGKILL');
    await send(gateway);
    await expect.poll(() => analyticsPid(gateway), patience).not.toBe(pid);
    await expect.poll(requests, patience).toBe(2);
    await expect.poll(() => lagOf(gateway), patience).toBe(0);

    const last = analyticsPid(gateway);
    gateway.process.kill('SIGTERM');
    expect((await gateway.process.exited).code).toBe(0);
    expect(() => process.kill(last, 0)).toThrow(/ESRCH/);
  });

  test('ends when the gateway is killed', { timeout: 60_000 }, async () => {
    const gateway = await serve({ dataDir: join(folder.path, 'killed'), env: withAnalytics });
    await expect.poll(() => addressIn(gateway), patience).toBeDefined();
    const pid = analyticsPid(gateway);
    gateway.process.kill('SIGKILL');
    await gateway.process.exited;
    await expect.poll(() => isAlive(pid), patience).toBe(false);
  });

  test('a second one on the same folder is refused', { timeout: 60_000 }, async () => {
    const dataDir = join(folder.path, 'two');
    const gateway = await serve({ dataDir, env: withAnalytics });
    await expect.poll(() => addressIn(gateway), patience).toBeDefined();
    const second = startProcess({
      command: [process.execPath, main, 'analytics'],
      env: { DATA_DIR: dataDir, ...withAnalytics },
    });
    expect((await second.exited).code).not.toBe(0);
    expect(second.stderr).toMatch(/another analytics process runs on/);
    gateway.process.kill('SIGTERM');
    expect((await gateway.process.exited).code).toBe(0);
  });
});

describe('analytics with a server', () => {
  test('the gateway serves while the server is down, and reports it', { timeout: 60_000 }, async () => {
    const server = createServer((_request, reply) =>
      reply.writeHead(500).end('Code: 1. DB::Exception: broken. (BROKEN_THING)'),
    );
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    const env = { ...withAnalytics, CLICKHOUSE_URL: `http://127.0.0.1:${port}`, CLICKHOUSE_PASSWORD: 'x' };
    const gateway = await serve({ dataDir: join(folder.path, 'server'), env });
    await expect
      .poll(() => readiness(gateway), patience)
      .toEqual({
        status: 'degraded',
        components: { storage: 'ok', stream_index: 'ok', analytics: 'down' },
      });
    expect((await fetch(`${gateway.url}/health/ready`)).status).toBe(200);
    await send(gateway);
    await expect.poll(() => lagOf(gateway), patience).toBeGreaterThan(5);
    gateway.process.kill('SIGTERM');
    expect((await gateway.process.exited).code).toBe(0);
    server.close();
  });

  test.skipIf(!hasChdb)('everything goes to the server that CLICKHOUSE_URL names', { timeout: 60_000 }, async () => {
    const elsewhere = await startEmbedded();
    const dataDir = join(folder.path, 'elsewhere');
    const user = { CLICKHOUSE_USER: 'projector', CLICKHOUSE_PASSWORD: 'writes', CLICKHOUSE_DATABASE: 'gw' };
    const gateway = await serve({ dataDir, env: { ...withAnalytics, ...user, CLICKHOUSE_URL: elsewhere.url } });
    await send(gateway);
    const client = elsewhere.clientOf('analyst');
    const stored = async () => {
      const query = "SELECT count() FROM system.tables WHERE database = 'gw' AND name = 'exchanges'";
      const made = await (await client.query({ query, format: 'TabSeparated' })).text();
      if (made !== '1\n') return 'no table';
      return (await client.query({ query: 'SELECT count() FROM gw.exchanges', format: 'TabSeparated' })).text();
    };
    await expect.poll(stored, patience).toBe('1\n');
    expect(existsSync(join(dataDir, 'clickhouse-passwords.json'))).toBe(false);
    gateway.process.kill('SIGTERM');
    expect((await gateway.process.exited).code).toBe(0);
    await elsewhere.close();
  });

  const without = `import { registerHooks } from 'node:module';
    registerHooks({ resolve: (name, context, next) => {
      if (name === 'chdb') throw new Error('no chDB on this machine');
      return next(name, context);
    } });`;
  const withoutChdb = ['--import', `data:text/javascript,${encodeURIComponent(without)}`];

  test('is off with a notice where chDB is not installed', async () => {
    const analytics = startProcess({
      command: [process.execPath, ...withoutChdb, main, 'analytics'],
      env: { DATA_DIR: join(folder.path, 'without'), ...withAnalytics },
    });
    expect((await analytics.exited).code).toBe(78);
    expect(analytics.stdout).toMatch(/^Analytics is off: chDB is not installed here/);
  });

  test('ends permanently with a reason where chDB cannot be loaded', async () => {
    const socket = createServer().listen(0, '127.0.0.1');
    await once(socket, 'listening');
    const worker = fork(join(root, 'src/analytics/worker.ts'), { execArgv: withoutChdb, silent: true });
    let complaint = '';
    worker.stderr?.setEncoding('utf8').on('data', (text: string) => {
      complaint += text;
    });
    const data = join(folder.path, 'unloadable');
    mkdirSync(data);
    const job: AnalyticsJob = {
      type: 'job',
      logUrl: `file:${join(data, 'log')}`,
      folder: data,
      database: 'chancery',
      retention: { audit: 0, usage: 0 },
      diagnostics: { level: 'info', format: 'json' },
      clickhouse: { kind: 'embedded', passwords: { gateway: 'one', analyst: 'another', administrator: 'third' } },
    };
    const closed = once(worker, 'close');
    worker.send(job, socket, {}, () => socket.close());
    expect((await closed)[0]).toBe(78);
    expect(complaint).toBe('Analytics is off: chDB could not be loaded: no chDB on this machine\n');
  });

  test('is off with ANALYTICS_ENABLED=false', async () => {
    const gateway = await serve({ dataDir: join(folder.path, 'off'), env: { ANALYTICS_ENABLED: 'false' } });
    expect(await readiness(gateway)).toEqual({ status: 'ready', components: { storage: 'ok', stream_index: 'ok' } });
    expect(await lagOf(gateway)).toBeUndefined();
    gateway.process.kill('SIGTERM');
    expect((await gateway.process.exited).code).toBe(0);
    expect(gateway.process.stdout).not.toMatch(/Analytics/);
  });
});

async function lagOf({ url }: ServedGateway): Promise<number | undefined> {
  const text = await (await ask(url, '/metrics')).text();
  const lag = /^gateway_projection_lag_events\{projection="analytics"\} (\d+)$/m.exec(text)?.[1];
  return lag === undefined ? undefined : Number(lag);
}

/** The child of the gateway's process; 0 while there is none. */
function analyticsPid({ process: { pid } }: ServedGateway): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
  return Number(children[0] ?? 0);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
