/** What hits of the response cache cost and save: in the record, in budgets, in reports, in SQL, live and in metrics. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parsePosition } from '../../src/events/event.ts';
import { openLog } from '../../src/events/open-log.ts';
import { createBatchStore } from '../../src/projections/analytics/batch-store.ts';
import { type Projector, startProjector } from '../../src/projections/analytics/projector.ts';
import { type Embedded, hasChdb, startEmbedded } from '../analytics/embedded.ts';
import type { Answered } from '../support/answered.ts';
import { MASTER_KEY, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { newKey } from '../support/managed-keys.ts';
import { eventsOfExchange, eventsUntil, exchangeOf, json, modelsListed, user } from '../support/with-gateway.ts';
import { type LiveListener, listen } from './live-listener.ts';

const model = 'llamacpp/simulated-small';

describe.skipIf(!hasChdb)('hits of the response cache', () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'chancery-cache-'));
  const logUrl = `file:${join(dataDir, 'log')}`;
  let embedded: Embedded;
  let gateway: TestGateway;
  let projector: Projector;
  let log: Awaited<ReturnType<typeof openLog>>;
  let first: string;
  let hits: string[];
  let live: LiveListener;

  beforeAll(async () => {
    embedded = await startEmbedded();
    const address = () => ({ url: embedded.url, username: 'gateway', password: 'asks', database: 'chancery' });
    const analytics = { address, status: () => ({ health: 'ok' as const, lagEvents: 0 }) };
    gateway = await startTestGateway({ dataDir, analytics, env: { RESPONSE_CACHE_ENABLED: 'true' } });
    await modelsListed(gateway);
    const put = async (path: string, body: object) =>
      expect((await gateway.fetch(path, { method: 'PUT', json: body })).status).toBe(200);
    await put('/admin/model-pricing-overrides', { selector: model, pricing: { per_request: 1.5 } });
    await put('/admin/budgets/%2Fteam/daily', { amount: 2 });
    await put('/admin/rate-limits', { user_path: '/team', limit_key: { period: 'hour' }, max_requests: 1 });
    const key = await newKey(gateway, { user_path: '/team' });
    live = await listen(gateway.url, {}, { authorization: `Bearer ${MASTER_KEY}` });
    const ids: string[] = [];
    for (const stream of [false, false, false]) {
      const body = { model, messages: user('How much is it?'), stream };
      const answer = await key.fetch('/v1/chat/completions', { json: body });
      expect(answer.status, await answer.clone().text()).toBe(200);
      await answer.text();
      ids.push(exchangeOf(answer));
    }
    first = ids[0] ?? '';
    hits = ids.slice(1);
    log = await openLog(logUrl, { readOnly: true });
    const store = createBatchStore(embedded.clientOf('projector'), 'chancery');
    projector = startProjector({ log, store, retention: { audit: 0, usage: 0 }, liveMs: 1 });
    await eventsOfExchange(gateway, hits[1] ?? '');
    await projector.whenStored(parsePosition(await log.head()));
  }, 60_000);
  afterAll(async () => {
    live?.leave();
    await projector?.close();
    await log?.close();
    await gateway?.close();
    await embedded?.close();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });

  const get = async (path: string): Promise<Answered> => json(await gateway.fetch(path));
  const sql = async (query: string) =>
    (await embedded.clientOf('projector').query({ query, format: 'JSONEachRow' })).json<Answered>();

  test('cost nothing on the record, which has what they saved', async () => {
    const usageOf = async (id: string) =>
      (await eventsUntil(gateway, `stream=exchange-${id}`, ({ type }) => type === 'usage.recorded')).at(-1)?.data;
    const original = await usageOf(first);
    expect(original).toMatchObject({ totalCost: '1500000000' });
    for (const id of hits) {
      expect(await usageOf(id)).toMatchObject({
        ...{ cacheType: 'exact', totalCost: '0', inputCost: '0', outputCost: '0', savedCost: '1500000000' },
        inputTokens: original?.inputTokens,
      });
    }
  });

  test('count against no budget and no rate limit', async () => {
    const { budgets } = await get('/admin/budgets');
    expect(budgets).toMatchObject([{ spent: 1.5 }]);
  });

  test('are in usage reports as saved, and not as spent', async () => {
    for (const mode of ['uncached', 'all']) {
      expect(await get(`/admin/usage/summary?cache_mode=${mode}`)).toMatchObject({ total_cost: 1.5 });
    }
    expect(await get('/admin/usage/summary?cache_mode=all')).toMatchObject({ total_requests: 3 });
    const cached = await get('/admin/usage/summary?cache_mode=cached');
    expect(cached).toMatchObject({ total_requests: 2, total_cost: 0 });
    expect((await get('/v1/usage')).usage).toMatchObject({ total_requests: 1, total_cost: 1.5 });
    const { entries } = await get('/admin/usage/log?cache_mode=all');
    expect(entries).toMatchObject([
      { cache_type: 'exact', total_cost: 0, saved_cost: 1.5 },
      { cache_type: 'exact', total_cost: 0, saved_cost: 1.5 },
      { total_cost: 1.5 },
    ]);
    expect(entries[2]).not.toHaveProperty('saved_cost');
    const { summary, daily } = await get('/admin/cache/overview');
    expect(summary).toMatchObject({ total_hits: 2, exact_hits: 2, semantic_hits: 0, total_saved_cost: 3 });
    expect(daily).toMatchObject([{ hits: 2, saved_cost: 3 }]);
  });

  test('are in SQL as saved, and not as spent', async () => {
    const sums = 'sum(total_cost) / 1e9 AS spent, sum(saved_cost) / 1e9 AS saved';
    expect(await sql(`SELECT ${sums} FROM chancery.usage`)).toEqual([{ spent: 1.5, saved: 3 }]);
    expect(await sql(`SELECT ${sums} FROM chancery.usage_by_quarter_hour`)).toEqual([{ spent: 1.5, saved: 3 }]);
    const rows = await sql(
      'SELECT toString(id) AS id, cache_type, replayed_from, recorded_cost / 1e9 AS cost FROM chancery.exchanges ORDER BY position',
    );
    expect(rows).toEqual([
      { id: first, cache_type: '', replayed_from: '', cost: 1.5 },
      ...hits.map((id) => ({ id, cache_type: 'exact', replayed_from: first, cost: 0 })),
    ]);
  });

  test('are in the audit log with the exchange whose answer they returned', async () => {
    const { entries } = await get('/admin/audit/log');
    expect(entries.filter(({ cache_type }: Answered) => cache_type === 'exact')).toHaveLength(2);
    const detail = await get(`/admin/audit/detail?log_id=${hits[0]}`);
    expect(detail).toMatchObject({
      ...{ cache_type: 'exact', status_code: 200, provider_name: 'llamacpp' },
      data: { replayed_from: first, response_body: { object: 'chat.completion' } },
      usage: { total_cost: 0 },
    });
  });

  test('are in the live previews', async () => {
    const [hit] = hits;
    await expect.poll(() => live.news().filter(({ event }) => event === 'usage.completed').length).toBe(3);
    const previewOf = (type: string) =>
      live
        .news()
        .map(({ event, data }) => ({ event, preview: data.data }))
        .find(({ event, preview }) => event === type && [preview.id, preview.exchange_id].includes(hit))?.preview;
    expect(previewOf('audit.completed')).toMatchObject({ cache_type: 'exact', data: { replayed_from: first } });
    expect(previewOf('usage.completed')).toMatchObject({ cache_type: 'exact', total_cost: 0, saved_cost: 1.5 });
  });

  test('are counted by metrics, and their tokens are not', async () => {
    const text = await (await gateway.fetch('/metrics')).text();
    expect(text).toContain('gateway_cache_requests_total{cache="exact",endpoint="/v1/chat/completions"} 2');
    expect(text).toContain('gateway_cache_requests_total{cache="miss",endpoint="/v1/chat/completions"} 1');
    expect(text).toContain('gateway_cache_stored_total{endpoint="/v1/chat/completions"} 1');
    const tokens = [...text.matchAll(/gateway_tokens_total\{[^}]*direction="input"[^}]*\} (\d+)/g)].map(([, n]) =>
      Number(n),
    );
    const original = (await eventsOfExchange(gateway, first)).find(({ type }) => type === 'usage.recorded');
    expect(tokens).toEqual([original?.data.inputTokens]);
  });
});
