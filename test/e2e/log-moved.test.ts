/** The folder of a log in files is moved away from a gateway that runs, as by a failed mount or by mistake. */
import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { someOf } from '../support/seed.ts';
import { ask, killAll, serve, temporaryFolder } from './gateway-process.ts';

const folder = temporaryFolder();
const provider = createSimulatedProvider();
let upstream = '';
beforeAll(async () => {
  upstream = await provider.listen();
});
afterAll(async () => {
  killAll();
  await provider.close();
  folder.remove();
});

describe.each(someOf(['1', '2']))('a gateway whose log is moved away, with %s workers', (workers) => {
  it('answers 503 without a call of a provider, is not ready, and has everything once the log is back', async () => {
    const dataDir = join(folder.path, `workers-${workers}`);
    const env = { LLAMACPP_BASE_URL: upstream, LOG_LEVEL: 'error', GATEWAY_WORKERS: workers };
    const gateway = await serve({ dataDir, env });
    const create = (url: string) =>
      ask(url, '/v1/responses', { json: { model: 'llamacpp/simulated-small', input: 'Hello' } });
    const { id } = JSON.parse(await (await create(gateway.url)).text());

    renameSync(join(dataDir, 'log'), join(dataDir, 'elsewhere'));
    const readiness = async () => {
      const ready = await fetch(`${gateway.url}/health/ready`);
      return [ready.status, await ready.json()];
    };
    // Before any request has noticed it.
    await expect
      .poll(readiness, { timeout: 5_000 })
      .toMatchObject([503, { status: 'not_ready', components: { storage: 'down' } }]);
    const calls = provider.requests.filter(({ method }) => method === 'POST').length;
    for (let request = 0; request < 3; request++) {
      const answer = await create(gateway.url);
      expect([answer.status, await answer.json()]).toMatchObject([503, { error: { code: 'log_unavailable' } }]);
    }
    expect((await ask(gateway.url, '/admin/auth-keys', { json: { name: 'late' } })).status).toBe(503);
    expect(provider.requests.filter(({ method }) => method === 'POST').length).toBe(calls);

    gateway.process.kill('SIGTERM');
    // What it has acknowledged is not at the place that its settings name.
    expect((await gateway.process.exited).code, gateway.process.stderr).toBe(1);
    expect(gateway.process.stderr).toContain('is no longer in');
    expect(gateway.process.stderr).not.toContain('All acknowledged events are recorded');
    renameSync(join(dataDir, 'elsewhere'), join(dataDir, 'log'));
    const again = await serve({ dataDir, env });
    expect((await ask(again.url, `/v1/responses/${id}`)).status).toBe(200);
  });
});
