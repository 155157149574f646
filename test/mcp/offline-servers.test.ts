/** Servers that cannot be reached, and are tried again. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import type { McpServer, McpServers } from '../../src/mcp/mcp-server.ts';
import { Upstreams } from '../../src/mcp/server-sessions.ts';
import { ServerTransports } from '../../src/mcp/server-transports.ts';
import { ToolDefinitions } from '../../src/mcp/tool-definitions.ts';
import { mcpToolsView } from '../../src/projections/mcp-tools.ts';
import { startScriptedMcp } from '../support/scripted-mcp.ts';

const definition: McpServer = {
  ...{ slug: 'one', name: 'One', transport: 'streamable_http', headers: {}, enabled: true, toolTimeoutSeconds: 5 },
  ...{ pin: false, managed: true },
};

function upstreamsOf(server: McpServer, retryMs: number, idleMs = 60_000) {
  const all = new Map([[server.slug, server]]);
  const servers: McpServers = {
    version: 1,
    get: (slug) => all.get(slug),
    all: () => all,
    visibleTo: () => [...all.values()],
    authorization: async () => ({ authorization: 'Bearer a-secret-token' }),
    secretsOf: () => ['a-refresh-token'],
  };
  const view = { state: mcpToolsView.initial(), whenProcessed: async () => {} };
  return new Upstreams({
    servers,
    transports: new ServerTransports({ proxyOf: () => undefined, allowsLocalServers: server.managed }),
    definitions: new ToolDefinitions({ log: new MemoryLog(), view }),
    toolCalls: { call: () => Promise.reject(new Error('no tool is called here')), isGuarded: () => false },
    version: '1',
    retryMs,
    idleMs,
  });
}

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
