/** A gateway behind proxies: the client in the record, keys that are bound to networks, and the check of origins. */
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/load-config.ts';
import { providerTypes } from '../../src/providers/types.ts';
import { MASTER_KEY, startTestGateway } from '../support/gateway.ts';
import { newKey, put } from '../support/managed-keys.ts';
import { fetchViaProxy } from '../support/via-proxy.ts';
import {
  errorOf,
  eventsOfExchange,
  exchangeOf,
  json,
  modelsListed,
  user,
  withGateway,
} from '../support/with-gateway.ts';

const MODEL = 'llamacpp/simulated-small';
const gateway = withGateway({ env: { TRUSTED_PROXIES: 'loopback, 10.0.0.0/8' } });

const clientIpOf = async (exchange: string, by: Parameters<typeof eventsOfExchange>[0] = gateway) => {
  const [received] = await eventsOfExchange(by, exchange);
  return received?.data;
};
const ask = (headers: Record<string, string>, of: Parameters<typeof newKey>[0] = gateway) =>
  of.fetch('/v1/chat/completions', { headers, json: { model: MODEL, messages: user('hello') } });

describe('a request through a trusted proxy', () => {
  it('is recorded with the address of its client, and with the header', async () => {
    const answer = await ask({ 'x-forwarded-for': '203.0.113.9, 192.0.2.1, 10.0.0.2' });
    expect(await clientIpOf(exchangeOf(answer))).toMatchObject({
      clientIp: '192.0.2.1',
      headers: { 'x-forwarded-for': '203.0.113.9, 192.0.2.1, 10.0.0.2' },
    });
  });

  it.each(['unknown', 'x'.repeat(9000), '1,'.repeat(4000), '\u00ff'])(
    'never fails because of its header',
    async (list) => {
      const answer = await ask({ 'x-forwarded-for': list });
      expect(answer.status).toBe(200);
      expect((await clientIpOf(exchangeOf(answer)))?.clientIp).toBeUndefined();
    },
  );
});

describe('a request without trusted proxies', () => {
  it('is recorded with the peer, and with the claim in its headers', async () => {
    const direct = await startTestGateway();
    try {
      await modelsListed(direct);
      const answer = await ask({ 'x-forwarded-for': '192.0.2.1' }, direct);
      expect(await clientIpOf(exchangeOf(answer), direct)).toMatchObject({
        clientIp: '127.0.0.1',
        headers: { 'x-forwarded-for': '192.0.2.1' },
      });
    } finally {
      await direct.close();
    }
  });
});

describe('a key with networks', () => {
  const from = (address: string) => ({ headers: { 'x-forwarded-for': address } });

  it('is listed with them, and changed', async () => {
    const key = await newKey(gateway, { allowed_cidrs: ['192.0.2.0/24', ' 2001:DB8::1 ', '192.0.2.0/24'] });
    expect(key.created.allowed_cidrs).toEqual(['192.0.2.0/24', '2001:db8::1/128']);
    const all = await json(await gateway.fetch('/admin/auth-keys'));
    expect(all.find((one: { id: string }) => one.id === key.id).allowed_cidrs).toEqual(key.created.allowed_cidrs);
    const changed = await gateway.fetch(`/admin/auth-keys/${key.id}/allowed-cidrs`, put({ allowed_cidrs: [] }));
    expect(changed.status).toBe(200);
    expect(await json(changed)).not.toHaveProperty('allowed_cidrs');
    expect((await key.fetch('/v1/models', from('203.0.113.9'))).status).toBe(200);
  });

  it.each([
    ['a prefix that is too long', ['10.0.0.0/33']],
    ['a name', ['localhost']],
    ['more than a hundred', Array.from({ length: 101 }, (_, at) => `10.0.0.${at}`)],
    ['a text', '10.0.0.0/8'],
    ['null', null],
  ])('is not made or changed with %s as its networks', async (_, allowed_cidrs) => {
    const made = await gateway.fetch('/admin/auth-keys', { json: { name: 'k', allowed_cidrs } });
    expect((await errorOf(made, 400)).param).toMatch(/^allowed_cidrs/);
    const key = await newKey(gateway);
    const changed = await gateway.fetch(`/admin/auth-keys/${key.id}/allowed-cidrs`, put({ allowed_cidrs }));
    expect((await errorOf(changed, 400)).param).toMatch(/^allowed_cidrs/);
  });

  it.each([
    ['POST', '/v1/chat/completions', { model: MODEL, messages: user('hello') }],
    ['POST', '/v1/responses', { model: MODEL, input: 'hello' }],
    ['POST', '/v1/messages', { model: MODEL, max_tokens: 9, messages: user('hello') }],
    ['POST', '/v1/embeddings', { model: MODEL, input: 'hello' }],
    ['GET', '/v1/models', undefined],
    ['GET', '/v1/files', undefined],
    ['POST', '/p/llamacpp/v1/chat/completions', { model: 'simulated-small', messages: user('hello') }],
    ['GET', '/v1/no/such/route', undefined],
    ['GET', '/admin/auth-keys', undefined],
    ['GET', '/admin/live/logs', undefined],
    ['GET', '/metrics', undefined],
  ])('is refused elsewhere by %s %s, on record', async (method, path, body) => {
    const key = await newKey(gateway, { allowed_cidrs: ['192.0.2.0/24'], dashboard_access: true });
    const init = { method, ...(body && { json: body }) };
    for (const address of ['203.0.113.9', 'unknown', '192.0.2.1, 203.0.113.9']) {
      const answer = await key.fetch(path, { ...init, ...from(address) });
      expect(answer.status, address).toBe(403);
      expect(answer.headers.get('x-should-retry')).toBe('false');
      expect(await answer.text()).toContain('may not be used from');
      const recorded = /^\/(v1|p)\//.test(path);
      expect(answer.headers.has('x-exchange-id')).toBe(recorded);
      if (!recorded) continue;
      const events = await eventsOfExchange(gateway, exchangeOf(answer));
      expect(events.map(({ type }) => type)).toEqual(['request.received', 'request.refused']);
      expect(events[0]?.actor).toBe(`key:${key.id}`);
      expect(events[1]?.data).toMatchObject({ status: 403, code: 'network_not_allowed' });
    }
    const inside = await key.fetch(path, { ...init, ...from('192.0.2.1') });
    expect(inside.status).not.toBe(403);
    await inside.body?.cancel();
  });

  it('has its live tail ended when its networks no longer contain the client', async () => {
    const key = await newKey(gateway, { allowed_cidrs: ['192.0.2.0/24'], dashboard_access: true });
    const tail = await key.fetch('/admin/live/logs', from('192.0.2.1'));
    expect(tail.status).toBe(200);
    await gateway.fetch(`/admin/auth-keys/${key.id}/allowed-cidrs`, put({ allowed_cidrs: ['10.0.0.0/8'] }));
    expect(await tail.text()).toContain('may no longer read live logs');
  });
});

describe('a gateway without keys behind a trusted proxy', () => {
  const env = { GATEWAY_UNSAFE_OPEN: 'true', GATEWAY_MASTER_KEY: '', GATEWAY_ALLOWED_HOSTS: 'ai.example.com' };
  const page = (headers: Record<string, string>) => ({ headers: { origin: 'https://ai.example.com', ...headers } });

  it('compares the origin with the host that the client requested', async () => {
    const open = await startTestGateway({ env: { ...env, TRUSTED_PROXIES: 'loopback' } });
    try {
      const through = await fetch(`${open.url}/v1/models`, page({ 'x-forwarded-host': 'ai.example.com' }));
      expect(through.status).toBe(200);
      expect((await fetch(`${open.url}/v1/models`, page({}))).status).toBe(403);
      const other = await fetch(`${open.url}/v1/models`, page({ 'x-forwarded-host': 'evil.example' }));
      expect((await errorOf(other, 403)).code).toBe('host_not_allowed');
    } finally {
      await open.close();
    }
  });

  it('does not believe the header of another peer', async () => {
    const open = await startTestGateway({ env });
    try {
      const claimed = await fetch(`${open.url}/v1/models`, page({ 'x-forwarded-host': 'ai.example.com' }));
      expect((await errorOf(claimed, 403)).code).toBe('cross_site_refused');
    } finally {
      await open.close();
    }
  });
});

describe('a connection that begins with the PROXY protocol', () => {
  const started = startTestGateway({ env: { TRUSTED_PROXIES: 'loopback', PROXY_PROTOCOL: 'true' } });
  afterAll(async () => (await started).close());

  async function send(...parts: readonly (string | Buffer)[]): Promise<string> {
    const { url } = await started;
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.on('error', () => {});
    for (const part of parts) await new Promise<void>((resolve) => socket.write(part, () => resolve()));
    return text(socket).catch(() => '');
  }

  const request = (headers = '') =>
    `GET /v1/no/such HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${MASTER_KEY}\r\n${headers}connection: close\r\n\r\n`;
  const recorded = async (answer: string) => {
    const exchange = /x-exchange-id: (\S+)/.exec(answer)?.[1] ?? '';
    const { url } = await started;
    return (await clientIpOf(exchange, { fetch: fetchViaProxy(url) }))?.clientIp;
  };

  it('is one of the client that it states, with the request in the same write or in others', async () => {
    const header = 'PROXY TCP4 192.0.2.1 10.0.0.1 4711 8080\r\n';
    expect(await recorded(await send(header + request()))).toBe('192.0.2.1');
    expect(await recorded(await send(header.slice(0, 9), header.slice(9), request()))).toBe('192.0.2.1');
    expect(await recorded(await send(header + request().slice(0, 20), request().slice(20)))).toBe('192.0.2.1');
    const second = Buffer.from(
      '0d0a0d0a000d0a515549540a2111000cc0000202 0a000001 1267 1f90'.replaceAll(' ', ''),
      'hex',
    );
    expect(await recorded(await send(second, request()))).toBe('192.0.2.2');
  });

  it('is one of the proxy when it states no client, whose headers then count', async () => {
    expect(await recorded(await send('PROXY UNKNOWN\r\n', request()))).toBe('127.0.0.1');
    expect(await recorded(await send('PROXY UNKNOWN\r\n', request('x-forwarded-for: 192.0.2.3\r\n')))).toBe(
      '192.0.2.3',
    );
  });

  it('does not let its client state another address', async () => {
    const stated = await send('PROXY TCP4 192.0.2.1 10.0.0.1 1 2\r\n', request('x-forwarded-for: 203.0.113.9\r\n'));
    expect(await recorded(stated)).toBe('192.0.2.1');
  });

  it('is closed when it begins with something else', async () => {
    expect(await send(request())).toBe('');
    expect(await send('PROXY TCP4 nobody 10.0.0.1 1 2\r\n', request())).toBe('');
  });
});

describe('the settings of proxies', () => {
  it.each([
    [{ TRUSTED_PROXIES: 'private, 10.0.0.0/40' }, 'server.trusted_proxies', 'TRUSTED_PROXIES'],
    [{ TRUSTED_PROXIES: 'everyone' }, 'server.trusted_proxies', 'TRUSTED_PROXIES'],
    [{ PROXY_PROTOCOL: 'true' }, 'server.proxy_protocol', 'PROXY_PROTOCOL'],
    [{ CLIENT_ADDRESS_HEADER: 'not a name' }, 'server.client_address_header', 'CLIENT_ADDRESS_HEADER'],
  ])('%j are refused with their place', (env, path, variable) => {
    const loaded = loadConfig({ flags: {}, env, cwd: '/nowhere', providerTypes });
    expect(loaded).toMatchObject({ ok: false, problems: [{ path, variable }] });
  });

  it('name networks', () => {
    const env = { TRUSTED_PROXIES: 'Private,unix,203.0.113.7' };
    const loaded = loadConfig({ flags: {}, env, cwd: '/nowhere', providerTypes });
    expect(loaded.ok && loaded.config.server.proxies).toEqual({
      networks: ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7', '203.0.113.7/32'],
      local: true,
      header: 'x-forwarded-for',
    });
  });
});
