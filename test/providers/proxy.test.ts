/** Providers that are reached through an HTTP proxy. */
import { once } from 'node:events';
import { request as ask, createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { afterAll, describe, expect, test } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { createProvider } from '../../src/providers/create-provider.ts';

const AUTHORIZATION = `Basic ${Buffer.from('me:secret').toString('base64')}`;
const closing: (() => Promise<unknown>)[] = [];
afterAll(() => Promise.all(closing.map((close) => close())));

/** A proxy that requires a password; it records the addresses it was called for. */
async function startProxy() {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url ?? '');
    if (request.headers['proxy-authorization'] !== AUTHORIZATION) return void response.writeHead(407).end();
    const { 'proxy-authorization': _, ...headers } = request.headers;
    const onward = ask(request.url ?? '', { method: request.method ?? 'GET', headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    request.pipe(onward);
  });
  server.on('connect', (request, socket) => {
    requests.push(request.url ?? '');
    if (request.headers['proxy-authorization'] !== AUTHORIZATION) {
      return void socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n');
    }
    const [host = '', port] = (request.url ?? '').split(':');
    const onward = connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      onward.pipe(socket).pipe(onward);
    });
    onward.on('error', () => socket.destroy());
    socket.on('error', () => onward.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(async () => {
    server.closeAllConnections();
    server.close();
  });
  return { asked: requests, port: (server.address() as AddressInfo).port };
}

async function providerBehind(proxyUrl: string) {
  const upstream = createSimulatedProvider({ models: ['far'] });
  const baseUrl = await upstream.listen();
  const provider = createProvider({
    name: 'far',
    type: 'openai',
    baseUrl,
    apiKeys: ['sk-1'],
    models: [],
    modelsMode: 'fallback',
    options: {},
    proxyUrl,
    source: 'stored',
    localAddresses: true,
  });
  closing.push(
    () => provider.close(),
    () => upstream.close(),
  );
  return { provider, upstream };
}

const signal = AbortSignal.timeout(10_000);
const call = (body: object) => ({
  dialect: 'chat' as const,
  body: Buffer.from(JSON.stringify({ model: 'far', messages: [{ role: 'user', content: 'Hello!' }], ...body })),
  requestId: 'r-1',
  signal,
});

describe('a provider behind a proxy', () => {
  test('is called through it, whole and in streams, and only the proxy gets the password of the proxy', async () => {
    const proxy = await startProxy();
    const { provider, upstream } = await providerBehind(`http://me:secret@127.0.0.1:${proxy.port}`);
    expect(await provider.listModels(signal)).toMatchObject([{ id: 'far' }]);
    const whole = await provider.send({ ...call({}), stream: false });
    expect(whole.status).toBe(200);
    expect((await whole.body.bytes(1e6)).toString()).toContain('chat.completion');
    const stream = await provider.send({ ...call({ stream: true }), stream: true });
    let text = '';
    await stream.body.pieces((piece) => {
      text += piece.toString();
    });
    expect(text).toContain('[DONE]');
    expect(proxy.asked.length).toBeGreaterThan(0);
    expect(upstream.requests).toHaveLength(3);
    for (const { headers } of upstream.requests) {
      expect(headers).not.toHaveProperty('proxy-authorization');
      expect(headers.authorization).toBe('Bearer sk-1');
    }
  });

  test('cannot be reached when the proxy refuses the gateway, and the error does not contain the password', async () => {
    const proxy = await startProxy();
    const { provider, upstream } = await providerBehind(`http://me:wrong-secret@127.0.0.1:${proxy.port}`);
    const failure = await provider.listModels(signal).then(String, String);
    expect(failure).toMatch(/^Error: /);
    expect(failure).not.toContain('secret');
    expect(upstream.requests).toHaveLength(0);
  });
});
