/** Two gateways with one ClickHouse server: one writes, and the other takes over, also while the first one still writes. */
import { join } from 'node:path';
import { ClickHouseLogLevel, createClient } from '@clickhouse/client';
import { afterAll, describe, expect, it } from 'vitest';
import { hasChdb, startEmbedded } from '../analytics/embedded.ts';
import { startEventStore } from '../support/start-eventstore.ts';
import { ask, killAll, type ServedGateway, serve, temporaryFolder } from './gateway-process.ts';

const folder = temporaryFolder();
afterAll(() => {
  killAll();
  folder.remove();
});

const patience = { timeout: 40_000, interval: 100 };

/** Printed when its analytics process has begun to write. */
const writes = ({ process }: ServedGateway) => process.stdout.split('Analytics: ClickHouse at').length - 1;

async function send({ url }: ServedGateway, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const json = { model: 'demo/simulated-small', messages: [{ role: 'user', content: `Hello ${n}` }] };
    const answer = await ask(url, '/v1/chat/completions', { json });
    expect(answer.status).toBe(200);
    await answer.text();
  }
}

describe.skipIf(!hasChdb)('gateways that share a ClickHouse server', () => {
  it('store each row once, when the writer is paused, goes on beside its heir, and when that is killed', async () => {
    const store = await startEventStore();
    const server = await startEmbedded({ databases: ['chancery'] });
    const client = createClient({
      ...{ url: server.url, username: 'projector', password: 'writes', log: { level: ClickHouseLogLevel.OFF } },
    });
    const figures = async () => {
      const query = `SELECT count() AS rows, uniqExact(position) AS different FROM chancery.exchanges`;
      const rows = await client.query({ query, format: 'JSONEachRow' });
      const [row] = await rows.json<{ rows: string; different: string }>();
      return [Number(row?.rows), Number(row?.different)];
    };
    const env = {
      LOG_URL: store.url(`handover-${process.pid}`),
      LOG_LEASE: '1500ms',
      ANALYTICS_ENABLED: 'true',
      CLICKHOUSE_URL: server.url,
      CLICKHOUSE_USER: 'projector',
      CLICKHOUSE_PASSWORD: 'writes',
      DRAIN_TIMEOUT: '0s',
    };
    const first = await serve({ dataDir: join(folder.path, 'a'), env });
    await send(first, 1);
    await expect.poll(() => writes(first), patience).toBe(1);
    const second = await serve({ dataDir: join(folder.path, 'b'), env });
    await send(first, 2);
    await send(second, 3);
    await expect.poll(figures, patience).toEqual([6, 6]);
    expect(writes(second)).toBe(0);

    // Its analytics process goes on.
    first.process.kill('SIGSTOP');
    await expect.poll(() => writes(second), patience).toBe(1);
    await send(second, 3);
    await expect.poll(figures, patience).toEqual([9, 9]);
    first.process.kill('SIGCONT');
    await expect
      .poll(
        () =>
          send(first, 1).then(
            () => true,
            () => false,
          ),
        patience,
      )
      .toBe(true);
    await expect.poll(figures, patience).toEqual([10, 10]);

    second.process.kill('SIGKILL');
    await expect.poll(() => writes(first), patience).toBe(2);
    await send(first, 2);
    await expect.poll(figures, patience).toEqual([12, 12]);
    const events = await client.query({
      query: 'SELECT count() - uniqExact(position) AS twice FROM chancery.events',
      format: 'JSONEachRow',
    });
    expect(Number((await events.json<{ twice: string }>())[0]?.twice)).toBe(0);
    first.process.kill('SIGTERM');
    expect((await first.process.exited).code, first.process.stderr).toBe(0);
    await client.close();
    await server.close();
    await store.stop();
  }, 150_000);
});
