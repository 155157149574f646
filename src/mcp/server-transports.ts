/**
 * Connections to MCP servers, with the transports of the SDK over the gateway's own outgoing connections. The SDK is loaded with
 * the first of them.
 */
import type { Transport as McpTransport } from '@modelcontextprotocol/client';
import { LRUCache } from 'lru-cache';
import { localKindIn } from '../providers/checked-lookup.ts';
import { ProviderFailure, type ProviderReply, type ReplyBody } from '../providers/provider.ts';
import type { ProxyOf } from '../providers/proxies.ts';
import { createTransport, type Transport } from '../providers/transport.ts';
import { UpstreamFailure } from './json-rpc.ts';
import type { McpServer } from './mcp-server.ts';
import type { ServerSecrets } from './server-secrets.ts';

export type { McpTransport };

export interface ServerTransportsParts {
  readonly proxyOf: ProxyOf;
  /** Whether servers that administrators set up may have local addresses. */
  readonly allowsLocalServers: boolean;
  /** Processes of `stdio` servers at the same time. Default 32. */
  readonly maxProcesses?: number;
}

/** Bytes of one message of a server. */
export const MAX_MESSAGE_BYTES = 32 * 1024 * 1024;
const MAX_PROCESSES = 32;
const MAX_POOLS = 512;
/** Of the text of an HTTP error, of which the beginning is shown. */
const MAX_ERROR_BYTES = 16_384;
/** A request has a time limit of its own. */
const LIMIT = { ms: 3_600_000, setting: 'tool_timeout_seconds' };
const LINE_FEED = 0x0a;

/** @param refused the value of `authorization` that the server has not accepted */
type HeadersOf = (refused?: string) => Promise<Readonly<Record<string, string>>>;

export class ServerTransports {
  readonly #parts: ServerTransportsParts;
  readonly #connections = new LRUCache<string, Transport>({
    max: MAX_POOLS,
    dispose: (transport) => void transport.close('idle').catch(() => {}),
  });
  #processes = 0;
  #isClosed = false;

  constructor(parts: ServerTransportsParts) {
    this.#parts = parts;
  }

  /**
   * Not started yet.
   * @param headersOf called for each HTTP request, and once more, with `authorization`, when the server refuses that
   * @param secrets gets what is sent
   * @throws UpstreamFailure
   */
  async create(server: McpServer, headersOf: HeadersOf, secrets: ServerSecrets): Promise<McpTransport> {
    if (this.#isClosed) throw new UpstreamFailure('unreachable', 'the gateway is stopping');
    if (server.transport === 'stdio') return this.#process(server);
    const { url } = server;
    if (url === undefined) throw new UpstreamFailure('unreachable', 'the server has no URL');
    const { SSEClientTransport, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
    const call = this.#fetchFor(server, headersOf, secrets);
    // An older server may have the other transport: the definition says which.
    return server.transport === 'sse'
      ? new SSEClientTransport(new URL(url), { fetch: call })
      : new StreamableHTTPClientTransport(new URL(url), { fetch: call });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#connections.values()].map((transport) => transport.close('now')));
  }

  async #process({ command, args = [], env = {} }: McpServer): Promise<McpTransport> {
    const { maxProcesses = MAX_PROCESSES } = this.#parts;
    if (command === undefined) throw new UpstreamFailure('unreachable', 'the server has no command');
    if (this.#processes >= maxProcesses) {
      throw new UpstreamFailure('unreachable', `${maxProcesses} processes of servers run already, which is the limit`);
    }
    this.#processes += 1;
    try {
      const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
      const given = { command, args: [...args], env: { ...env }, maxBufferSize: MAX_MESSAGE_BYTES };
      const transport = new StdioClientTransport({ ...given, stderr: 'ignore' });
      const close = transport.close.bind(transport);
      let isOver = false;
      transport.close = async () => {
        await close();
        if (!isOver) this.#processes -= 1;
        isOver = true;
      };
      return transport;
    } catch (error) {
      this.#processes -= 1;
      throw error;
    }
  }

  /** The part of `fetch` that the SDK uses. */
  #fetchFor(server: McpServer, headersOf: HeadersOf, secrets: ServerSecrets) {
    return async (input: string | URL, init: RequestInit = {}): Promise<Response> => {
      const { origin, pathname, search } = new URL(input);
      const method = init.method ?? 'GET';
      const given = new Headers(init.headers);
      const isInSession = given.has('mcp-session-id');
      const send = async (credentials: Readonly<Record<string, string>>): Promise<ProviderReply> => {
        secrets.sent(credentials);
        const headers = new Headers(given);
        for (const [name, value] of Object.entries(credentials)) headers.set(name, value);
        headers.set('accept-encoding', 'identity');
        try {
          return await this.#connection(server, origin, method).send({
            method,
            path: pathname + search,
            headers: [...headers].flat(),
            ...(typeof init.body === 'string' && { body: Buffer.from(init.body) }),
            signal: init.signal ?? new AbortController().signal,
            mayIdle: true,
          });
        } catch (error) {
          if (error instanceof ProviderFailure) throw new UpstreamFailure('unreachable', error.message, error);
          throw error;
        }
      };
      const credentials = await headersOf();
      let reply = await send(credentials);
      const { authorization } = credentials;
      if (reply.status === 401 && server.oauth !== undefined && authorization !== undefined) {
        // A server that refuses the token has not read the message.
        const others = await headersOf(authorization);
        if (others['authorization'] !== authorization) {
          reply.body.cancel();
          reply = await send(others);
        }
      }
      const { status, body } = reply;
      // Redirects are not followed: they would take the credentials elsewhere.
      if (method === 'POST' && status >= 300) throw await failureOf(status, body, isInSession, secrets);
      const isEmpty = status === 204 || status === 205 || status === 304;
      if (isEmpty) body.cancel();
      return new Response(isEmpty ? null : streamOf(body), { status, headers: reply.headers });
    };
  }

  /** Streams for messages of the server, which last as long as their sessions, take no connection of a request. */
  #connection({ managed }: McpServer, origin: string, method: string): Transport {
    const mayBeLocal = managed || this.#parts.allowsLocalServers;
    const kind = mayBeLocal ? undefined : localKindIn(origin);
    if (kind !== undefined) {
      const cure = 'declare the server in the configuration, or set ALLOW_PRIVATE_PROVIDERS=true';
      throw new UpstreamFailure('unreachable', `its address is ${kind}: ${cure}`);
    }
    const key = `${mayBeLocal} ${method === 'GET'} ${origin}`;
    const known = this.#connections.get(key);
    if (known !== undefined) return known;
    const transport = createTransport({
      provider: origin,
      origin,
      proxyOf: this.#parts.proxyOf,
      localAddresses: mayBeLocal,
      timeouts: { connectMs: 10_000, headers: LIMIT, idle: LIMIT },
    });
    this.#connections.set(key, transport);
    return transport;
  }
}

async function failureOf(
  status: number,
  body: ReplyBody,
  isInSession: boolean,
  secrets: ServerSecrets,
): Promise<UpstreamFailure> {
  // As the specification says it: the client begins a new session.
  if (status === 404 && isInSession) {
    body.cancel();
    return new UpstreamFailure('session lost', 'the server does not know the session any more');
  }
  const text = await body.bytes(MAX_ERROR_BYTES).then(String, () => '');
  const summary = `the server answered with HTTP status ${status}`;
  return new UpstreamFailure('unreachable', summary, undefined, secrets.excerpt(text));
}

/** A line is a part of a message, so no message is larger than the limit for lines. */
function streamOf(body: ReplyBody): ReadableStream<Uint8Array> {
  let resume = () => {};
  let lineBytes = 0;
  let isCancelled = false;
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const onPiece = (piece: Buffer) => {
        const lineEnd = piece.lastIndexOf(LINE_FEED);
        lineBytes = lineEnd === -1 ? lineBytes + piece.length : piece.length - lineEnd - 1;
        if (lineBytes > MAX_MESSAGE_BYTES) {
          throw new UpstreamFailure('too large', `the server sent a message of more than ${MAX_MESSAGE_BYTES} bytes`);
        }
        controller.enqueue(piece);
        if ((controller.desiredSize ?? 1) > 0) return undefined;
        return new Promise<void>((resolve) => {
          resume = resolve;
        });
      };
      body.pieces(onPiece).then(
        () => isCancelled || controller.close(),
        (error: unknown) => controller.error(error),
      );
    },
    pull: () => resume(),
    cancel: () => {
      isCancelled = true;
      resume();
      body.cancel();
    },
  });
}
