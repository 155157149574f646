import { afterAll, describe, expect, test } from 'vitest';
import { hasChdb } from '../analytics/embedded.ts';
import { ask, killAll, serve, temporaryFolder } from './gateway-process.ts';

const folder = temporaryFolder();
afterAll(() => {
  killAll();
  folder.remove();
});

const patience = { timeout: 30_000, interval: 100 };

describe.skipIf(!hasChdb)('usage reports', () => {
  test('wait for analytics to start, and include a request soon after it', { timeout: 90_000 }, async () => {
    const env = { ANALYTICS_ENABLED: 'true', ANALYTICS_HTTP_PORT: '0' };
    const gateway = await serve({ dataDir: folder.path, env });
    const summary = async () => {
      const answer = await ask(gateway.url, '/admin/usage/summary');
      expect(answer.status).toBe(200);
      return answer.json();
    };
    expect(await summary()).toMatchObject({ total_requests: 0 });
    const json = { model: 'demo/simulated-small', messages: [{ role: 'user', content: 'Hello!' }] };
    const answer = await ask(gateway.url, '/v1/chat/completions', { json });
    await answer.text();
    await expect.poll(summary, patience).toMatchObject({ total_requests: 1 });
    const own = await ask(gateway.url, '/v1/usage');
    expect(await own.json()).toMatchObject({ object: 'usage', user_path: '/' });
    gateway.process.kill('SIGTERM');
    expect((await gateway.process.exited).code).toBe(0);
  });
});
