/**
 * Answers on the gateway's port while the gateway waits for the engine of its log, or its read models read the log: `GET /health` with 200, since the process
 * is alive; `GET /health/ready` with 503 and the reason; every other request with 503 `log_unavailable`. The gateway's own
 * server then takes over the listening socket, so that no connection is refused in between.
 */

import { lookup } from 'node:dns/promises';
import { createServer as createHttpServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer, type ListenOptions, type Server as NetServer, type ServerOpts, type Socket } from 'node:net';
import { type Refusal, refusals } from '../commands/refusal.ts';
import { clientErrorFormatOf, isStillSending, refusalHeaders } from './errors.ts';
import { requestIdOf } from './request-head.ts';

export interface StartingState {
  readonly reason:
    | 'log: opening'
    | 'log: catching up'
    | 'engine unreachable'
    | 'disk: the replica cannot be written'
    | 'read models: catching up'
    | 'starting';
  /** While it catches up: of the last event that this gateway has, or that its read models have. */
  readonly position?: string;
}

export interface StartingServer {
  readonly port: number;
  /** Resolves when the server accepts the connections to the port. Those that are open end after one answer. */
  handOver(server: Server): Promise<void>;
  /** Frees the port for a server that listens at several addresses. Connections that are open end after one answer. */
  release(): Promise<void>;
  /** Frees the port, unless it was handed over. */
  close(): void;
}

interface StartingServerOptions {
  readonly host: string;
  readonly port: number;
  readonly maxHeaderBytes: number;
  readonly state: () => StartingState;
}

/** @throws what `listen` fails with, such as EADDRINUSE */
export async function listenWhileStarting(options: StartingServerOptions): Promise<StartingServer> {
  const { host, port, maxHeaderBytes, state } = options;
  const unready = createUnreadyServer({
    maxHeaderBytes,
    refusal: () => refusals.logUnavailable(),
    readiness: () => ({ components: { storage: 'down' }, starting: state() }),
  });
  const [listening, ...further] = await listenAt({ host, port }, unready.take);
  let isHandedOver = false;
  return {
    port: listeningPort(listening) ?? port,
    async handOver(server) {
      await listenOn(server, listening);
      isHandedOver = true;
    },
    async release() {
      await Promise.all([listening, ...further].map(stopListening));
      isHandedOver = true;
    },
    close() {
      if (isHandedOver) return;
      for (const one of [listening, ...further]) one.close();
      unready.close();
    },
  };
}

/** Resolves when the port is free: connections that are open do not count. */
function stopListening(server: NetServer): Promise<void> {
  server.close();
  return new Promise((resolve) => setImmediate(resolve));
}

interface UnreadyOptions {
  readonly maxHeaderBytes: number;
  /** The answer to every request that is not about health. */
  readonly refusal: () => Refusal;
  /** Members of the answer of `GET /health/ready` beside its status. */
  readonly readiness: () => object;
}

export interface UnreadyServer {
  /** Answers one request on the connection, which may be paused, and closes it: after 10 s in any case. */
  take(socket: Socket): void;
  /** Closes the open connections. */
  close(): void;
}

/** A connection that has not received its answer by then is closed. */
const maxConnectionMs = 10_000;

export function createUnreadyServer(options: UnreadyOptions): UnreadyServer {
  // It never listens itself: sockets are passed to it.
  const answering = createHttpServer(
    { maxHeaderSize: options.maxHeaderBytes, requireHostHeader: false },
    (request, response) => answerOnceRead(request, response, options),
  );
  const open = new Set<Socket>();
  return {
    take(socket) {
      keepWhileOpen(socket, open);
      answering.emit('connection', socket);
      socket.resume();
    },
    close() {
      for (const socket of open) socket.destroy();
    },
  };
}

function keepWhileOpen(socket: Socket, open: Set<Socket>): void {
  const late = setTimeout(() => socket.destroy(), maxConnectionMs).unref();
  open.add(socket);
  socket.once('close', () => {
    clearTimeout(late);
    open.delete(socket);
  });
}

/** A short body is read first: a connection that is closed with unread bytes can lose its answer. */
function answerOnceRead(request: IncomingMessage, response: ServerResponse, options: UnreadyOptions): void {
  const answer = () => sendAnswer(request, response, options);
  if (isStillSending(request)) answer();
  else request.resume().once('end', answer);
}

function sendAnswer(request: IncomingMessage, response: ServerResponse, options: UnreadyOptions): void {
  const { method = 'GET', url = '/' } = request;
  const path = method === 'GET' || method === 'HEAD' ? url.split('?', 1)[0] : undefined;
  const requestId = requestIdOf(request);
  if (path === '/health') {
    send(response, 200, { 'x-request-id': requestId }, { status: 'ok' });
    return;
  }
  const refusal = options.refusal();
  const format = clientErrorFormatOf({ url, headers: request.headers });
  const headers: Record<string, string> = { ...refusalHeaders(refusal), 'x-request-id': requestId };
  if (format.idHeader !== undefined) headers[format.idHeader] = requestId;
  const body =
    path === '/health/ready' ? { status: 'not_ready', ...options.readiness() } : format.errorBody(refusal, requestId);
  send(response, refusal.status, headers, body);
}

function send(response: ServerResponse, status: number, headers: Record<string, string>, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    ...headers,
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    connection: 'close',
  });
  response.end(text);
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Listens at each address of the host name `localhost`: at the first one, and at further ones if possible. */
export async function listenAt(
  { host, port }: Address,
  accept: (socket: Socket) => void,
  options: ServerOpts = {},
): Promise<[NetServer, ...NetServer[]]> {
  const [first = host, ...others] = host === 'localhost' ? await addressesOf(host) : [host];
  const listening = createServer(options, accept);
  await listenOn(listening, { host: first, port });
  const further: NetServer[] = [];
  for (const address of others) {
    const server = createServer(options, accept);
    const isListening = await listenOn(server, { host: address, port: listeningPort(listening) ?? port }).then(
      () => true,
      () => false,
    );
    if (isListening) further.push(server);
  }
  return [listening, ...further];
}

async function addressesOf(host: string): Promise<string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

export function listeningPort(server: NetServer): number | undefined {
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : undefined;
}

/** @param where an address, or a server whose listening socket is used from now on */
function listenOn(server: NetServer, where: ListenOptions | NetServer): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(where, () => {
      server.removeListener('error', reject);
      resolve();
    });
  });
}
