/** Servers that cannot be reached, and are tried again. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Caller } from '../../src/commands/model-request/model-request.ts';
import { everything } from '../../src/commands/visibility.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { ClientSession } from '../../src/mcp/client-session.ts';
import type { McpServer, McpServers } from '../../src/mcp/mcp-server.ts';
import { Upstreams } from '../../src/mcp/server-sessions.ts';
import { ServerTransports } from '../../src/mcp/server-transports.ts';
import { ToolDefinitions } from '../../src/mcp/tool-definitions.ts';
import { mcpToolsView } from '../../src/projections/mcp-tools.ts';
import type { Answered } from '../support/answered.ts';
import { startScriptedMcp } from '../support/scripted-mcp.ts';

const definition: McpServer = {
  ...{ slug: 'one', name: 'One', transport: 'streamable_http', headers: {}, enabled: true, toolTimeoutSeconds: 5 },
  ...{ pin: false, managed: true },
};

const upstreamsOf = (server: McpServer, retryMs: number, idleMs?: number) =>
  upstreamsAndServers([server], retryMs, idleMs).upstreams;

function upstreamsAndServers(list: readonly McpServer[], retryMs: number, idleMs = 60_000) {
  const all = new Map(list.map((server) => [server.slug, server]));
  const servers: McpServers = {
    version: 1,
    get: (slug) => all.get(slug),
    all: () => all,
    visibleTo: () => [...all.values()],
    authorization: async () => ({ authorization: 'Bearer a-secret-token' }),
    secretsOf: () => ['a-refresh-token'],
  };
  const view = { state: mcpToolsView.initial(), whenProcessed: async () => {} };
  const upstreams = new Upstreams({
    servers,
    transports: new ServerTransports({
      proxyOf: () => undefined,
      allowsLocalServers: list.every(({ managed }) => managed),
    }),
    definitions: new ToolDefinitions({ log: new MemoryLog(), view }),
    toolCalls: { call: () => Promise.reject(new Error('no tool is called here')), isGuarded: () => false },
    version: '1',
    listMs: 1_500,
    retryMs,
    idleMs,
  });
  return { upstreams, servers };
}

/** The session of a client at all servers of `upstreams`. */
function sessionAt(upstreams: Upstreams, servers: McpServers) {
  const caller: Caller = { actor: 'master', authMethod: 'master_key', visibility: everything };
  const client = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'a test', version: '1' } };
  const session = new ClientSession(
    { servers, upstreams, slug: undefined, narrowedTo: undefined, caller, version: '1' },
    client,
  );
  const facts = { method: 'POST', path: '/mcp', headers: {}, requestId: 'a request', caller };
  const stream = { send: () => true, end: () => {} };
  let id = 0;
  return {
    session,
    async request(method: string, params = {}): Promise<Answered> {
      const { signal } = new AbortController();
      return session.answer({ jsonrpc: '2.0', id: ++id, method, params }, { facts, stream, signal, admit: () => {} });
    },
  };
}

describe('several servers', () => {
  it('are listed without one that does not answer soon, which is degraded until it does', async () => {
    const quick = await startScriptedMcp({ echo: { call: () => '' } });
    const slow = await startScriptedMcp({ late: { call: () => '' } });
    const { promise: waits, resolve: goOn } = Promise.withResolvers<void>();
    slow.results.set('tools/list', () => waits.then(() => ({ tools: [{ name: 'late', inputSchema: {} }] })));
    const both = [quick, slow].map(({ url }, at) => ({ ...definition, url, slug: at === 0 ? 'quick' : 'slow' }));
    const { upstreams, servers } = upstreamsAndServers(both, 60_000);
    const { session, request } = sessionAt(upstreams, servers);
    const names = async () => (await request('tools/list')).result.tools.map(({ name }: Answered) => name);
    // What the first connection of a process loads takes time.
    await upstreams.tools('quick', undefined);
    expect(await names()).toEqual(['quick_echo']);
    expect(upstreams.status('slow')).toMatchObject({ status: 'degraded', lastError: expect.stringContaining('1.5 s') });
    const back = new Promise<string>((resolve) => upstreams.follow({ changed: resolve }));
    goOn();
    expect(await back).toBe('slow');
    expect(await names()).toEqual(['quick_echo', 'slow_late']);
    expect(upstreams.status('slow')).toMatchObject({ status: 'connected', toolCount: 1 });
    await session.close();
    await upstreams.close();
    await Promise.all([quick.close(), slow.close()]);
  });

  it('are read from by what they list, the first by slug, and by templates only without a list', async () => {
    const all = await Promise.all(
      ['c', 'b', 'a'].map(async (slug) => {
        const server = await startScriptedMcp({});
        const isTemplate = slug === 'a';
        server.results.set('resources/list', () => ({
          resources: isTemplate ? [] : [{ uri: 'res://x/1', name: 'x' }],
        }));
        server.results.set('resources/templates/list', () => ({
          resourceTemplates: isTemplate ? [{ uriTemplate: 'res://{+any}', name: 'all' }] : [],
        }));
        server.results.set('resources/read', ({ uri }) => ({ contents: [{ uri, text: slug }] }));
        return { server, definition: { ...definition, url: server.url, slug } };
      }),
    );
    const { upstreams, servers } = upstreamsAndServers(
      all.map((one) => one.definition),
      60_000,
    );
    const { session, request } = sessionAt(upstreams, servers);
    const read = async (uri: string) => (await request('resources/read', { uri })).result.contents[0].text;
    expect(await read('res://x/1')).toBe('b');
    expect(await read('res://x/2')).toBe('a');
    await session.close();
    await upstreams.close();
    await Promise.all(all.map(({ server }) => server.close()));
  });
});

describe('a server', () => {
  it('that cannot be reached is degraded, and connected once it is back', async () => {
    const before = await startScriptedMcp({ echo: { call: () => 'echo' } });
    await before.close();
    const upstreams = upstreamsOf({ ...definition, url: before.url }, 20);
    expect(upstreams.status('one')).toMatchObject({ status: 'connecting', toolCount: 0 });
    await expect(upstreams.tools('one', undefined)).rejects.toMatchObject({
      status: 502,
      code: 'mcp_server_unreachable',
    });
    expect(upstreams.status('one')).toMatchObject({ status: 'degraded', lastError: expect.stringMatching(/./) });
    const back = new Promise<string>((resolve) => upstreams.follow({ changed: resolve }));
    const again = await startScriptedMcp({ echo: { call: () => 'echo' } }, Number(new URL(before.url).port));
    expect(await back).toBe('one');
    expect((await upstreams.tools('one', undefined)).map(({ name }) => name)).toEqual(['echo']);
    expect(upstreams.status('one')).toMatchObject({ status: 'connected', toolCount: 1 });
    await upstreams.close();
    expect(again.sessions.size).toBe(0);
    await again.close();
  });

  it('of an administrator is not called at a local address', async () => {
    const server = await startScriptedMcp({});
    const upstreams = upstreamsOf({ ...definition, url: server.url, managed: false }, 60_000);
    await expect(upstreams.catalog('one')).rejects.toMatchObject({ message: expect.stringContaining('loopback') });
    expect(server.messages).toEqual([]);
    await upstreams.close();
    await server.close();
  });

  it.each([
    [403, 'text/plain', (token: string) => `not allowed: ${token}, a-refresh-token ${'x'.repeat(5_000)}`],
    [302, 'text/plain', (token: string) => token],
    [200, 'x/a-secret-token', (token: string) => token],
    [200, 'application/json', (token: string) => token],
    [200, 'application/json', () => 'a-secret-token'],
    [200, 'application/json', (token: string) => JSON.stringify({ [token]: 1 })],
  ])('that repeats its credentials with status %i, as %s, does not show them', async (status, type, bodyOf) => {
    const server = createServer((request, response) => {
      const { authorization = '' } = request.headers;
      const location = `http://127.0.0.1:9/a-secret-token`;
      response
        .writeHead(status, { 'content-type': type, ...(status === 302 && { location }) })
        .end(bodyOf(authorization));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const upstreams = upstreamsOf({ ...definition, url: `http://127.0.0.1:${port}/mcp` }, 60_000);
    const { message } = await upstreams.tools('one', undefined).catch((error: unknown) => Object(error));
    if (status === 403) expect(message).toMatch(/403: not allowed: \[redacted\], \[redacted\] x+…$/);
    expect(message.length).toBeLessThan(400);
    expect(`${message} ${upstreams.status('one').lastError}`).not.toMatch(/a-sec|a-refresh|invalid_union/);
    await upstreams.close();
    server.close();
  });

  it('that is a process ends when it is idle, and is started again', async () => {
    const program = { command: process.execPath, args: [join(import.meta.dirname, 'conformance-server.ts')] };
    const server: McpServer = { ...definition, transport: 'stdio', ...program };
    const upstreams = upstreamsOf(server, 60_000, 50);
    const client = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'a test', version: '1' } };
    const listener = { question: () => Promise.reject(new Error('no question')), notification: () => {} };
    const session = upstreams.session(server, client, undefined, listener);
    const ping = () => session.request('ping', {}, { signal: new AbortController().signal, timeoutMs: 5_000 });
    expect(await ping()).toEqual({});
    expect(session.isOpen).toBe(true);
    await expect.poll(() => session.isOpen).toBe(false);
    expect(await ping()).toEqual({});
    await session.close();
    await upstreams.close();
  });

  it('lists what it offers, and withdraws what it ends', async () => {
    const server = await startScriptedMcp({ echo: { call: () => 'echo' }, other: { call: () => '' } });
    const upstreams = upstreamsOf({ ...definition, url: server.url, disallowedTools: ['other'] }, 60_000);
    expect(await upstreams.catalog('one')).toMatchObject({
      ...{ instructions: 'Call the tools.', tools: [{ name: 'echo' }], prompts: [], resources: [], templates: [] },
    });
    const lists = () => server.messages.filter(({ method }) => method === 'tools/list').length;
    await upstreams.tools('one', undefined);
    expect(lists()).toBe(1);
    await upstreams.reconnect('one');
    await upstreams.tools('one', undefined);
    expect(lists()).toBe(2);
    await expect(upstreams.catalog('none')).rejects.toMatchObject({ status: 404 });
    expect(upstreams.status('none').status).toBe('disabled');
    await upstreams.close();
    await server.close();
  });
});
