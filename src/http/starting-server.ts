/**
 * Answers on the gateway's port while the gateway waits for the engine of its log: `GET /health` with 200, since the process
 * is alive; `GET /health/ready` with 503 and the reason; every other request with 503 `log_unavailable`. The gateway's own
 * server then takes over the listening socket, so that no connection is refused in between.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Server as NetServer, Socket } from 'node:net';
import { refusals } from '../commands/refusal.ts';
import { clientErrorFormatOf } from './client-error-format.ts';
import { isStillSending, refusalHeaders } from './errors.ts';
import { listenAt, listeningPort, listenOn } from './listen-at.ts';
import { requestIdOf } from './request-id.ts';

export interface StartingState {
  readonly reason:
    | 'log: opening'
    | 'log: catching up'
    | 'engine unreachable'
    | 'disk: the replica cannot be written'
    | 'starting';
  /** While it catches up: the position of the last event that this gateway has. */
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

export interface StartingServerOptions {
  readonly host: string;
  readonly port: number;
  readonly maxHeaderBytes: number;
  readonly state: () => StartingState;
}

/** A connection that has not received its answer by then is closed. */
const maxConnectionMs = 10_000;

/** @throws what `listen` fails with, such as EADDRINUSE */
export async function listenWhileStarting(options: StartingServerOptions): Promise<StartingServer> {
  const { host, port, maxHeaderBytes, state } = options;
  // It never listens itself: sockets are passed to it.
  const answering = createServer({ maxHeaderSize: maxHeaderBytes, requireHostHeader: false }, (request, response) =>
    answerOnceRead(request, response, state),
  );
  const open = new Set<Socket>();
  const accept = (socket: Socket) => {
    keepWhileOpen(socket, open);
    answering.emit('connection', socket);
  };
  const [listening, ...further] = await listenAt({ host, port }, accept);
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
      for (const socket of open) socket.destroy();
    },
  };
}

/** Resolves when the port is free: connections that are open do not count. */
function stopListening(server: NetServer): Promise<void> {
  server.close();
  return new Promise((resolve) => setImmediate(resolve));
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
function answerOnceRead(request: IncomingMessage, response: ServerResponse, state: () => StartingState): void {
  const answer = () => sendAnswer(request, response, state());
  if (isStillSending(request)) answer();
  else request.resume().once('end', answer);
}

function sendAnswer(request: IncomingMessage, response: ServerResponse, { reason, position }: StartingState): void {
  const { method = 'GET', url = '/' } = request;
  const path = method === 'GET' || method === 'HEAD' ? url.split('?', 1)[0] : undefined;
  const requestId = requestIdOf(request);
  if (path === '/health') {
    send(response, 200, { 'x-request-id': requestId }, { status: 'ok' });
    return;
  }
  const refusal = refusals.logUnavailable();
  const format = clientErrorFormatOf({ url, headers: request.headers });
  const headers = format.headers({ ...refusalHeaders(refusal), 'x-request-id': requestId });
  const body =
    path === '/health/ready'
      ? { status: 'not_ready', components: { storage: 'down' }, starting: { reason, position } }
      : format.errorBody(refusal, requestId);
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
