/** What clients and servers can make the gateway hold. */
import { afterAll, describe, expect, it } from 'vitest';
import { newKey } from '../support/managed-keys.ts';
import { beginSession, mcpClient, sendMessage } from '../support/mcp-client.ts';
import { type ScriptedMcp, startScriptedMcp } from '../support/scripted-mcp.ts';
import { errorOf, json, withGateway } from '../support/with-gateway.ts';

let server: ScriptedMcp;
/** Its lists are those of the tests. */
let odd: ScriptedMcp;
let hanging = 0;
const allHang = Promise.withResolvers<void>();

const gateway = withGateway(async () => {
  server = await startScriptedMcp({
    hang: {
      call() {
        hanging += 1;
        if (hanging === 64) allHang.resolve();
        return new Promise(() => {});
      },
    },
    large: { call: () => 'x'.repeat(33 * 1024 * 1024) },
  });
  odd = await startScriptedMcp({ echo: { call: () => 'echo' } });
  return {
    env: {
      MCP_SERVERS: JSON.stringify([
        { name: 'Scripted', url: server.url },
        { name: 'Endless', url: server.url },
        { name: 'Odd', url: odd.url },
      ]),
    },
  };
});
afterAll(() => Promise.all([server.close(), odd.close()]));

describe('sessions', () => {
  it('of one key are at most 100', async () => {
    const key = await newKey(gateway, { user_path: '/many' });
    const sessions = await Promise.all(Array.from({ length: 100 }, () => beginSession(key.fetch, '/mcp')));
    expect(sessions.every(({ response }) => response.status === 200)).toBe(true);
    const refused = await beginSession(key.fetch, '/mcp');
    expect(await errorOf(refused.response, 429)).toMatchObject({ code: 'too_many_mcp_sessions' });
    await key.fetch('/mcp', { method: 'DELETE', headers: sessions[0]?.session ?? {} });
    expect((await beginSession(key.fetch, '/mcp')).response.status).toBe(200);
  });

  it('run at most 64 requests at a time', async () => {
    const { session } = await beginSession(gateway.fetch, '/mcp/scripted');
    const call = (id: number) =>
      sendMessage(gateway.fetch, '/mcp/scripted', { id, method: 'tools/call', params: { name: 'hang' } }, session);
    const running = Array.from({ length: 64 }, (_, id) => call(id));
    await allHang.promise;
    expect((await call(64)).message).toMatchObject({ error: { code: -32000, message: expect.stringContaining('64') } });
    await gateway.fetch('/mcp/scripted', { method: 'DELETE', headers: session });
    await Promise.all(running);
  });
});

/** Of objects in one another. */
const nested = (levels: number) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;

describe('a server', () => {
  it('sends messages of a bounded size', async () => {
    const client = await mcpClient(gateway.url, { path: '/mcp/scripted' });
    await expect(client.callTool({ name: 'large' })).rejects.toMatchObject({ data: { status: 502 } });
    await client.close();
  });

  it('has lists that end', async () => {
    server.results.set('tools/list', () => ({ tools: [], nextCursor: 'more' }));
    const client = await mcpClient(gateway.url, { path: '/mcp/endless' });
    await expect(client.listTools()).rejects.toMatchObject({
      data: { status: 502 },
      message: expect.stringContaining('200 pages'),
    });
    expect(server.messages.filter(({ method }) => method === 'tools/list')).toHaveLength(200);
    server.results.clear();
    await client.close();
  });

  it('has lists of at most 16 MiB in all pages', async () => {
    const description = 'x'.repeat(6 * 1024 * 1024);
    const tool = { name: 'large', description, inputSchema: { type: 'object' } };
    odd.results.set('tools/list', () => ({ tools: [tool], nextCursor: 'more' }));
    const client = await mcpClient(gateway.url, { path: '/mcp/odd' });
    const before = odd.messages.length;
    await expect(client.listTools()).rejects.toMatchObject({
      data: { status: 502 },
      message: expect.stringContaining('16777216 bytes'),
    });
    expect(odd.messages.slice(before).filter(({ method }) => method === 'tools/list')).toHaveLength(3);
    odd.results.clear();
    await client.close();
  });

  it.each([201, 5_000])('with a definition of %i levels is left out of /mcp alone, and says why', async (levels) => {
    odd.results.set('tools/list', () => Buffer.from(`{"tools":[{"name":"deep","inputSchema":${nested(levels)}}]}`));
    await gateway.fetch('/admin/mcp-servers/odd/reconnect', { method: 'POST' });
    const key = await newKey(gateway, { user_path: '/all' });
    const client = await mcpClient(gateway.url, { key: key.value });
    const names = (await client.listTools()).tools.map(({ name }) => name);
    expect(names).toContain('scripted_large');
    expect(names.some((name) => name.startsWith('odd_'))).toBe(false);
    const shown = await json(await gateway.fetch('/admin/mcp-servers/odd'));
    expect(shown).toMatchObject({ status: 'degraded', last_error: expect.stringContaining('200 levels') });
    const catalogue = await gateway.fetch('/admin/mcp-servers/odd/catalog');
    expect(await errorOf(catalogue, 502)).toMatchObject({ message: expect.stringContaining('200 levels') });
    odd.results.clear();
    await gateway.fetch('/admin/mcp-servers/odd/reconnect', { method: 'POST' });
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('odd_echo');
    expect(await json(await gateway.fetch('/admin/mcp-servers/odd'))).toMatchObject({ status: 'connected' });
    await client.close();
  });
});
