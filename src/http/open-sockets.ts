/** The open WebSockets of clients: their handshakes, their number by key, the checks of each second, and their ends. */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { WebSocket, WebSocketServer } from 'ws';
import { callerName } from '../commands/model-request/model-request.ts';
import { refusals } from '../commands/refusal.ts';
import type { Routes } from './api/route-schema.ts';
import type { OpenExchanges } from './open-exchanges.ts';
import type { RequestRecorder } from './request-recorder.ts';
import { bodyLimitOf, callerOf } from './server.ts';
import { upgradeOf } from './upgrade.ts';

export interface SocketLimits {
  /** Open at the same time. */
  readonly maxPerKey: number;
  readonly idleMs: number;
  readonly maxAgeMs: number;
  readonly pingMs: number;
}

export interface OpenSocketsOptions {
  readonly exchanges: Pick<OpenExchanges, 'isStopping'>;
  readonly recorder: Pick<RequestRecorder, 'answered'>;
  readonly limits: SocketLimits;
}

/** A socket after its handshake. */
export interface OpenSocket {
  /** Called each second. @param now value of `performance.now()` */
  check(now: number): void;
  close(code: number, reason: string): void;
  destroy(): void;
}

/** What a handshake needs beside the header `Upgrade` (RFC 6455 §4.2.1). */
const KEY = /^[+/0-9A-Za-z]{22}==$/;
const VERSION = '13';
/** Between two checks of a socket: its key, its age, its signs of life. */
const CHECK_MS = 1_000;
/** How long the clients may take to close their sockets when the gateway stops. */
const CLOSE_WITHIN_MS = 1_000;

// RFC 6455 §7.4.1, and the registry of close codes.
export const GOING_AWAY = 1001;
export const POLICY_VIOLATION = 1008;
export const SERVICE_RESTART = 1012;

/** Clients offer it beside others, which only carry settings. */
const REALTIME_PROTOCOL = 'realtime';

function first(offered: ReadonlySet<string>): string | false {
  for (const one of offered) return one;
  return false;
}

export class OpenSockets {
  readonly #options: OpenSocketsOptions;
  /** With the name of the caller that opened it. */
  readonly #open = new Map<OpenSocket, string>();
  /** By the size limit of messages. */
  readonly #servers = new Map<number, WebSocketServer>();
  /** For the answers of handshakes. */
  readonly #requestIds = new WeakMap<IncomingMessage, string>();
  #checks: NodeJS.Timeout | undefined;
  #closed: (() => void) | undefined;

  constructor(app: Pick<Routes, 'addHook'>, options: OpenSocketsOptions) {
    this.#options = options;
    app.addHook('preClose', () => this.#close());
  }

  /**
   * @param open called when the handshake is over
   * @param maxMessageBytes a larger message of the client ends the socket. Default: the limit of the route's bodies
   * @throws Refusal 400, 426, 429, 503
   */
  async accept(
    request: FastifyRequest,
    reply: FastifyReply,
    open: (webSocket: WebSocket, connection: Socket) => OpenSocket,
    maxMessageBytes = bodyLimitOf(request),
  ): Promise<void> {
    const { headers, raw } = request;
    const upgrade = upgradeOf(raw);
    if (upgrade === undefined || headers['sec-websocket-version'] !== VERSION) {
      reply.headers({ upgrade: 'websocket', 'sec-websocket-version': VERSION });
      throw refusals.notAWebSocket(request.routeOptions.url ?? request.url);
    }
    if (!KEY.test(headers['sec-websocket-key'] ?? '')) {
      throw refusals.invalidRequest('The handshake of the WebSocket is not valid.', 'sec-websocket-key');
    }
    const server = await this.#serverFor(maxMessageBytes);
    const { exchanges, recorder, limits } = this.#options;
    if (exchanges.isStopping) throw refusals.stopping();
    const owner = callerName(callerOf(request));
    let ofKey = 0;
    for (const other of this.#open.values()) if (other === owner) ofKey += 1;
    if (ofKey >= limits.maxPerKey) throw refusals.tooManySockets(limits.maxPerKey);
    recorder.answered(request, 101);
    reply.hijack();
    const { socket, head } = upgrade;
    reply.raw.detachSocket(socket);
    this.#requestIds.set(raw, String(request.id));
    server.handleUpgrade(raw, socket, head, (webSocket) => {
      const opened = open(webSocket, socket);
      this.#open.set(opened, owner);
      webSocket.once('close', () => this.#over(opened));
      this.#checks ??= setInterval(() => {
        for (const one of this.#open.keys()) one.check(performance.now());
      }, CHECK_MS).unref();
    });
  }

  async #serverFor(maxPayload: number): Promise<WebSocketServer> {
    const { WebSocketServer } = await import('ws');
    let server = this.#servers.get(maxPayload);
    if (server === undefined) {
      server = new WebSocketServer({
        noServer: true,
        clientTracking: false,
        perMessageDeflate: false,
        maxPayload,
        handleProtocols: (offered) => (offered.has(REALTIME_PROTOCOL) ? REALTIME_PROTOCOL : first(offered)),
      });
      server.on('headers', (headers, raw) => {
        const id = this.#requestIds.get(raw);
        if (id !== undefined) headers.push(`x-request-id: ${id}`);
      });
      this.#servers.set(maxPayload, server);
    }
    return server;
  }

  #over(socket: OpenSocket): void {
    this.#open.delete(socket);
    if (this.#open.size > 0) return;
    clearInterval(this.#checks);
    this.#checks = undefined;
    this.#closed?.();
  }

  /** Resolves when all are closed. */
  async #close(): Promise<void> {
    if (this.#open.size === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#closed = resolve;
    for (const one of this.#open.keys()) one.close(SERVICE_RESTART, 'the gateway is stopping');
    const late = setTimeout(() => {
      for (const one of this.#open.keys()) one.destroy();
    }, CLOSE_WITHIN_MS);
    await promise;
    clearTimeout(late);
  }
}
