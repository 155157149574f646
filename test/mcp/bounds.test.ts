/** What clients and servers can make the gateway hold. */
import { afterAll, describe, expect, it } from 'vitest';
import { newKey } from '../support/managed-keys.ts';
import { beginSession, mcpClient, sendMessage } from '../support/mcp-client.ts';
import { type ScriptedMcp, startScriptedMcp } from '../support/scripted-mcp.ts';
import { errorOf, withGateway } from '../support/with-gateway.ts';

let server: ScriptedMcp;
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
  return {
    env: {
      MCP_SERVERS: JSON.stringify([
        { name: 'Scripted', url: server.url },
        { name: 'Endless', url: server.url },
      ]),
    },
  };
});
afterAll(() => server.close());

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

describe('a server', () => {
  it('sends messages of a bounded size', async () => {
    const client = await mcpClient(gateway.url, { path: '/mcp/scripted' });
    await expect(client.callTool({ name: 'large' })).rejects.toMatchObject({ data: { status: 502 } });
    await client.close();
  });

  it('has lists that end', async () => {
    server.results.set('tools/list', () => ({ tools: [], nextCursor: 'more' }));
    const client = await mcpClient(gateway.url, { path: '/mcp/endless' });
    await expect(client.listTools()).rejects.toMatchObject({ data: { status: 502 }, message: /200 pages/ });
    expect(server.messages.filter(({ method }) => method === 'tools/list')).toHaveLength(200);
    server.results.clear();
    await client.close();
  });
});
