/** Addresses that are allowed for a provider that an administrator sets up at run time. */

import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { errorOf, json, user, withGateway } from '../support/with-gateway.ts';

const ROUTE = '/admin/provider-credentials';
const contacted: string[] = [];
let canary: Server;
let port = 0;

beforeAll(async () => {
  canary = createServer((request, response) => {
    contacted.push(request.url ?? '');
    response.end(JSON.stringify({ object: 'list', data: [{ id: 'canary', object: 'model' }] }));
  }).listen(0, '127.0.0.1');
  await once(canary, 'listening');
  const address = canary.address();
  port = typeof address === 'object' && address !== null ? address.port : 0;
});
beforeEach(() => {
  contacted.length = 0;
});
afterAll(() => {
  canary.closeAllConnections();
  canary.close();
});

const put = (gateway: Pick<TestGateway, 'fetch'>, body: object) =>
  gateway.fetch(ROUTE, { method: 'PUT', json: { name: 'late', type: 'vllm', ...body } });

const LOCAL = [
  'http://127.0.0.1',
  'http://127.1',
  'http://127.0.0.1.',
  'http://2130706433',
  'http://0x7f000001',
  'http://0177.0.0.1',
  'http://0x7f.0.0.1',
  'http://①②⑦.0.0.1',
  'http://0.0.0.0',
  'http://0',
  'http://[::1]',
  'http://[::]',
  'http://[::ffff:127.0.0.1]',
  'http://[::ffff:7f00:1]',
  'http://[::127.0.0.1]',
  'http://localhost',
  'http://LOCALHOST',
  'http://localhost.',
  'http://any.localhost',
  'http://user:password@127.0.0.1',
];
const ELSEWHERE = [
  'http://169.254.169.254',
  'http://2852039166',
  'http://169.254.1.1',
  'http://[fe80::1]',
  'http://[fd00:ec2::254]',
  'http://[::ffff:169.254.169.254]',
  'http://[64:ff9b::a9fe:a9fe]',
  'http://100.100.100.200',
];

describe('PUT /admin/provider-credentials', () => {
  const gateway = withGateway();

  it.each([...LOCAL, ...ELSEWHERE])('refuses the base_url and the proxy_url %s', async (url) => {
    const address = `${url}:${port}`;
    const socks = address.replace('http', 'socks5');
    for (const [param, body] of [
      ['base_url', { base_url: `${address}/v1` }],
      ['base_url', { base_url: `${address}/v1`, enabled: false }],
      ['base_url', { base_url: `${address}/v1`, proxy_url: 'http://192.0.2.1:3128' }],
      ['proxy_url', { base_url: 'http://192.0.2.1/v1', proxy_url: address }],
      ['proxy_url', { base_url: 'http://192.0.2.1/v1', proxy_url: socks }],
      ['proxy_url', { base_url: 'http://192.0.2.1/v1', proxy_url: socks.replace('socks5', 'socks5h') }],
    ] as const) {
      const refused = await errorOf(await put(gateway, body), 400);
      expect(refused).toMatchObject({ param, code: 'provider_address_refused' });
      expect(refused.message).toContain('ALLOW_PRIVATE_PROVIDERS');
    }
    expect(await json(await gateway.fetch(ROUTE))).toHaveLength(1);
    expect(contacted).toEqual([]);
  });

  it('refuses a type whose default address is loopback, when no other is given', async () => {
    for (const body of [{ type: 'ollama' }, { type: 'ollama', base_url: '' }])
      expect(await errorOf(await put(gateway, body), 400)).toMatchObject({ param: 'base_url' });
  });

  it.each([
    'https://192.0.2.1/v1',
    'http://10.1.2.3:8000/v1',
    'http://192.168.3.4/v1',
    'http://[fd12:3456::1]/v1',
    'http://no-such-name.invalid/v1',
  ])('accepts %s', async (base_url) => {
    expect((await put(gateway, { base_url, enabled: false })).status).toBe(200);
    expect((await gateway.fetch(`${ROUTE}/late`, { method: 'DELETE' })).status).toBe(204);
  });

  it('does not restrict providers of the configuration: the one at loopback answers', async () => {
    const body = { model: 'llamacpp/simulated-small', messages: user('hello') };
    expect((await gateway.post('/v1/chat/completions', body)).status).toBe(200);
  });
});

describe('a provider that was stored at a local address', () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'chancery-addresses-'));
  let gateway: TestGateway;
  const start = (allowed: string) =>
    startTestGateway({ dataDir, env: { ALLOW_PRIVATE_PROVIDERS: allowed, RETRY_MAX_RETRIES: '0' } });
  const stored = ['by-name', 'by-address'];

  beforeAll(async () => {
    gateway = await start('true');
    for (const [name, host] of [
      ['by-name', 'localhost'],
      ['by-address', '127.0.0.1'],
    ]) {
      expect(
        (await put(gateway, { name, base_url: `http://${host}:${port}/v1`, models: ['m'], models_mode: 'allowlist' }))
          .status,
      ).toBe(200);
    }
  });
  afterAll(async () => {
    await gateway.close();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });

  const ask = async (name: string) => {
    const chat = gateway.fetch('/v1/chat/completions', { json: { model: `${name}/m`, messages: user('hello') } });
    const passed = gateway.fetch(`/p/${name}/v1/models`);
    return (await Promise.all([chat, passed])).map(({ status }) => status);
  };

  it('is called with ALLOW_PRIVATE_PROVIDERS=true', async () => {
    for (const name of stored) await ask(name);
    expect(contacted.filter((url) => url === '/v1/chat/completions')).toHaveLength(2);
  });

  it('is not contacted without it, whatever its name resolves to', async () => {
    await gateway.close();
    contacted.length = 0;
    gateway = await start('false');
    for (const name of stored) for (const status of await ask(name)) expect(status).toBeGreaterThanOrEqual(400);
    expect((await gateway.fetch('/admin/runtime/refresh', { method: 'POST' })).status).toBeLessThan(500);
    expect(contacted).toEqual([]);
    const rows = await json(await gateway.fetch(ROUTE));
    const named = rows.find(({ name }: { name: string }) => name === 'by-address');
    expect(JSON.stringify(named)).toContain('ALLOW_PRIVATE_PROVIDERS');
  });
});
