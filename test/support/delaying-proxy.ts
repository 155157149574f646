/** A TCP proxy in front of a server that works, but far away: everything arrives later, in both directions and in order. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface DelayingProxy {
  readonly port: number;
  /** For what arrives from now on, each way. */
  setDelay(ms: number): void;
  close(): Promise<void>;
}

/** Bytes that are on their way in one direction of a connection; more wait in the socket of their sender. */
const mostOnTheWay = 1024 * 1024;

export async function startDelayingProxy(targetPort: number): Promise<DelayingProxy> {
  const sockets = new Set<Socket>();
  let delayMs = 0;
  const server = createServer((client) => {
    const target = connect(targetPort, '127.0.0.1');
    const end = () => {
      client.destroy();
      target.destroy();
    };
    for (const socket of [client, target]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', end).on('close', () => {
        sockets.delete(socket);
        end();
      });
    }
    forward(client, target, () => delayMs);
    forward(target, client, () => delayMs);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    port: address.port,
    setDelay(ms) {
      delayMs = ms;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

function forward(from: Socket, to: Socket, delayMs: () => number): void {
  /** In order: timers that are due at about the same time do not have to end in the order of their beginnings. */
  const pieces: Buffer[] = [];
  let onTheWay = 0;
  from.on('data', (piece) => {
    pieces.push(piece);
    onTheWay += piece.length;
    if (onTheWay > mostOnTheWay) from.pause();
    setTimeout(() => {
      const first = pieces.shift();
      if (first === undefined) return;
      onTheWay -= first.length;
      if (onTheWay <= mostOnTheWay) from.resume();
      to.write(first);
    }, delayMs());
  });
}
