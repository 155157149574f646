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

/** The routes that upgrade. Elsewhere the header is ignored, as RFC 9110 §7.8 allows. */
const ROUTES = /^\/(?:v1\/(?:responses|realtime)|p\/.*)$/;

export function upgradesAt(basePath: string): (request: IncomingMessage) => boolean {
  return ({ method, url = '', headers }) =>
    method === 'GET' &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    ROUTES.test(urlWithout(basePath, url)?.split('?', 1)[0] ?? '');
}

// A browser cannot send headers with the handshake of a WebSocket. OpenAI's clients send what belongs there as names of
// subprotocols, beside `realtime`.

const IN_PROTOCOLS: readonly (readonly [prefix: string, header: string, scheme: string])[] = [
  ['openai-insecure-api-key.', 'authorization', 'Bearer '],
  ['openai-beta.', 'openai-beta', ''],
];

/** Moves a key in a subprotocol to the header of other clients: the header of subprotocols is recorded. */
function moveProtocols(request: IncomingMessage): void {
  const { headers } = request;
  const offered = headers['sec-websocket-protocol'];
  if (offered === undefined) return;
  const kept: string[] = [];
  for (const protocol of offered.split(',').map((one) => one.trim())) {
    const [prefix, header, scheme] = IN_PROTOCOLS.find(([one]) => protocol.startsWith(one)) ?? [];
    if (prefix === undefined || header === undefined) kept.push(protocol);
    // OpenAI's name of the first version is `realtime-v1`, and `realtime=v1` in the header.
    else headers[header] ??= `${scheme}${protocol.slice(prefix.length).replace(/^realtime-/, 'realtime=')}`;
  }
  if (kept.length === 0) delete headers['sec-websocket-protocol'];
  else headers['sec-websocket-protocol'] = kept.join(', ');
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
    moveProtocols(request);
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
