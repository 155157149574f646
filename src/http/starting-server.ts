/**
 * Answers on the gateway's port while the gateway waits for the engine of its log, or its read models read the log: `GET /health` with 200, since the process
 * is alive; `GET /health/ready` with 503 and the reason; every other request with 503 `log_unavailable`. The gateway's own
 * server then gets the connections, so that none is refused in between.
 */

import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type Refusal, refusals } from '../commands/refusal.ts';
import { type ConnectionSetup, plainConnections } from './connection-setup.ts';
import { clientErrorFormatOf, isStillSending, refusalHeaders } from './errors.ts';
import { type Address, acceptHttp, openListener, type PortListener } from './listener.ts';
import { requestIdOf, urlWithout } from './request-head.ts';

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
  /** `receive` passes further connections to the gateway's own server. Those that are open end after one answer. */
  readonly listener: PortListener;
  /** Closes the listener, unless `receive` was called, and the connections that wait for an answer. */
  close(): void;
}

interface StartingServerOptions extends Address {
  /** Default: connections begin with HTTP. */
  readonly setup?: ConnectionSetup | undefined;
  readonly maxHeaderBytes: number;
  readonly state: () => StartingState;
}

/** @throws what `listen` fails with, such as EADDRINUSE */
export async function listenWhileStarting(options: StartingServerOptions): Promise<StartingServer> {
  const { setup, basePath, maxHeaderBytes, state } = options;
  const unready = createUnreadyServer({
    setup,
    basePath,
    maxHeaderBytes,
    refusal: () => refusals.logUnavailable(),
    readiness: () => ({ components: { storage: 'down' }, starting: state() }),
  });
  const listener = await openListener(options, unready.take, acceptHttp);
  let isHandedOver = false;
  return {
    listener: {
      ...listener,
      receive(take) {
        isHandedOver = true;
        listener.receive(take);
      },
    },
    close() {
      if (isHandedOver) return;
      void listener.close();
      unready.close();
    },
  };
}

interface UnreadyOptions {
  /** Below which the routes are. */
  readonly basePath?: string | undefined;
  /** Default: connections begin with HTTP. */
  readonly setup?: ConnectionSetup | undefined;
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
  const enter = (options.setup ?? plainConnections).into(answering);
  const open = new Set<Socket>();
  return {
    take(socket) {
      keepWhileOpen(socket, open);
      enter(socket);
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
  const { method = 'GET' } = request;
  const url = urlWithout(options.basePath ?? '', request.url ?? '/') ?? '';
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
