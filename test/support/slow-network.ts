/** A TCP proxy in front of a server, as a slow network: answers arrive late, or no more after it was cut. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';

export interface SlowNetwork {
  readonly port: number;
  /** Nothing passes from now on, in either direction, also on new connections. */
  cut(): void;
  /** New connections pass; those that were cut are closed. */
  heal(): void;
  close(): Promise<void>;
}

/** @param delayMs between the arrival of an answer and its delivery */
export async function startSlowNetwork(targetPort: number, delayMs: number): Promise<SlowNetwork> {
  const pairs = new Set<{ readonly client: Socket; readonly target: Socket }>();
  let isCut = false;
  const server = createServer((client) => {
    const target = connect(targetPort, '127.0.0.1');
    const pair = { client, target };
    pairs.add(pair);
    const end = () => {
      pairs.delete(pair);
      client.destroy();
      target.destroy();
    };
    for (const socket of [client, target]) socket.on('error', end).on('close', end);
    client.on('data', (bytes) => isCut || target.write(bytes));
    target.on('data', (bytes) => {
      setTimeout(() => isCut || client.destroyed || client.write(bytes), delayMs);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const closeAll = () => {
    for (const { client, target } of [...pairs]) {
      client.destroy();
      target.destroy();
    }
  };
  return {
    port: address.port,
    cut() {
      isCut = true;
    },
    heal() {
      closeAll();
      isCut = false;
    },
    async close() {
      closeAll();
      server.close();
      await once(server, 'close');
    },
  };
}
