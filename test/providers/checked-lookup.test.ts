/** Connections of providers that were set up at run time are opened only to checked addresses. */

import { once } from 'node:events';
import { createServer, type LookupFunction, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createProvider } from '../../src/providers/create-provider.ts';
import type { ProviderFailure } from '../../src/providers/provider.ts';
import { withoutProxy } from '../../src/providers/proxies.ts';
import { createTransport, type TransportOptions } from '../../src/providers/transport.ts';

let canary: Server;
let port = 0;
let connections = 0;
beforeAll(async () => {
  canary = createServer((socket: Socket) => {
    connections += 1;
    socket.on('error', () => {});
    socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok');
  }).listen(0, '127.0.0.1');
  await once(canary, 'listening');
  const address = canary.address();
  port = typeof address === 'object' && address !== null ? address.port : 0;
});
beforeEach(() => {
  connections = 0;
});
afterAll(() => canary.close());

/** Returns one list of addresses after the other, and counts. */
function resolverOf(...answers: string[][]): LookupFunction & { requestCount: () => number } {
  let requestCount = 0;
  const lookup: LookupFunction = (_name, options, callback) => {
    const addresses = answers[Math.min(requestCount++, answers.length - 1)] ?? [];
    const all = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
    if (options.all === true) callback(null, all);
    else callback(null, all[0]?.address ?? '', all[0]?.family);
  };
  return Object.assign(lookup, { requestCount: () => requestCount });
}

async function outcomeOf(options: Partial<TransportOptions>): Promise<string> {
  const transport = createTransport({
    provider: 'p',
    origin: `http://rebound.example:${port}`,
    proxyOf: withoutProxy,
    timeouts: { connectMs: 200 },
    localAddresses: false,
    ...options,
  });
  try {
    const request = { method: 'GET', path: '/', headers: [], signal: new AbortController().signal };
    const reply = await transport.send(request);
    return (await reply.body.bytes(100)).toString();
  } catch (error) {
    return (error as ProviderFailure).message;
  } finally {
    await transport.close();
  }
}

const REFUSED = /resolves to an address that is not allowed/;

describe('a provider that was set up at run time', () => {
  test.each([
    [['127.0.0.1']],
    [['192.0.2.1', '127.0.0.1']],
    [['127.0.0.1', '192.0.2.1']],
    [['::ffff:127.0.0.1']],
    [['0.0.0.0']],
    [['::1']],
  ])('is not connected to when its name resolves to %j', async (addresses) => {
    expect(await outcomeOf({ lookup: resolverOf(addresses) })).toMatch(REFUSED);
    expect(connections).toBe(0);
  });

  test('is connected to at the address that was checked: its name is resolved once', async () => {
    const lookup = resolverOf(['192.0.2.1'], ['127.0.0.1']);
    expect(await outcomeOf({ lookup })).toMatch(/could not be reached/);
    expect(lookup.requestCount()).toBe(1);
    expect(connections).toBe(0);
  });

  test.each([
    ['http', 'http'],
    ['https', 'http'],
    ['http', 'socks5'],
    ['https', 'socks5h'],
  ])('is not reached through a proxy whose name resolves to loopback (%s through %s)', async (scheme, through) => {
    const proxied = { origin: `${scheme}://192.0.2.1`, proxyUrl: `${through}://proxy.example:${port}` };
    expect(await outcomeOf({ ...proxied, lookup: resolverOf(['127.0.0.1']) })).toMatch(REFUSED);
    expect(connections).toBe(0);
  });

  test.each([
    'http://127.0.0.1:1/v1',
    'http://2130706433/v1',
    'http://0x7f.1/v1',
    'http://0177.0.0.1/v1',
    'http://127.0.0.1./v1',
    'http://[::ffff:127.0.0.1]/v1',
    'http://[fd00:ec2::254]/v1',
  ])('is not made at %s', async (baseUrl) => {
    const config = {
      name: 'p',
      type: 'vllm',
      apiKeys: [],
      models: [],
      modelsMode: 'fallback',
      options: {},
      proxyOf: withoutProxy,
    } as const;
    expect(() => createProvider({ ...config, baseUrl, source: 'stored' })).toThrow('ALLOW_PRIVATE_PROVIDERS');
    const proxied = { ...config, baseUrl: 'https://192.0.2.1/v1', proxyUrl: baseUrl };
    expect(() => createProvider({ ...proxied, source: 'stored' })).toThrow('ALLOW_PRIVATE_PROVIDERS');
    for (const allowed of [{ source: 'environment' }, { source: 'file' }, { source: 'stored', localAddresses: true }])
      await createProvider({ ...config, baseUrl, ...(allowed as { source: 'file' }) }).close();
  });
});

test('a provider of the configuration is connected to at loopback', async () => {
  expect(await outcomeOf({ localAddresses: true, lookup: resolverOf(['127.0.0.1']) })).toBe('ok');
});
