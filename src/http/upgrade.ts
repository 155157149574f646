/** Requests to upgrade a connection to a WebSocket (RFC 6455 §4.2): they pass the hooks of every other request. */
import { type IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { urlWithout } from './request-head.ts';

export interface Upgrade {
  readonly socket: Socket;
  /** What the client has sent after its request. */
  readonly head: Buffer;
}

const upgrades = new WeakMap<IncomingMessage, Upgrade>();

/** The only route that upgrades. Elsewhere the header is ignored, as RFC 9110 §7.8 allows. */
const ROUTE = '/v1/responses';

export function upgradesAt(basePath: string): (request: IncomingMessage) => boolean {
  return ({ method, url = '', headers }) =>
    method === 'GET' &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    urlWithout(basePath, url)?.split('?', 1)[0] === ROUTE;
}

/** A request that its route does not upgrade is answered, and its connection closed. */
export function routeUpgrades(
  server: Server,
  handle: (request: IncomingMessage, response: ServerResponse) => void,
): void {
  server.on('upgrade', (request, stream, head) => {
    const socket = stream as Socket;
    // 'close' follows.
    socket.on('error', () => {});
    upgrades.set(request, { socket, head });
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.once('finish', () => socket.end());
    handle(request, response);
  });
}

/** Undefined for any other request. */
export function upgradeOf(request: IncomingMessage): Upgrade | undefined {
  return upgrades.get(request);
}
