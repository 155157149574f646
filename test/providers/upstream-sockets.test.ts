/** The way of a WebSocket to a provider: proxies, certificates, addresses, limits of time, and the end of a provider. */
import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo, LookupFunction } from 'node:net';
import type { Duplex } from 'node:stream';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import { createProvider } from '../../src/providers/create-provider.ts';
import type { Provider, ProxiedProviderConfig } from '../../src/providers/provider.ts';
import { withoutProxy } from '../../src/providers/proxies.ts';
import { createTransport } from '../../src/providers/transport.ts';
import { createAuthority, missingOpenssl } from '../support/certificates.ts';
import { startHttpProxy, startSocksProxy } from '../support/forward-proxies.ts';
import { createSocketProvider, type SocketProvider } from '../support/socket-provider.ts';

const closing: (() => unknown)[] = [];
afterAll(() => Promise.all(closing.map((close) => close())));

const config: Omit<ProxiedProviderConfig, 'baseUrl'> = {
  ...{ name: 'far', type: 'openai', apiKeys: ['sk-1'], models: [], modelsMode: 'allowlist', options: {} },
  ...{ source: 'stored', localAddresses: true, proxyOf: withoutProxy },
};

/** A provider whose name only the proxy can resolve. */
async function started(given: Partial<ProxiedProviderConfig> = {}, host = '127.0.0.1') {
  const upstream = createSocketProvider({ models: ['far'] });
  const { port } = new URL(await upstream.listen());
  return { upstream, ...made(`http://${host}:${port}/v1`, given, upstream) };
}

function made(baseUrl: string, given: Partial<ProxiedProviderConfig>, upstream?: SocketProvider) {
  const provider = createProvider({ ...config, baseUrl, ...given });
  const client = new AbortController();
  closing.push(
    () => client.abort(),
    () => provider.close(),
    () => upstream?.close(),
  );
  return { provider, client };
}

function send(
  provider: Provider,
  client: AbortSignal,
  { signal = AbortSignal.timeout(20_000), ...more }: Readonly<Record<string, unknown>> & { signal?: AbortSignal } = {},
) {
  const body = { model: 'far', input: 'Hello!', stream: true, ...more };
  return provider.send({
    ...{ dialect: 'responses', model: 'far', body: Buffer.from(JSON.stringify(body)), stream: true, client },
    ...{ requestId: 'r-1', signal },
  });
}

async function textOf(reply: ReturnType<typeof send>): Promise<string> {
  let text = '';
  await (await reply).body.pieces((piece) => {
    text += piece.toString();
  });
  return text;
}

describe.each([
  ['http', startHttpProxy],
  ['socks5h', startSocksProxy],
] as const)('a WebSocket behind a proxy with %s', (scheme, start) => {
  it('takes it, and only the proxy gets the password of the proxy', async () => {
    const proxy = await start({ user: 'me', password: 'pass word' });
    closing.push(proxy.close);
    const proxyUrl = `${scheme}://me:pass%20word@127.0.0.1:${proxy.port}`;
    const { provider, client, upstream } = await started({ proxyUrl }, 'api.provider.test');
    expect(await textOf(send(provider, client.signal))).toContain('event: response.completed\ndata: {');
    expect(upstream.connections).toHaveLength(1);
    expect(upstream.connections[0]?.headers).not.toHaveProperty('proxy-authorization');
    expect(upstream.connections[0]?.headers).toMatchObject({ authorization: 'Bearer sk-1' });
    expect(proxy.requests[0]).toContain('api.provider.test');
  });

  it('is not opened when the proxy refuses it, and the request says why', async () => {
    const proxy = await start();
    closing.push(proxy.close);
    proxy.refuse();
    const proxyUrl = `${scheme}://127.0.0.1:${proxy.port}`;
    const { provider, client, upstream } = await started({ proxyUrl, localAddresses: true }, 'api.provider.test');
    // An HTTP proxy forwards a request without a tunnel.
    if (scheme === 'http') expect(await textOf(send(provider, client.signal))).toContain('response.completed');
    else await expect(send(provider, client.signal)).rejects.toMatchObject({ kind: 'unreachable' });
    expect(upstream.connections).toHaveLength(0);
  });
});

describe('a WebSocket to a provider that was added at run time', () => {
  it.each([
    ['direct', undefined],
    ['through SOCKS', startSocksProxy],
  ])('is not opened to a name with a local address, %s', async (_how, start) => {
    const proxy = await start?.();
    if (proxy !== undefined) closing.push(proxy.close);
    const { upstream } = await started();
    const { port } = new URL(await upstream.listen());
    const lookup: LookupFunction = (_name, { all }, done) =>
      all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4);
    const open = (localAddresses: boolean) => {
      const origin = `http://api.provider.test:${port}`;
      const proxyOf = () => (proxy === undefined ? undefined : `socks5://127.0.0.1:${proxy.port}`);
      const transport = createTransport({ provider: 'far', origin, proxyOf, lookup, localAddresses });
      closing.push(() => transport.close());
      return transport.open();
    };
    await expect(open(false)).rejects.toMatchObject({ code: 'ERR_LOCAL_ADDRESS' });
    (await open(true)).destroy();
  });
});

describe.skipIf(missingOpenssl() !== undefined)('a WebSocket over TLS', () => {
  it('is accepted from the authority of the provider only', async () => {
    const authority = createAuthority();
    closing.push(authority.remove);
    const { cert, key } = authority.issue('localhost', 'DNS:localhost');
    const server = createServer({ cert, key }, (_request, response) => response.writeHead(404).end());
    const sockets = new WebSocketServer({ server });
    let opened = 0;
    sockets.on('connection', (socket) => {
      opened += 1;
      socket.on('message', () => socket.send('{"type":"response.completed","response":{"id":"resp_tls"}}'));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    closing.push(
      () => server.closeAllConnections(),
      () => server.close(),
    );
    const { port } = server.address() as AddressInfo;
    const url = `https://localhost:${port}/v1`;
    const trusted = made(url, { tls: { ca: authority.ca.cert } });
    expect(await textOf(send(trusted.provider, trusted.client.signal))).toContain('resp_tls');
    expect(opened).toBe(1);
    const other = made(url, {});
    await expect(send(other.provider, other.client.signal)).rejects.toMatchObject({ kind: 'unreachable' });
    expect(opened).toBe(1);
    for (const { client } of [trusted, other]) client.abort();
    for (const socket of sockets.clients) socket.terminate();
  });
});

describe('a handshake without an answer', () => {
  it('takes as long as a connection may take, and then its call HTTP', async () => {
    const { provider, client, upstream } = await started({ timeouts: { connectMs: 100 } });
    upstream.refuse('silent');
    for (let n = 0; n < 2; n++) expect(await textOf(send(provider, client.signal))).toContain('response.completed');
    // The second call did not try it again.
    expect(upstream.silent).toHaveLength(1);
    await closed(upstream);
  });

  it.each([
    ['a cancelled call', (end: Ends) => end.call.abort()],
    ['its client', (end: Ends) => end.client.abort()],
    ['its provider', (end: Ends) => void end.provider.close()],
  ])('ends with %s', async (what, abort) => {
    const { provider, client, upstream } = await started();
    upstream.refuse('silent');
    const call = new AbortController();
    const reply = send(provider, client.signal, { signal: call.signal });
    const ended = reply.then(({ status }) => status).catch((failure: unknown) => failure);
    await vi.waitUntil(() => upstream.silent.length === 1);
    abort({ call, client, provider });
    await closed(upstream);
    const end = await ended;
    if (what === 'a cancelled call') expect(end).toMatchObject({ kind: 'aborted', isSent: false });
    else if (what === 'its client') expect(end).toBe(200);
  });
});

/** The last connection, on which the provider reads nothing and ends nothing any more. */
function deaf({ connections }: SocketProvider): Duplex {
  const stream = connections.at(-1)?.stream;
  if (stream === undefined) throw new Error('there is no connection');
  for (const event of ['data', 'end']) stream.removeAllListeners(event);
  return stream;
}

interface Ends {
  readonly call: AbortController;
  readonly client: AbortController;
  readonly provider: Provider;
}

function closed({ silent }: SocketProvider): Promise<unknown> {
  return Promise.all(silent.map((socket) => socket.destroyed || once(socket, 'close')));
}

describe('a connection', () => {
  it('is used by calls with its credential, and each client has one', async () => {
    const { provider, client, upstream } = await started({ apiKeys: ['sk-1', 'sk-2', 'sk-3'] });
    const second = new AbortController();
    closing.push(() => second.abort());
    for (let n = 0; n < 3; n++) await textOf(send(provider, client.signal));
    await textOf(send(provider, second.signal));
    expect(upstream.connections).toHaveLength(2);
    expect(upstream.connections[0]?.messages).toHaveLength(3);
  });

  it('does not begin a call that must not begin, and answers none that is cancelled', async () => {
    let may = true;
    const { provider, client, upstream } = await started({ mayCall: () => may });
    await textOf(send(provider, client.signal));
    may = false;
    await expect(send(provider, client.signal)).rejects.toMatchObject({ kind: 'unreachable' });
    expect(upstream.connections[0]?.messages).toHaveLength(1);
    const aborted = AbortSignal.abort();
    const call = { dialect: 'responses', body: Buffer.from('{}'), stream: true, client: client.signal } as const;
    await expect(provider.send({ ...call, requestId: 'r', signal: aborted })).rejects.toMatchObject({
      kind: 'aborted',
    });
  });

  it('has the time limits of HTTP, and ends when one is exceeded', async () => {
    const limit = (ms: number, setting: string) => ({ ms, setting });
    const timeouts = { headers: limit(150, 'FIRST'), idle: limit(150, 'SILENCE') };
    const { provider, client, upstream } = await started({ timeouts });
    upstream.script(() => {});
    await expect(send(provider, client.signal)).rejects.toMatchObject({
      kind: 'timeout',
      message: expect.stringContaining('FIRST'),
    });
    await upstream.connections[0]?.closed;
    upstream.script((_message, socket) => socket.send('{"type":"response.created","response":{"id":"resp_1"}}'));
    await expect(textOf(send(provider, client.signal))).rejects.toMatchObject({
      kind: 'idle',
      message: expect.stringContaining('SILENCE'),
    });
    expect(upstream.connections).toHaveLength(2);
  });

  it('passes messages on at the pace of their reader', async () => {
    const { provider, client, upstream } = await started();
    const count = 2_000;
    let buffered = 0;
    upstream.script((_message, socket) => {
      for (let n = 0; n < count; n++) socket.send(`{"type":"response.x","n":${n},"pad":"${'x'.repeat(10_000)}"}`);
      socket.send('{"type":"response.completed","response":{"id":"resp_1"}}');
      buffered = socket.bufferedAmount;
    });
    const { body } = await send(provider, client.signal);
    let events = 0;
    await body.pieces((piece) => {
      events += piece.toString().split('\n\n').length - 1;
      return new Promise((resolve) => setImmediate(resolve));
    });
    expect(events).toBe(count + 1);
    expect(buffered).toBeGreaterThan(0);
  });

  it('that announces a message of more than 16 MiB fails the call', async () => {
    const { provider, client, upstream } = await started();
    upstream.script((_message, socket) => socket.send(`{"type":"response.x","pad":"${'x'.repeat(17 * 1024 * 1024)}"}`));
    await expect(send(provider, client.signal)).rejects.toMatchObject({ kind: 'too_large' });
  });

  it('whose provider answers no ping is ended between calls', async () => {
    const { provider, client, upstream } = await started({ socketPingMs: 100 });
    await textOf(send(provider, client.signal));
    await once(deaf(upstream), 'end');
    expect(await textOf(send(provider, client.signal))).toContain('response.completed');
  });

  it('whose provider answers neither a call nor a ping is ended, and the call disconnected', async () => {
    const { provider, client, upstream } = await started({ socketPingMs: 100 });
    upstream.script(() => void deaf(upstream));
    await expect(send(provider, client.signal)).rejects.toMatchObject({ kind: 'disconnected' });
  });

  it.each([
    ['a Close frame', [0x88, 0]],
    ['a malformed frame', [0x83, 1, 97]],
  ])('ends at once with %s, although its provider leaves it open', async (_what, frame) => {
    const { provider, client, upstream } = await started();
    upstream.script(() => {
      deaf(upstream).write(Buffer.from(frame));
    });
    await expect(send(provider, client.signal)).rejects.toMatchObject({ kind: 'disconnected' });
    expect(await textOf(send(provider, client.signal))).toContain('response.completed');
    expect(upstream.connections).toHaveLength(1);
  });

  it('ends with its provider: at once, or after the call that it has', async () => {
    const { provider, client, upstream } = await started();
    const { body } = await send(provider, client.signal, { simulate: { holdAfterChunks: 2 } });
    const closed = provider.close('idle');
    upstream.simulated.control.release();
    let text = '';
    await body.pieces((piece) => {
      text += piece.toString();
    });
    expect(text).toContain('response.completed');
    await closed;
    await upstream.connections[0]?.closed;
    const second = await started();
    const held = await send(second.provider, second.client.signal, { simulate: { holdAfterChunks: 2 } });
    const ended = held.body.pieces(() => {});
    await Promise.all([expect(ended).rejects.toMatchObject({ kind: 'broken' }), second.provider.close()]);
    second.upstream.simulated.control.release();
  });
});
