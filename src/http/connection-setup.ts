/** What an accepted connection passes before it is HTTP: the header of the PROXY protocol, and TLS. */
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { type Arrival, isTrustedPeer, type TrustedProxies } from './client-address.ts';
import { readProxyHeader } from './proxy-protocol.ts';
import type { TlsFiles } from './tls.ts';

interface ConnectionSettings {
  readonly proxies: TrustedProxies;
  /** Whether trusted proxies begin each connection with a header of the PROXY protocol. */
  readonly proxyProtocol: boolean;
  /** Undefined: connections have no TLS. */
  readonly tls: TlsFiles | undefined;
  readonly requestTimeouts: { readonly headersMs: number };
}

export interface ConnectionSetup {
  /**
   * @param http2 gets the connections of clients that choose HTTP/2, which needs TLS
   * @returns a function that makes a connection, which may be paused, one of this server
   */
  into(server: Server, http2?: (socket: TLSSocket) => void): (socket: Socket) => void;
  close(): void;
}

/**
 * @param reloaded called when changed files of TLS are in force, or with the reason why they are not
 * @throws Error when a file of TLS cannot be used
 */
export async function connectionSetup(
  settings: ConnectionSettings,
  reloaded: (problem: unknown) => void,
): Promise<ConnectionSetup> {
  const { proxies, proxyProtocol, requestTimeouts } = settings;
  const { headersMs } = requestTimeouts;
  // Node's TLS takes a while to load.
  const tls = settings.tls && (await import('./tls.ts')).createTls(settings.tls, { handshakeMs: headersMs, reloaded });
  return {
    into(server, http2) {
      const plain = plainConnections.into(server);
      /** What the PROXY protocol stated, by the ends of the connection, until its handshake has ended. */
      const stated = new Map<string, Arrival>();
      const secured = tls?.server(http2 === undefined ? ['http/1.1'] : ['h2', 'http/1.1'], (socket, subject) => {
        const arrival = stated.get(endsOf(socket));
        if (arrival !== undefined || subject !== undefined) socket.arrival = { isLocal: false, ...arrival, subject };
        if (http2 !== undefined && socket.alpnProtocol === 'h2') http2(socket);
        else server.emit('connection', socket);
      });
      const begin = (socket: Socket) => {
        if (secured === undefined || socket.arrival?.isLocal === true) return plain(socket);
        if (socket.arrival !== undefined) {
          const ends = endsOf(socket);
          stated.set(ends, socket.arrival);
          socket.once('close', () => stated.delete(ends));
        }
        secured(socket);
      };
      return (socket) => {
        if (!proxyProtocol || !isTrustedPeer(socket, proxies)) return begin(socket);
        readProxyHeader(socket, headersMs, (address) => {
          if (address !== undefined) socket.arrival = { isLocal: false, ...socket.arrival, address };
          begin(socket);
        });
      };
    },
    close: () => tls?.close(),
  };
}

/** Node shows no way from a TLS socket to the one below it; both have the same ends, which no other open connection has. */
function endsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}

/** Connections begin with HTTP. */
export const plainConnections: ConnectionSetup = {
  into: (server) => (socket) => {
    server.emit('connection', socket);
    if (socket.isPaused()) socket.resume();
  },
  close() {},
};
