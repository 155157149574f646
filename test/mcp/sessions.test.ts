/** Sessions of clients: whose they are, how they end, and what reaches which client. */
import { Client } from '@modelcontextprotocol/client';
import { afterAll, describe, expect, it } from 'vitest';
import { MASTER_KEY } from '../support/gateway.ts';
import { newKey } from '../support/managed-keys.ts';
import { beginSession, mcpClient, sendMessage, transportTo } from '../support/mcp-client.ts';
import { type ScriptedMcp, startScriptedMcp } from '../support/scripted-mcp.ts';
import { errorOf, withGateway } from '../support/with-gateway.ts';

let server: ScriptedMcp;
const tools = { echo: { call: ({ text }: { text: string }) => `echo: ${text}` } };

const gateway = withGateway(async () => {
  server = await startScriptedMcp(tools);
  return {
    env: {
      MCP_ALLOWED_ORIGINS: 'https://tools.example',
      MCP_SERVERS: JSON.stringify([
        { name: 'One', url: server.url, description: 'The first' },
        { name: 'Two', url: server.url },
        { name: 'Gone', url: 'http://127.0.0.1:9/mcp' },
      ]),
    },
  };
});
afterAll(() => server.close());

const ping = { id: 1, method: 'ping' };

describe('Mcp-Session-Id', () => {
  it('is that of one key and one address', async () => {
    const mine = await newKey(gateway, { user_path: '/mine' });
    const other = await newKey(gateway, { user_path: '/mine' });
    const { session } = await beginSession(mine.fetch, '/mcp/one');
    expect((await sendMessage(mine.fetch, '/mcp/one', ping, session)).message).toMatchObject({ id: 1, result: {} });
    for (const [fetch, path] of [
      [other.fetch, '/mcp/one'],
      [mine.fetch, '/mcp/two'],
      [mine.fetch, '/mcp'],
    ] as const) {
      expect(await errorOf((await sendMessage(fetch, path, ping, session)).response, 404)).toMatchObject({
        code: 'mcp_session_not_found',
      });
    }
    const ended = await mine.fetch('/mcp/one', { method: 'DELETE', headers: session });
    expect(ended.status).toBe(204);
    expect((await sendMessage(mine.fetch, '/mcp/one', ping, session)).response.status).toBe(404);
  });

  it('is needed, and an unknown one is 404, as after a restart', async () => {
    expect(await errorOf((await sendMessage(gateway.fetch, '/mcp/one', ping)).response, 400)).toMatchObject({
      param: 'Mcp-Session-Id',
    });
    const unknown = { 'mcp-session-id': '0-3d6f0a52-5f55-4c8d-9d1e-0f5d8d0c7e11' };
    expect((await sendMessage(gateway.fetch, '/mcp/one', ping, unknown)).response.status).toBe(404);
  });

  it('ends with the key', async () => {
    const key = await newKey(gateway, { user_path: '/soon' });
    const { session } = await beginSession(key.fetch, '/mcp/one');
    const listening = await key.fetch('/mcp/one', { headers: { accept: 'text/event-stream', ...session } });
    expect(listening.status).toBe(200);
    await gateway.fetch(`/admin/auth-keys/${key.id}/deactivate`, { method: 'POST' });
    // The stream ends with the session.
    await listening.text().catch(() => {});
    expect((await sendMessage(key.fetch, '/mcp/one', ping, session)).response.status).toBe(401);
  });
});

describe('a request', () => {
  it.each([
    ['no JSON', '{'],
    ['no message', '{"jsonrpc":"1.0"}'],
  ])('with %s is refused', async (_what, body) => {
    const { session } = await beginSession(gateway.fetch, '/mcp/one');
    const answer = await gateway.fetch('/mcp/one', {
      method: 'POST',
      body,
      headers: { ...session, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    });
    await errorOf(answer, 400);
  });

  it('of an unknown protocol version, or without the media types, is refused', async () => {
    const unknown = { 'mcp-protocol-version': '1999-01-01' };
    expect((await sendMessage(gateway.fetch, '/mcp/one', ping, unknown)).response.status).toBe(400);
    const json = { accept: 'application/json' };
    expect((await sendMessage(gateway.fetch, '/mcp/one', ping, json)).response.status).toBe(406);
  });

  it('of a web page needs an origin that is allowed', async () => {
    const of = (origin: string) => beginSession(gateway.fetch, '/mcp/one', { origin });
    expect(await errorOf((await of('https://evil.example')).response, 403)).toMatchObject({
      code: 'origin_not_allowed',
    });
    expect((await of('https://tools.example')).response.status).toBe(200);
    expect((await of(gateway.url)).response.status).toBe(200);
  });

  it('of an unknown method, or with a cursor, gets an error', async () => {
    const { session } = await beginSession(gateway.fetch, '/mcp/one');
    const send = async (message: object) => (await sendMessage(gateway.fetch, '/mcp/one', message, session)).message;
    expect(await send({ id: 2, method: 'tasks/list' })).toMatchObject({ id: 2, error: { code: -32601 } });
    expect(await send({ id: 3, method: 'tools/list', params: { cursor: 'x' } })).toMatchObject({
      error: { code: -32602 },
    });
  });
});

describe('/mcp', () => {
  it('has the tools of all servers that can be reached, by prefixed names', async () => {
    const client = await mcpClient(gateway.url);
    const { tools: listed } = await client.listTools();
    expect(listed.map(({ name }) => name).sort()).toEqual(['one_echo', 'two_echo']);
    const { session } = await beginSession(gateway.fetch, '/mcp');
    const plain = await sendMessage(gateway.fetch, '/mcp', { id: 1, method: 'tools/list' }, session);
    expect(plain.message.result.tools[0]).toMatchObject({ 'x-unknown': 'kept' });
    expect(client.getInstructions()).toContain('one_: The first');
    expect(await client.callTool({ name: 'two_echo', arguments: { text: 'hi' } })).toMatchObject({
      content: [{ type: 'text', text: 'echo: hi' }],
    });
    await expect(client.callTool({ name: 'three_echo' })).rejects.toMatchObject({ data: { code: 'tool_not_found' } });
    await client.close();
  });

  it('is narrowed by X-MCP-Servers', async () => {
    const client = await mcpClient(gateway.url, { headers: { 'x-mcp-servers': 'two, unknown' } });
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['two_echo']);
    await expect(client.callTool({ name: 'one_echo', arguments: {} })).rejects.toMatchObject({ data: { status: 404 } });
    await client.close();
  });

  it('answers 502 for a server that cannot be reached, and 404 for an unknown one', async () => {
    const gone = await beginSession(gateway.fetch, '/mcp/gone');
    expect(await errorOf(gone.response, 502)).toMatchObject({ code: 'mcp_server_unreachable', provider: 'mcp:gone' });
    expect((await beginSession(gateway.fetch, '/mcp/unknown')).response.status).toBe(404);
  });
});

describe('a client of version 2026-07-28', () => {
  it('that speaks older versions, too, uses one of these', async () => {
    const client = new Client({ name: 'a test', version: '1' }, { versionNegotiation: { mode: 'auto' } });
    await client.connect(transportTo(gateway.url, '/mcp/one', { authorization: `Bearer ${MASTER_KEY}` }));
    expect((await client.callTool({ name: 'echo', arguments: { text: 'hi' } })).content).toMatchObject([
      { text: 'echo: hi' },
    ]);
    await client.close();
  });
});

describe('a session at a server', () => {
  it('is that of one client, and ends with it', async () => {
    const before = server.sessions.size;
    const clients = await Promise.all([1, 2].map(() => mcpClient(gateway.url, { path: '/mcp/one' })));
    expect(server.sessions.size).toBe(before + 2);
    for (const client of clients) {
      const { session } = { session: String(Reflect.get(client.transport ?? {}, 'sessionId')) };
      await gateway.fetch('/mcp/one', { method: 'DELETE', headers: { 'mcp-session-id': session } });
    }
    await expect.poll(() => server.sessions.size).toBe(before);
  });

  it('gets the names and versions of the client', async () => {
    const client = await mcpClient(gateway.url, { path: '/mcp/one' });
    const begun = server.messages.findLast(({ method }) => method === 'initialize');
    expect(begun?.params).toMatchObject({ protocolVersion: '2025-11-25', clientInfo: { name: 'a test' } });
    expect(client.getServerVersion()).toMatchObject({ name: 'scripted' });
    await client.close();
  });
});
