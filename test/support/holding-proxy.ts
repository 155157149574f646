/** A TCP proxy in front of a server, whose answers a test can hold back: what clients send still arrives. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface HoldingProxy {
  readonly port: number;
  /** Answers wait, also on connections that begin later. */
  hold(): void;
  release(): void;
  close(): Promise<void>;
}

export async function startHoldingProxy(targetPort: number): Promise<HoldingProxy> {
  const pairs = new Map<Socket, Socket>();
  let isHeld = false;
  const server = createServer((client) => {
    const target = connect(targetPort, '127.0.0.1');
    pairs.set(client, target);
    const end = () => {
      pairs.delete(client);
      client.destroy();
      target.destroy();
    };
    for (const socket of [client, target]) socket.on('error', end).on('close', end);
    client.pipe(target);
    if (!isHeld) target.pipe(client);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return {
    port: address.port,
    hold() {
      isHeld = true;
      for (const [client, target] of pairs) target.unpipe(client).pause();
    },
    release() {
      if (!isHeld) return;
      isHeld = false;
      for (const [client, target] of pairs) target.pipe(client);
    },
    async close() {
      for (const [client, target] of pairs) {
        client.destroy();
        target.destroy();
      }
      server.close();
      await once(server, 'close');
    },
  };
}
