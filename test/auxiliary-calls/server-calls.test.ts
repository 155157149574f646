import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MAX_SERVER_ANSWER_BYTES, ServerCalls } from '../../src/commands/auxiliary-calls/server-calls.ts';
import { withoutProxy } from '../../src/providers/proxies.ts';
import { startHttpProxy } from '../support/forward-proxies.ts';

let answer: (request: IncomingMessage, response: ServerResponse) => void = (_request, response) => response.end('{}');
let connections = 0;
let paths: string[] = [];
const server = createServer((request, response) => {
  paths.push(request.url ?? '');
  request.resume().on('end', () => answer(request, response));
}).on('connection', () => {
  connections += 1;
});
let url = '';
beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/analyze`;
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});

const init = (signal = new AbortController().signal) =>
  ({ method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"text":"secret"}', signal }) as const;

describe('ServerCalls', () => {
  it('keeps the connection, and returns the status of a redirect without following it', async () => {
    const calls = new ServerCalls(withoutProxy);
    const fetch = calls.fetchFrom('anywhere');
    connections = 0;
    paths = [];
    answer = (_request, response) => response.writeHead(302, { location: '/elsewhere' }).end('moved');
    expect((await fetch(url, init())).status).toBe(302);
    answer = (_request, response) => response.end('[1]');
    for (const _ of [1, 2, 3]) expect(await (await fetch(url, init())).text()).toBe('[1]');
    expect(paths).toEqual(['/analyze', '/analyze', '/analyze', '/analyze']);
    expect(connections).toBeLessThan(4);
    await calls.close();
    await expect(fetch(url, init())).rejects.toThrow('the gateway is stopping');
  });

  it('calls through the proxy of the gateway', async () => {
    const proxy = await startHttpProxy();
    const calls = new ServerCalls(() => `http://127.0.0.1:${proxy.port}`);
    answer = (_request, response) => response.end('[1]');
    const named = url.replace('127.0.0.1', 'presidio.test');
    for (const reachable of ['anywhere', 'no local addresses'] as const) {
      expect(await (await calls.fetchFrom(reachable)(named, init())).text()).toBe('[1]');
    }
    expect(proxy.requests).toEqual([`POST ${named}`, `POST ${named}`]);
    await calls.close();
    await proxy.close();
  });

  it('refuses local addresses where they are not reachable', async () => {
    const calls = new ServerCalls(withoutProxy);
    const fetch = calls.fetchFrom('no local addresses');
    paths = [];
    await expect(fetch(url, init())).rejects.toThrow('its address is loopback: declare the guardrail');
    await expect(fetch('http://169.254.169.254/analyze', init())).rejects.toThrow('cloud metadata');
    await expect(fetch(url.replace('127.0.0.1', 'localhost'), init())).rejects.toThrow('loopback');
    expect(paths).toEqual([]);
    await calls.close();
  });

  it('fails for an answer that is too large, too late, or cancelled, and names only the origin', async () => {
    const calls = new ServerCalls(withoutProxy, { callMs: 300 });
    const fetch = calls.fetchFrom('anywhere');
    answer = (_request, response) => response.end('x'.repeat(MAX_SERVER_ANSWER_BYTES + 1));
    const { origin } = new URL(url);
    await expect(fetch(url, init())).rejects.toThrow(
      `the call of ${origin} failed: it answered with more than ${MAX_SERVER_ANSWER_BYTES} bytes`,
    );
    // The headers arrive, and the body never ends.
    answer = (_request, response) => response.writeHead(200).write('[');
    await expect(fetch(url, init())).rejects.toThrow(`the call of ${origin} failed: it did not answer within 0.3 s`);
    const client = new AbortController();
    answer = () => client.abort();
    await expect(fetch(url, init(client.signal))).rejects.toThrow('the call was cancelled');
    await calls.close();
  });
});
