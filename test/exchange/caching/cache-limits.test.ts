/** Where the response cache must not answer, or must not cost: failover, budgets, guardrails, restarts, other servers. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../../infra/simulated-provider/server.ts';
import { startTestGateway, type TestGateway } from '../../support/gateway.ts';
import { guard, saveGuardrail } from '../../support/guarded.ts';
import { newKey } from '../../support/managed-keys.ts';
import { withProviders } from '../../support/several-providers.ts';
import { errorOf, json, user } from '../../support/with-gateway.ts';

const env = {
  RESPONSE_CACHE_ENABLED: 'true',
  RETRY_MAX_RETRIES: '0',
  CIRCUIT_BREAKER_ENABLED: 'false',
  GUARDRAILS_ENABLED: 'true',
  ALLOW_PRIVATE_PROVIDERS: 'true',
};
const { gateway, provider, counted } = withProviders(
  { one: { models: ['simulated-small', 'anna@example.com'] }, two: {} },
  { env },
);
let texts = 0;
const fresh = () => `Write 20 words, number ${++texts}`;
const outcomeOf = (answer: Response) => answer.headers.get('x-cache');
const model = 'llamacpp-one/simulated-small';
const chat = (content = fresh()) => ({ model, messages: user(content) });

describe('the response cache', () => {
  it('keeps no answer of failover', async () => {
    const made = await gateway.fetch('/admin/virtual-models', {
      method: 'PUT',
      json: {
        source: 'either',
        strategy: 'failover',
        targets: [{ model }, { model: 'llamacpp-two/simulated-small' }],
      },
    });
    expect(made.status, await made.clone().text()).toBeLessThan(300);
    const body = { ...chat(), model: 'either' };
    provider.one.control.next({ status: 500 });
    expect(outcomeOf(await gateway.post('/v1/chat/completions', body))).toBe('MISS');
    expect(outcomeOf(await gateway.post('/v1/chat/completions', body))).toBe('MISS');
    expect(counted()).toMatchObject({ one: 2, two: 1 });
    expect(outcomeOf(await gateway.post('/v1/chat/completions', body))).toBe('HIT (exact)');
    // The same target under its own name.
    expect(outcomeOf(await gateway.post('/v1/chat/completions', { ...body, model }))).toBe('HIT (exact)');
  });

  it('answers when the budget is exhausted, and charges nothing', async () => {
    await gateway.fetch('/admin/model-pricing-overrides', {
      method: 'PUT',
      json: { selector: model, pricing: { per_request: 1 } },
    });
    await gateway.fetch('/admin/budgets/%2Fpoor/daily', { method: 'PUT', json: { amount: 1 } });
    const key = await newKey(gateway, { user_path: '/poor' });
    const body = chat();
    expect(outcomeOf(await key.fetch('/v1/chat/completions', { json: body }))).toBe('MISS');
    await errorOf(await key.fetch('/v1/chat/completions', { json: chat() }), 429);
    const hit = await key.fetch('/v1/chat/completions', { json: body });
    expect({ status: hit.status, cache: outcomeOf(hit) }).toEqual({ status: 200, cache: 'HIT (exact)' });
    const { budgets } = await json(await gateway.fetch('/admin/budgets'));
    expect(budgets.find((one: { subject: string }) => one.subject === '/poor')).toMatchObject({ spent: 1 });
  });

  it('does not mix the values that guardrails hide', async () => {
    await saveGuardrail(gateway, { name: 'hide', type: 'pii' });
    await guard(gateway, '/hidden', [{ ref: 'hide', phase: 'prompt' }]);
    const key = await newKey(gateway, { user_path: '/hidden' });
    const ask = async (address: string) => {
      const json = { ...chat(`Reply with exactly: write to ${address}`) };
      const answer = await key.fetch('/v1/chat/completions', { json });
      return { cache: outcomeOf(answer), text: await answer.text() };
    };
    const one = await ask('eve@example.com');
    const other = await ask('bob@example.com');
    expect([one.cache, other.cache]).toEqual(['MISS', 'MISS']);
    expect(other.text).toContain('bob@example.com');
    const again = await ask('eve@example.com');
    expect(again.cache).toBe('HIT (exact)');
    expect(again.text).toContain('eve@example.com');
  });

  it('keeps the model for which a request was authorised, also when guardrails hide values in its name', async () => {
    const key = await newKey(gateway, { user_path: '/hidden' });
    const body = { ...chat(), model: 'anna@example.com' };
    expect((await key.fetch('/v1/chat/completions', { json: body })).status).toBe(200);
    const sent = provider.one.requests.findLast(({ method }) => method === 'POST');
    expect(JSON.parse(sent?.body ?? '{}').model).toBe('anna@example.com');
  });

  it('does not answer for a server to which the provider no longer points', async () => {
    const servers = [createSimulatedProvider(), createSimulatedProvider()] as const;
    const urls = await Promise.all(servers.map((server) => server.listen()));
    const point = async (url: string | undefined) => {
      const row = { name: 'moving', type: 'openai', base_url: url, api_keys: ['a-key'], models: ['simulated-small'] };
      const answer = await gateway.fetch('/admin/provider-credentials', { method: 'PUT', json: row });
      expect(answer.status, await answer.clone().text()).toBeLessThan(300);
    };
    const body = { ...chat(), model: 'moving/simulated-small' };
    await point(urls[0]);
    expect(outcomeOf(await gateway.post('/v1/chat/completions', body))).toBe('MISS');
    expect(outcomeOf(await gateway.post('/v1/chat/completions', body))).toBe('HIT (exact)');
    await point(urls[1]);
    expect(outcomeOf(await gateway.post('/v1/chat/completions', body))).toBe('MISS');
    await Promise.all(servers.map((server) => server.close()));
  });
});

describe('after a restart', () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'chancery-cache-'));
  let started: TestGateway | undefined;
  const simulated = createSimulatedProvider();
  let url = '';
  beforeAll(async () => {
    url = await simulated.listen();
  });
  afterAll(async () => {
    await started?.close();
    await simulated.close();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });

  it.each(['snapshots of the views', 'the log alone'])('answers from %s', async (from) => {
    const options = { dataDir, env: { ...env, LLAMACPP_BASE_URL: url }, simulated: false } as const;
    const body = { model: 'llamacpp/simulated-small', messages: user(fresh()), stream: true };
    started = await startTestGateway(options);
    const first = await started.fetch('/v1/chat/completions', { json: body });
    const text = await first.text();
    await started.close();
    if (from === 'the log alone')
      for (const end of ['', '-wal', '-shm']) rmSync(join(dataDir, `views.db${end}`), { force: true });
    started = await startTestGateway(options);
    const second = await started.fetch('/v1/chat/completions', { json: body });
    expect(outcomeOf(second)).toBe('HIT (exact)');
    const withoutIds = (one: string) => one.replaceAll(/"id":"[^"]*"|"created":\d+/g, '');
    expect(withoutIds(await second.text())).toBe(withoutIds(text));
    expect(simulated.requests.filter(({ method }) => method === 'POST')).toHaveLength(from === 'the log alone' ? 2 : 1);
    await started.close();
    started = undefined;
  });
});
