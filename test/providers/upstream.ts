/** A provider's server for tests: real sockets on loopback, and a record of its requests. */
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTcpServer, type Socket } from 'node:net';

export interface UpstreamRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

export interface Upstream {
  readonly origin: string;
  readonly requests: UpstreamRequest[];
  /** Connections accepted so far. */
  connections(): number;
  close(): Promise<void>;
}

export type Answer = (request: UpstreamRequest, response: ServerResponse) => void;

export async function startUpstream(answer: Answer): Promise<Upstream> {
  const requests: UpstreamRequest[] = [];
  let connections = 0;
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const seen = {
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        body: Buffer.concat(pieces).toString(),
      };
      requests.push(seen);
      answer(seen, response);
    });
  });
  server.on('connection', () => {
    connections += 1;
  });
  return {
    origin: await listen(server),
    requests,
    connections: () => connections,
    close: () => stop(server),
  };
}

/** A server with any protocol. */
export async function startRawUpstream(
  answer: (socket: Socket) => void,
): Promise<{ origin: string; close(): Promise<void> }> {
  const sockets = new Set<Socket>();
  const server = createTcpServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('data', () => answer(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    origin: originOf(server.address()),
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** An origin on which nothing listens. */
export async function deadOrigin(): Promise<string> {
  const upstream = await startRawUpstream(() => {});
  await upstream.close();
  return upstream.origin;
}

export function json(response: ServerResponse, status: number, body: unknown): void {
  const text = JSON.stringify(body);
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  response.end(text);
}

interface Recorded {
  readonly request: { readonly method: string; readonly path: string; readonly body: unknown };
  readonly response: { readonly status: number; readonly content_type: string; readonly body: unknown };
}

const folder = new URL('./fixtures/llamacpp/', import.meta.url);

export function recorded(name: string): Recorded {
  return JSON.parse(readFileSync(new URL(`${name}.json`, folder), 'utf8'));
}

export function recordedNames(): string[] {
  return readdirSync(folder).map((file) => file.replace(/\.json$/, ''));
}

/** The recorded answer as the bytes that went over the wire. */
export function recordedBody({ response }: Recorded): string {
  return typeof response.body === 'string' ? response.body : JSON.stringify(response.body);
}

/** Replays recorded pairs by method and path; of several for one path, the last counts. */
export function replay(...names: string[]): Answer {
  const pairs = new Map(names.map(recorded).map((pair) => [`${pair.request.method} ${pair.request.path}`, pair]));
  return ({ method, path }, response) => {
    const pair = pairs.get(`${method} ${path}`);
    if (pair === undefined) {
      json(response, 404, { error: { code: 404, message: 'File Not Found', type: 'not_found_error' } });
      return;
    }
    response.writeHead(pair.response.status, { 'content-type': pair.response.content_type });
    response.end(recordedBody(pair));
  };
}

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return originOf(server.address());
}

function originOf(address: ReturnType<Server['address']>): string {
  if (address === null || typeof address === 'string') throw new Error('not listening on a port');
  return `http://127.0.0.1:${address.port}`;
}

async function stop(server: Server): Promise<void> {
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
}
