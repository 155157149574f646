/** Calls of tools through a gateway that is killed, and sessions of a service with several workers. */
import { request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { idOf } from '../../src/events/event.ts';
import { beginSession, mcpClient, sendMessage } from '../support/mcp-client.ts';
import { type ScriptedMcp, startScriptedMcp } from '../support/scripted-mcp.ts';
import { killAll, MASTER_KEY, serve, stopGateway, temporaryFolder } from './gateway-process.ts';
import { eventsIn } from './recorded-events.ts';

const folder = temporaryFolder();
let called = Promise.withResolvers<void>();
let server: ScriptedMcp;
let tests = 0;
let hanging = 0;
let hangs: (calls: number) => void = () => {};

beforeAll(async () => {
  server = await startScriptedMcp({
    echo: { call: ({ text }: { text: string }) => `echo: ${text}` },
    hang: {
      call() {
        called.resolve();
        hangs(++hanging);
        return new Promise(() => {});
      },
    },
  });
});
afterEach(() => {
  killAll();
  called = Promise.withResolvers();
  hanging = 0;
  hangs = () => {};
  tests += 1;
});
afterAll(async () => {
  killAll();
  await server.close();
  folder.remove();
});

const envOf = (workers: number) => ({
  GATEWAY_WORKERS: String(workers),
  MCP_SERVERS: JSON.stringify([{ name: 'Scripted', url: server.url }]),
});

describe.each([1, 2])('a gateway with %i workers', (workers) => {
  it('reports a call as failed that a kill has interrupted, and never makes it again', async () => {
    const dataDir = join(folder.path, String(tests));
    const env = envOf(workers);
    const first = await serve({ dataDir, env });
    const client = await mcpClient(first.url, { key: MASTER_KEY, path: '/mcp/scripted' });
    await client.callTool({ name: 'echo', arguments: { text: 'before' } });
    const before = server.calls('hang').length;
    const lost = client.callTool({ name: 'hang' }).catch((error: unknown) => error);
    await called.promise;
    first.process.kill('SIGKILL');
    await first.process.exited;
    await client.close().catch(() => {});
    expect(await lost).toBeInstanceOf(Error);

    const second = await serve({ dataDir, env });
    const later = await mcpClient(second.url, { key: MASTER_KEY, path: '/mcp/scripted' });
    await later.callTool({ name: 'echo', arguments: { text: 'after' } });
    await later.close();
    await stopGateway(second);
    expect(server.calls('hang').length).toBe(before + 1);
    const events = await eventsIn(dataDir);
    const stream = events.find(({ type, data }) => type === 'tool.called' && Object(data).tool === 'hang')?.stream;
    const ends = events.filter((event) => event.stream === stream && event.type.startsWith('exchange.'));
    expect(ends.map(({ type, data }) => [type, Object(data).reason])).toEqual([['exchange.failed', 'gateway_stopped']]);
    expect(idOf(stream ?? ends[0]?.stream ?? ('' as never))).not.toBe('');
  }, 60_000);
});

/** A request that shares its connection with no other. */
function onOwnConnection(url: URL, init: RequestInit, json: unknown): Promise<Response> {
  const headers = { ...Object.fromEntries(new Headers(init.headers)), authorization: `Bearer ${MASTER_KEY}` };
  return new Promise((resolve, reject) => {
    const sent = request(url, { agent: false, method: init.method ?? 'POST', headers }, async (answer) => {
      const body = await text(answer);
      const given = Object.entries(answer.headers).map(([name, value]) => [name, String(value)] as [string, string]);
      const status = answer.statusCode ?? 0;
      resolve(new Response(status === 204 ? null : body, { status, headers: given }));
    });
    sent.once('error', reject);
    sent.end(json === undefined ? undefined : JSON.stringify(json));
  });
}

describe('a service with 3 workers', () => {
  it('serves a session on whichever connection its requests arrive', async () => {
    const dataDir = join(folder.path, String(tests));
    const allCalled = new Promise<void>((resolve) => {
      hangs = (calls) => calls === 3 && resolve();
    });
    const service = await serve({ dataDir, env: { ...envOf(3), DRAIN_TIMEOUT: '0s' } });
    const send = (path: string, { json, ...init }: RequestInit & { json?: unknown }) =>
      onOwnConnection(new URL(path, service.url), init, json);
    const { session } = await beginSession(send, '/mcp/scripted');
    for (let id = 1; id <= 9; id++) {
      const call = { id, method: 'tools/call', params: { name: 'echo', arguments: { text: `call ${id}` } } };
      const { message } = await sendMessage(send, '/mcp/scripted', call, session);
      expect(message).toMatchObject({ id, result: { content: [{ text: `echo: call ${id}` }] } });
    }
    const ended = await send('/mcp/scripted', { method: 'DELETE', headers: session });
    expect(ended.status).toBe(204);
    const { response } = await sendMessage(send, '/mcp/scripted', { id: 10, method: 'ping' }, session);
    expect(response.status).toBe(404);

    // Calls that three connections have sent, of which two are passed on, end with a stop.
    const again = await beginSession(send, '/mcp/scripted');
    const hanging = [11, 12, 13].map((id) => {
      const call = { id, method: 'tools/call', params: { name: 'hang' } };
      return sendMessage(send, '/mcp/scripted', call, again.session);
    });
    await allCalled;
    await stopGateway(service);
    for (const { message } of await Promise.all(hanging))
      expect(message).toMatchObject({ error: { data: { status: 503 } } });
  }, 60_000);
});
