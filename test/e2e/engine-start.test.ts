/** The start of a gateway whose log is on an engine that cannot be reached. */
import { createServer } from 'node:net';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { startStandIn } from '../support/start-eventstore.ts';
import { json } from '../support/with-gateway.ts';
import { ask, type GatewayProcess, killAll, MASTER_KEY, startProcess, temporaryFolder } from './gateway-process.ts';

const folder = temporaryFolder();
afterAll(() => {
  killAll();
  folder.remove();
});

/** A port on which nothing listens. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('it has no port');
  return address.port;
}

/** Where the gateway answers before its log is open. */
async function earlyUrl(gateway: GatewayProcess): Promise<string> {
  const port = () => /answers on port (\d+) with 503/.exec(gateway.stderr)?.[1];
  await expect.poll(port, { timeout: 10_000 }).toBeDefined();
  return `http://127.0.0.1:${port()}`;
}

describe('a start while Kafka cannot be reached', () => {
  it('states the reason without the password, waits, and ends at SIGTERM with code 0', async () => {
    const gateway = startProcess({
      env: {
        DATA_DIR: folder.path,
        GATEWAY_MASTER_KEY: 'key',
        HOST: 'localhost',
        LOG_URL: `kafka://user:hidden-password@127.0.0.1:${await freePort()}/log`,
      },
    });
    await expect.poll(() => gateway.stderr).toMatch(/the log is not open yet: kafka: .*ECONNREFUSED/);
    const ready = await fetch(`${await earlyUrl(gateway)}/health/ready`);
    expect([ready.status, await json(ready)]).toMatchObject([503, { starting: { reason: 'engine unreachable' } }]);
    gateway.kill('SIGTERM');
    expect(await gateway.exited).toEqual({ code: 0, signal: null });
    expect(gateway.stderr).toContain('stopped before the log was open: SIGTERM');
    expect(gateway.stdout + gateway.stderr).not.toContain('hidden-password');
  });
});

describe('a start while EventStoreDB (stand-in) cannot be reached', () => {
  it('answers with 503 until the log is open, then serves on the same port without refusing a connection', async () => {
    const engine = await startStandIn();
    onTestFinished(() => engine.stop());
    await engine.kill();
    const other = temporaryFolder();
    onTestFinished(() => other.remove());
    const env = { DATA_DIR: other.path, GATEWAY_MASTER_KEY: MASTER_KEY, LOG_URL: engine.url('log') };
    const gateway = startProcess({ env });
    onTestFinished(() => gateway.kill('SIGKILL'));
    const url = await earlyUrl(gateway);
    const refused = await ask(url, '/v1/models');
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
    expect(await json(refused)).toMatchObject({ error: { code: 'log_unavailable' } });
    expect((await fetch(`${url}/health`)).status).toBe(200);

    const statuses: number[] = [];
    const failures: unknown[] = [];
    let isOver = false;
    const asking = (async () => {
      while (!isOver) {
        await ask(url, '/v1/models').then(
          (answer) => answer.text().then(() => statuses.push(answer.status)),
          (error: unknown) => failures.push(error),
        );
      }
    })();
    await engine.restart();
    expect(await gateway.listening).toBe(url);
    await expect.poll(() => statuses.at(-1)).toBe(200);
    isOver = true;
    await asking;
    expect(failures).toEqual([]);
    expect(new Set(statuses)).toEqual(new Set([503, 200]));
    const ready = await fetch(`${url}/health/ready`);
    expect([ready.status, await json(ready)]).toMatchObject([
      200,
      { log_engine: { name: 'eventstore', connected: true } },
    ]);
    expect(gateway.stdout).toContain('(acknowledged by the engine and read back before an answer ends)');
    gateway.kill('SIGTERM');
    expect(await gateway.exited).toEqual({ code: 0, signal: null });
  }, 60_000);
});
