/** Clients of the gateway's MCP endpoint: that of the SDK, and plain HTTP. */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { Answered } from './answered.ts';
import { MASTER_KEY } from './gateway.ts';

export interface McpClientOptions {
  readonly key?: string;
  /** Default: `/mcp`. */
  readonly path?: string;
  readonly headers?: Record<string, string>;
  readonly capabilities?: object;
}

/** Connected. Its `close` ends its session. */
export async function mcpClient(
  gatewayUrl: string,
  { key = MASTER_KEY, path = '/mcp', headers = {}, capabilities = {} }: McpClientOptions = {},
): Promise<Client> {
  const client = new Client({ name: 'a test', version: '1' }, { capabilities });
  await client.connect(transportTo(gatewayUrl, path, { authorization: `Bearer ${key}`, ...headers }));
  return client;
}

export function transportTo(gatewayUrl: string, path: string, headers: Record<string, string>) {
  return new StreamableHTTPClientTransport(new URL(path, gatewayUrl), { requestInit: { headers } });
}

const version = '2025-11-25';

/** Sends one message over plain HTTP. @returns the response, and the last message of its body */
export async function sendMessage(
  send: (path: string, init: RequestInit & { json?: unknown }) => Promise<Response>,
  path: string,
  message: object,
  headers: Record<string, string> = {},
): Promise<{ readonly response: Response; readonly message: Answered }> {
  const accept = 'application/json, text/event-stream';
  const given = { accept, 'mcp-protocol-version': version, ...headers };
  const response = await send(path, { json: { jsonrpc: '2.0', ...message }, headers: given });
  const body = await response.clone().text();
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  const last = isStream ? (body.trim().split('\n\ndata: ').at(-1)?.split('data: ').at(-1) ?? '') : body;
  return { response, message: last === '' ? undefined : JSON.parse(last) };
}

/** Begins a session over plain HTTP. */
export async function beginSession(
  send: (path: string, init: RequestInit & { json?: unknown }) => Promise<Response>,
  path: string,
  headers: Record<string, string> = {},
): Promise<{ readonly response: Response; readonly message: Answered; readonly session: Record<string, string> }> {
  const params = { protocolVersion: version, capabilities: {}, clientInfo: { name: 'a test', version: '1' } };
  const begun = await sendMessage(send, path, { id: 0, method: 'initialize', params }, headers);
  return { ...begun, session: { 'mcp-session-id': begun.response.headers.get('mcp-session-id') ?? '' } };
}
