/** Providers that are reached through a proxy. */

import { once } from 'node:events';
import { createServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type LookupFunction } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { afterAll, describe, expect, test } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { createProvider } from '../../src/providers/create-provider.ts';
import type { ProxiedProviderConfig } from '../../src/providers/provider.ts';
import { proxiesOf, withoutProxy } from '../../src/providers/proxies.ts';
import { createTransport, type TransportOptions } from '../../src/providers/transport.ts';
import { createAuthority, missingOpenssl } from '../support/certificates.ts';
import { type ForwardProxy, startHttpProxy, startSocksProxy } from '../support/forward-proxies.ts';

const closing: (() => Promise<unknown>)[] = [];
afterAll(() => Promise.all(closing.map((close) => close())));

const me = { user: 'me', password: 'pass word' };

async function started(proxy: Promise<ForwardProxy>): Promise<ForwardProxy> {
  closing.push((await proxy).close);
  return proxy;
}

/** A provider whose name only the proxy can resolve. */
async function provider(given: Partial<ProxiedProviderConfig>) {
  const upstream = createSimulatedProvider({ models: ['far'] });
  const { port } = new URL(await upstream.listen());
  const made = createProvider({
    name: 'far',
    type: 'openai',
    baseUrl: `http://api.provider.test:${port}/v1`,
    apiKeys: ['sk-1'],
    models: [],
    modelsMode: 'fallback',
    options: {},
    source: 'stored',
    localAddresses: true,
    proxyOf: withoutProxy,
    ...given,
  });
  closing.push(
    () => made.close(),
    () => upstream.close(),
  );
  return { provider: made, upstream, port };
}

const signal = AbortSignal.timeout(20_000);
const call = (body: object) => ({
  dialect: 'chat' as const,
  body: Buffer.from(JSON.stringify({ model: 'far', messages: [{ role: 'user', content: 'Hello!' }], ...body })),
  requestId: 'r-1',
  signal,
});

describe.each([
  ['http', startHttpProxy],
  ['socks5h', startSocksProxy],
] as const)('a provider behind a proxy with %s', (scheme, start) => {
  test('is called through it, whole and in streams, and only the proxy gets the password of the proxy', async () => {
    const proxy = await started(start(me));
    const { provider: far, upstream } = await provider({
      proxyUrl: `${scheme}://me:pass%20word@127.0.0.1:${proxy.port}`,
    });
    expect(await far.listModels(signal)).toMatchObject([{ id: 'far' }]);
    const whole = await far.send({ ...call({}), stream: false });
    expect(whole.status).toBe(200);
    expect((await whole.body.bytes(1e6)).toString()).toContain('chat.completion');
    const stream = await far.send({ ...call({ stream: true }), stream: true });
    let text = '';
    await stream.body.pieces((piece) => {
      text += piece.toString();
    });
    expect(text).toContain('[DONE]');
    expect(proxy.requests[0]).toContain('api.provider.test');
    expect(upstream.requests).toHaveLength(3);
    for (const { headers } of upstream.requests) {
      expect(headers).not.toHaveProperty('proxy-authorization');
      expect(headers.authorization).toBe('Bearer sk-1');
    }
  });

  test('cannot be reached when the proxy refuses the gateway, and the error does not contain the password', async () => {
    const proxy = await started(start(me));
    const { provider: far, upstream } = await provider({
      proxyUrl: `${scheme}://me:wrong-secret@127.0.0.1:${proxy.port}`,
    });
    const failure = await far.listModels(signal).then(String, (error) => `${error} ${JSON.stringify(error)}`);
    expect(failure).toMatch(/^Error: /);
    expect(failure).not.toContain('secret');
    expect(upstream.requests).toHaveLength(0);
  });

  test('is reached directly when it is excepted, when its own setting says so, and at loopback', async () => {
    const proxy = await started(start());
    const proxyUrl = `${scheme}://127.0.0.1:${proxy.port}`;
    const lookup: LookupFunction = (_name, options, callback) =>
      options.all === true ? callback(null, [{ address: '127.0.0.1', family: 4 }]) : callback(null, '127.0.0.1', 4);
    const { upstream, port } = await provider({});
    const proxies = { http: proxyUrl, https: proxyUrl };
    const listed = async (host: string, given: Partial<TransportOptions>) => {
      const origin = `http://${host}:${port}`;
      const transport = createTransport({
        provider: 'p',
        origin,
        lookup,
        proxyOf: proxiesOf({ ...proxies, bypass: [] }),
        ...given,
      });
      const answer = await transport.send({ method: 'GET', path: '/v1/models', headers: [], signal });
      await answer.body.bytes(1e6);
      await transport.close();
      return answer.status;
    };
    expect(await listed('127.0.0.1', {})).toBe(200);
    expect(await listed('localhost', {})).toBe(200);
    expect(await listed('api.provider.test', { proxyUrl: 'none' })).toBe(200);
    const excepted = proxiesOf({ ...proxies, bypass: ['.provider.test'] });
    expect(await listed('api.provider.test', { proxyOf: excepted })).toBe(200);
    expect(proxy.requests).toEqual([]);
    expect(await listed('api.provider.test', {})).toBe(200);
    expect(proxy.requests).toHaveLength(1);
    expect(upstream.requests).toHaveLength(5);
  });
});

test.each([
  ['http', 'silent', /through its proxy \(the proxy did not answer in time\)/],
  ['socks5h', 'silent', /through its proxy \(the proxy did not connect to it\)/],
  ['http', 'closing', /through its proxy \(the proxy closed the connection\)/],
  ['socks5h', 'closing', /through its proxy \(the proxy did not connect to it\)/],
  ['http', 'absent', /through its proxy \(connection refused\)/],
  ['socks5h', 'absent', /through its proxy \(connection refused\)/],
])('a call through a proxy with %s that is %s fails', async (scheme, kind, expected) => {
  const server = createTcpServer((socket) => {
    socket.on('error', () => {});
    if (kind === 'closing') socket.once('data', () => socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  if (kind === 'absent') server.close();
  const transport = createTransport({
    provider: 'p',
    origin: 'https://api.provider.test',
    proxyOf: () => `${scheme}://127.0.0.1:${port}`,
    timeouts: { connectMs: 300 },
  });
  const sent = transport.send({ method: 'GET', path: '/', headers: [], signal });
  expect(await sent.then(String, (error: Error) => error.message)).toMatch(expected);
  await transport.close();
  server.close();
});

test.each(['http', 'https'])('a proxy that refuses the credentials for %s is named by the failure', async (scheme) => {
  const proxy = await started(startHttpProxy(me));
  const transport = createTransport({
    provider: 'p',
    origin: `${scheme}://api.provider.test`,
    proxyOf: () => `http://me:wrong-secret@127.0.0.1:${proxy.port}`,
  });
  const sent = transport.send({ method: 'POST', path: '/', headers: [], body: Buffer.from('{}'), signal });
  await expect(sent).rejects.toMatchObject({
    kind: 'proxy_refused',
    message: 'its proxy refuses the user and password of the gateway (status 407)',
  });
  await transport.close();
});

test('socks5 resolves names here: addresses that are not allowed are refused, and the proxy gets an address', async () => {
  const proxy = await started(startSocksProxy());
  const at = (address: string, localAddresses: boolean) =>
    createTransport({
      provider: 'p',
      origin: 'http://api.provider.test:1',
      proxyOf: () => `socks5://127.0.0.1:${proxy.port}`,
      localAddresses,
      lookup: (_name, options, callback) =>
        options.all === true ? callback(null, [{ address, family: 4 }]) : callback(null, address, 4),
    });
  const outcome = async (address: string, localAddresses: boolean) => {
    const transport = at(address, localAddresses);
    const sent = transport.send({ method: 'GET', path: '/', headers: [], signal });
    const message = await sent.then(String, (error: Error) => error.message);
    await transport.close();
    return message;
  };
  expect(await outcome('169.254.169.254', false)).toMatch(/resolves to an address that is not allowed/);
  expect(proxy.requests).toEqual([]);
  expect(await outcome('192.0.2.7', false)).toMatch(/through its proxy \(the proxy did not connect to it\)/);
  expect(proxy.requests).toEqual(['address 192.0.2.7:1']);
});

describe.skipIf(missingOpenssl() !== undefined)('a provider with TLS', () => {
  const authority = createAuthority();
  const served = authority.issue('api.provider.test', 'DNS:api.provider.test');
  const client = authority.issue('gateway', 'DNS:gateway');
  const strangers = createAuthority();
  closing.push(
    async () => authority.remove(),
    async () => strangers.remove(),
  );

  async function secureUpstream() {
    const subjects: string[] = [];
    const options = { cert: served.cert, key: served.key, ca: authority.ca.cert, requestCert: true };
    const server = createServer({ ...options, ALPNProtocols: ['h2', 'http/1.1'] }, (request, response) => {
      subjects.push(String((request.socket as TLSSocket).getPeerCertificate().subject?.CN));
      response.end(JSON.stringify({ data: [{ id: 'far' }] }));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    closing.push(async () => {
      server.closeAllConnections();
      server.close();
    });
    return { subjects, baseUrl: `https://api.provider.test:${(server.address() as AddressInfo).port}/v1` };
  }

  const trusted = { ca: authority.ca.cert, cert: client.cert, key: client.key };

  test.each([
    ['http', startHttpProxy],
    ['socks5h', startSocksProxy],
  ] as const)('gets the certificate of the gateway through a tunnel (%s)', async (scheme, start) => {
    const proxy = await started(start());
    const { baseUrl, subjects } = await secureUpstream();
    const proxyOf = proxiesOf({ https: `${scheme}://127.0.0.1:${proxy.port}`, bypass: [] });
    const { provider: far } = await provider({ baseUrl, proxyOf, tls: trusted });
    expect(await far.listModels(signal)).toMatchObject([{ id: 'far' }]);
    expect(subjects).toEqual(['gateway']);
    expect(proxy.requests[0]).toMatch(/^(CONNECT|name) api\.provider\.test:\d+$/);
  });

  test('is not trusted without its authority', async () => {
    const proxy = await started(startHttpProxy());
    const { baseUrl, subjects } = await secureUpstream();
    for (const tls of [undefined, { ca: strangers.ca.cert }]) {
      const { provider: far } = await provider({ baseUrl, proxyUrl: `http://127.0.0.1:${proxy.port}`, tls });
      expect(await far.listModels(signal).then(String, String)).toMatch(/certificate/);
    }
    expect(subjects).toEqual([]);
  });

  test('is said to be out of reach when its proxy refuses it', async () => {
    const proxy = await started(startHttpProxy());
    proxy.refuse();
    const { provider: far } = await provider({
      baseUrl: 'https://api.provider.test/v1',
      proxyUrl: `http://127.0.0.1:${proxy.port}`,
    });
    expect(await far.listModels(signal).then(String, String)).toMatch(
      /through its proxy \(the proxy did not connect to it\)/,
    );
    expect(proxy.requests[0]).toBe('CONNECT api.provider.test:443');
  });
});

describe('headers of a provider', () => {
  test('are sent with every request, over those of the client and of the gateway', async () => {
    const upstream = createSimulatedProvider({ models: ['far'] });
    const baseUrl = await upstream.listen();
    closing.push(() => upstream.close());
    const { provider: near } = await provider({
      baseUrl,
      headers: { 'x-org': 'the-secret-org', 'user-agent': 'ours/1' },
    });
    await near.listModels(signal);
    await near.send({ ...call({}), stream: false, headers: { 'x-org': 'client', 'x-other': 'kept' } });
    await near.forward({
      method: 'GET',
      path: '/models',
      headers: { 'x-org': 'client', 'user-agent': 'client/1' },
      requestId: 'r',
      signal,
    });
    const seen = upstream.requests.map(({ headers }) => [headers['x-org'], headers['user-agent'], headers['x-other']]);
    expect(seen).toEqual([
      ['the-secret-org', 'ours/1', undefined],
      ['the-secret-org', 'ours/1', 'kept'],
      ['the-secret-org', 'ours/1', undefined],
    ]);
    expect(near.redact('it said the-secret-org')).toBe('it said [redacted]');
  });
});
