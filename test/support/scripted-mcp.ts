/** An MCP server whose tools are functions of the test. It speaks streamable HTTP, with sessions, and answers in JSON. */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { Answered } from './answered.ts';

export interface ScriptedTool {
  description?: string;
  inputSchema?: object;
  /** @returns the result, or a text; a thrown `Error` is a JSON-RPC error */
  call(args: Answered, request: ScriptedRequest): unknown;
}

export interface ScriptedRequest {
  readonly headers: IncomingMessage['headers'];
  readonly session: string;
}

export interface ScriptedMcp {
  readonly url: string;
  /** By name; may be changed. */
  readonly tools: Map<string, ScriptedTool>;
  /** Results of methods in place of those of the server. A `Buffer` is sent as it is. */
  readonly results: Map<string, (params: Answered) => unknown>;
  /** All requests and notifications, except those of unknown sessions. */
  readonly messages: readonly Answered[];
  /** Of one tool. */
  calls(tool: string): readonly Answered[];
  readonly sessions: ReadonlySet<string>;
  /** As after a restart: its sessions are unknown. */
  forgetSessions(): void;
  close(): Promise<void>;
}

/** @param at its port; default: a free one */
export async function startScriptedMcp(given: Readonly<Record<string, ScriptedTool>>, at = 0): Promise<ScriptedMcp> {
  const tools = new Map(Object.entries(given));
  const results: ScriptedMcp['results'] = new Map();
  const messages: Answered[] = [];
  const sessions = new Set<string>();

  async function resultOf(method: string, params: Answered, request: ScriptedRequest): Promise<unknown> {
    const given = results.get(method);
    if (given !== undefined) return given(params);
    if (method === 'tools/list') {
      const listed = [...tools].map(([name, { description = name, inputSchema = { type: 'object' } }]) => ({
        ...{ name, description, inputSchema, 'x-unknown': 'kept' },
      }));
      return { tools: listed };
    }
    if (method !== 'tools/call') return {};
    const tool = tools.get(params.name);
    if (tool === undefined) throw new Error(`no tool ${params.name}`);
    const result = await tool.call(params.arguments, request);
    return typeof result === 'string' ? { content: [{ type: 'text', text: result }] } : result;
  }

  const server = createServer(async (request, response) => {
    const { method, headers } = request;
    if (method === 'GET') return void response.writeHead(405).end();
    const session = String(headers['mcp-session-id'] ?? '');
    if (method === 'DELETE') {
      sessions.delete(session);
      return void response.writeHead(204).end();
    }
    const message = JSON.parse(await text(request));
    const { id, method: name, params } = message;
    if (name === 'initialize' || sessions.has(session)) messages.push(message);
    if (name === 'initialize') {
      const begun = randomUUID();
      sessions.add(begun);
      const result = {
        protocolVersion: params.protocolVersion,
        capabilities: { tools: { listChanged: true }, ...(results.has('resources/list') && { resources: {} }) },
        serverInfo: { name: 'scripted', version: '1' },
        instructions: 'Call the tools.',
      };
      response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': begun });
      return void response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
    }
    if (!sessions.has(session)) return void response.writeHead(404).end();
    if (id === undefined) return void response.writeHead(202).end();
    const answer = await resultOf(name, params ?? {}, { headers, session }).then(
      (result) =>
        result instanceof Buffer
          ? `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`
          : JSON.stringify({ jsonrpc: '2.0', id, result }),
      (error: Error) => JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32050, message: error.message } }),
    );
    if (response.destroyed) return;
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(answer);
  });
  await new Promise<void>((resolve) => server.listen(at, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    tools,
    results,
    messages,
    calls: (tool) => messages.filter(({ method, params }) => method === 'tools/call' && params.name === tool),
    sessions,
    forgetSessions: () => sessions.clear(),
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}
