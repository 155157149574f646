/** What an accepted connection passes before it is HTTP: the header of the PROXY protocol. */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { isTrustedPeer, type TrustedProxies } from './client-address.ts';
import { readProxyHeader } from './proxy-protocol.ts';

interface ConnectionSettings {
  readonly proxies: TrustedProxies;
  /** Whether trusted proxies begin each connection with a header of the PROXY protocol. */
  readonly proxyProtocol: boolean;
  readonly requestTimeouts: { readonly headersMs: number };
}

export interface ConnectionSetup {
  /** @returns a function that makes a connection, which may be paused, one of this server */
  into(server: Server): (socket: Socket) => void;
}

export function connectionSetup({ proxies, proxyProtocol, requestTimeouts }: ConnectionSettings): ConnectionSetup {
  return {
    into: (server) => (socket) => {
      const begin = () => {
        server.emit('connection', socket);
        if (socket.isPaused()) socket.resume();
      };
      if (!proxyProtocol || !isTrustedPeer(socket, proxies)) return begin();
      readProxyHeader(socket, requestTimeouts.headersMs, (address) => {
        if (address !== undefined) socket.arrival = { isLocal: false, address };
        begin();
      });
    },
  };
}

/** Connections begin with HTTP. */
export const plainConnections = connectionSetup({
  proxies: { networks: [], local: false, header: '' },
  proxyProtocol: false,
  requestTimeouts: { headersMs: 0 },
});
