/** What providers get beside the request: through which proxy, and with which headers. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { startHttpProxy } from '../support/forward-proxies.ts';
import {
  errorOf,
  eventsOfExchange,
  eventsUntil,
  exchangeOf,
  json,
  user,
  withGateway,
} from '../support/with-gateway.ts';

const CHAT = '/v1/chat/completions';
const CREDENTIALS = '/admin/provider-credentials';

describe('the proxy of the gateway', () => {
  let proxy: Awaited<ReturnType<typeof startHttpProxy>>;
  let port = '';
  const gateway = withGateway(async () => {
    proxy = await startHttpProxy({ user: 'me', password: 'proxy-password' });
    return {
      register(url) {
        if (url !== '') port = new URL(url).port;
        return { LLAMACPP_BASE_URL: url.replace('127.0.0.1', 'near.provider.test') };
      },
      env: {
        HTTP_PROXY: `http://me:proxy-password@127.0.0.1:${proxy.port}`,
        NO_PROXY: 'excepted.provider.test',
        RETRY_MAX_RETRIES: '3',
        RETRY_INITIAL_BACKOFF: '10ms',
      },
    };
  });
  afterAll(() => proxy.close());
  const put = (body: object) =>
    gateway.fetch(CREDENTIALS, {
      method: 'PUT',
      json: { name: 'late', type: 'vllm', models: ['simulated-small'], models_mode: 'allowlist', ...body },
    });
  const call = (model: string) => gateway.post(CHAT, { model, messages: user('hello') });

  it('is used for providers of the configuration', async () => {
    proxy.requests.length = 0;
    const answer = await call('llamacpp/simulated-small');
    expect(answer.status, await answer.text()).toBe(200);
    expect(proxy.requests).toEqual([`POST http://near.provider.test:${port}/v1/chat/completions`]);
  });

  it('is used for a provider that an administrator adds, unless its own setting says otherwise', async () => {
    const base_url = `http://late.provider.test:${port}/v1`;
    expect((await put({ base_url })).status).toBe(200);
    proxy.requests.length = 0;
    expect((await call('late/simulated-small')).status).toBe(200);
    expect(proxy.requests).toEqual([`POST ${base_url}/chat/completions`]);

    const saved = await json(await put({ base_url, proxy_url: 'none' }));
    expect(saved.proxy_url).toBe('none');
    proxy.requests.length = 0;
    expect((await errorOf(await call('late/simulated-small'), 502)).message).toContain('host name');
    expect(proxy.requests).toEqual([]);

    const elsewhere = await json(await put({ base_url, proxy_url: 'socks5h://me:own-password@192.0.2.1:1080' }));
    expect(elsewhere.proxy_url).toBe('socks5h://me:********@192.0.2.1:1080');
    expect((await put({ base_url: `http://excepted.provider.test:${port}/v1` })).status).toBe(200);
    expect((await call('late/simulated-small')).status).toBe(502);
    expect(proxy.requests).toEqual([]);
    const { text } = { text: JSON.stringify(await json(await gateway.fetch(CREDENTIALS))) };
    expect(text).not.toMatch(/proxy-password|own-password/);
  });

  it('may quote its credentials without showing them to a client or in the log', async () => {
    const pair = 'me:proxy-password';
    const base64 = Buffer.from(pair).toString('base64');
    proxy.deny((given) => JSON.stringify({ error: { message: `denied ${given} ${pair}`, code: `no ${base64}` } }));
    const answer = await call('llamacpp/simulated-small');
    proxy.deny(undefined);
    expect(answer.status).toBe(403);
    const text = await answer.text();
    expect(text).toContain('denied Basic [redacted] [redacted]');
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.map(({ type }) => type)).toEqual(expect.arrayContaining(['attempt.failed', 'exchange.failed']));
    for (const shown of [text, JSON.stringify(events)]) {
      expect(shown).not.toMatch(/proxy-password/);
      expect(shown).not.toContain(base64);
    }
  });

  it.each([
    [302, 'moved'],
    [200, 'a page'],
    [200, 'JSON of another shape'],
  ])('may quote them with status %i in %s, which the log has without them', async (status, kind) => {
    proxy.deny((given) => (kind === 'a page' ? `<p>${given} me:proxy-password` : JSON.stringify({ given })), status);
    const answer = await call('llamacpp/simulated-small');
    proxy.deny(undefined);
    expect(answer.status, await answer.text()).toBe(502);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    const shown = JSON.stringify(events);
    expect(shown).toContain('[redacted]');
    expect(shown).not.toMatch(/proxy-password/);
    expect(shown).not.toContain(Buffer.from('me:proxy-password').toString('base64'));
  });

  it('is named when it refuses the gateway, and is not asked again', async () => {
    proxy.requests.length = 0;
    proxy.deny(String, 407);
    const refused = await errorOf(await call('llamacpp/simulated-small'), 502);
    proxy.deny(undefined);
    expect(refused).toMatchObject({ type: 'provider_error', code: 'provider_unreachable' });
    expect(refused.message).toContain('its proxy refuses the user and password of the gateway (status 407)');
    expect(proxy.requests).toHaveLength(1);
  });

  it('does not make local addresses reachable for such a provider', async () => {
    for (const host of ['127.0.0.1', 'localhost', '169.254.169.254']) {
      const refused = await errorOf(await put({ base_url: `http://${host}:${port}/v1` }), 400);
      expect(refused).toMatchObject({ param: 'base_url', code: 'provider_address_refused' });
    }
  });
});

describe('headers of requests to providers', () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'chancery-outgoing-'));
  afterAll(() => rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 }));
  const gateway = withGateway(async () => {
    writeFileSync(
      join(dataDir, 'chancery.yaml'),
      'providers: { llamacpp: { type: llamacpp, headers: { X-Org: "the-secret-org" } } }\n',
    );
    return { dataDir, env: { RESPONSE_CACHE_ENABLED: 'true' } };
  });
  const model = 'llamacpp/simulated-small';
  const features = { cache: false, audit: true, usage: true, guardrails: false };
  const create = (path: string, payload: object) =>
    gateway.fetch('/admin/workflows', {
      json: { scope_user_path: path, name: path, workflow_payload: { features, ...payload } },
    });
  const at = (path: string, headers: Record<string, string> = {}) => ({
    headers: { 'x-gateway-user-path': path, ...headers },
  });

  it('of the provider are sent with every request, and their values never shown', async () => {
    const answer = await gateway.post(CHAT, { model, messages: user('org') });
    expect(answer.status).toBe(200);
    expect(gateway.lastProviderRequest().headers['x-org']).toBe('the-secret-org');
    const rows = await json(await gateway.fetch(CREDENTIALS));
    expect(rows[0].headers).toEqual({ 'x-org': '********' });
    const events = await eventsUntil(gateway, '', ({ type }) => type === 'exchange.completed');
    expect(JSON.stringify(events)).not.toContain('the-secret-org');
  });

  it('are passed, set and removed as a workflow says, on every endpoint', async () => {
    const headers = {
      pass: ['X-Tenant', 'x-absent'],
      set: { 'X-Team': 'alpha', 'x-org': 'other' },
      remove: ['openai-beta'],
    };
    const made = await create('/ruled', { headers });
    expect(made.status, await made.clone().text()).toBe(201);
    expect((await json(made)).workflow_payload.headers).toEqual({
      pass: ['x-tenant', 'x-absent'],
      set: { 'x-team': 'alpha', 'x-org': 'other' },
      remove: ['openai-beta'],
    });
    const given = at('/ruled', { 'x-tenant': 'acme', 'x-other': 'no', 'openai-beta': 'assistants=v2' });
    const messages = user('hello');
    for (const [path, body] of [
      [CHAT, { model, messages }],
      [CHAT, { model, messages, stream: true }],
      ['/v1/responses', { model, input: 'hello' }],
      ['/v1/messages', { model, messages, max_tokens: 10 }],
      ['/v1/embeddings', { model, input: 'hello' }],
      ['/v1/completions', { model, prompt: 'hello' }],
      ['/p/llamacpp/v1/chat/completions', { model: 'simulated-small', messages }],
    ] as const) {
      const answer = await gateway.post(path, body, given);
      expect(answer.status, `${path} ${await answer.text()}`).toBe(200);
      const sent = gateway.lastProviderRequest().headers;
      expect([path, sent['x-tenant'], sent['x-team'], sent['x-org']]).toEqual([
        path,
        'acme',
        'alpha',
        'the-secret-org',
      ]);
      expect(sent).not.toHaveProperty('openai-beta');
      expect(sent).not.toHaveProperty('x-absent');
      expect(sent).not.toHaveProperty('x-other');
      const [received] = await eventsOfExchange(gateway, exchangeOf(answer));
      expect(received?.data.headers['x-tenant']).toBe('acme');
      expect(received?.data.workflow.scope).toBeDefined();
    }
    await gateway.post(CHAT, { model, messages }, at('/elsewhere', { 'x-tenant': 'acme' }));
    expect(gateway.lastProviderRequest().headers).not.toHaveProperty('x-tenant');
  });

  it('that are passed distinguish cached answers', async () => {
    await create('/cached', { features: { ...features, cache: true }, headers: { pass: ['x-tenant'] } });
    const ask = async (tenant: string) => {
      const answer = await gateway.post(
        CHAT,
        { model, messages: user('cached') },
        at('/cached', { 'x-tenant': tenant }),
      );
      await answer.text();
      return answer.headers.get('x-cache');
    };
    await ask('acme');
    const [again, other] = [await ask('acme'), await ask('other')];
    expect(again).not.toBe(other);
  });

  it.each([
    [{ pass: ['authorization'] }],
    [{ pass: ['cookie'] }],
    [{ set: { 'x-api-key': 'k' } }],
    [{ set: { Host: 'x' } }],
    [{ set: { 'content-length': '1' } }],
    [{ set: { 'user-agent': 'x' } }],
    [{ set: { 'proxy-authorization': 'x' } }],
    [{ remove: ['traceparent'] }],
    [{ pass: ['a b'] }],
    [{ set: { 'x-a': 'a\nb' } }],
    [{ pass: ['x-a'], remove: ['X-A'] }],
    [{ pass: Array.from({ length: 65 }, (_, n) => `x-${n}`) }],
  ])('that cannot be decided about are refused: %j', async (headers) => {
    const error = await errorOf(await create('/refused', { headers }), 400);
    expect(error.param).toBe('workflow_payload.headers');
    expect(await json(await gateway.fetch('/admin/workflows'))).not.toContainEqual(
      expect.objectContaining({ name: '/refused' }),
    );
  });

  it('a payload of version 1 has none', async () => {
    const error = await errorOf(await create('/first', { schema_version: 1, headers: { pass: ['x-a'] } }), 400);
    expect(error.param).toBe('workflow_payload.headers');
  });

  it('stay as they are where a strange name is no header of the client', async () => {
    await create('/strange', { headers: { pass: ['constructor', '__proto__'] } });
    const answer: Answered = await gateway.post(CHAT, { model, messages: user('strange') }, at('/strange'));
    expect(answer.status).toBe(200);
    expect(gateway.lastProviderRequest().headers).not.toHaveProperty('constructor');
  });
});
