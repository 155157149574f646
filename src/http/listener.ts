/** The address at which clients reach a process. */
import { lookup } from 'node:dns/promises';
import { createServer, type ListenOptions, type Server, type ServerOpts, type Socket } from 'node:net';

export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface PortListener {
  /** For example `http://127.0.0.1:8080`. */
  readonly url: string;
  readonly port: number;
  /** Every further connection is passed to `take`. */
  receive(take: (socket: Socket) => void): void;
  /** Resolves when the port is free. Connections that are open stay open. */
  close(): Promise<void>;
}

/**
 * Node accepts one connection of a listening socket in each turn of its event loop (libuv since 1.45). With hundreds of open
 * exchanges a turn takes 10 ms and more, and of 1,000 clients that connect at once the last one would wait for seconds.
 * The system divides new connections between the sockets of a port.
 */
const SOCKETS = 64;

/** As Node's HTTP server accepts connections itself: a client may end its side after its request. */
export const acceptHttp: ServerOpts = { allowHalfOpen: true, noDelay: true };

/**
 * Listens at each address of the host name `localhost`: at the first one, and at further ones if possible.
 * @param take gets the connections until `receive` is called
 * @throws what `listen` fails with, such as EADDRINUSE
 */
export async function openListener(
  { host, port: given }: Address,
  take: (socket: Socket) => void,
  options: ServerOpts = {},
): Promise<PortListener> {
  const servers: Server[] = [];
  const close = async () => {
    for (const server of servers) server.close();
    // Handles are closed at the end of the turn.
    await new Promise((resolve) => setImmediate(resolve));
  };
  const open = async (where: ListenOptions) => {
    const server = createServer(options, (socket) => take(socket));
    await listenOn(server, where);
    servers.push(server);
    return server;
  };
  const [first = host, ...others] = host === 'localhost' ? await addressesOf(host) : [host];
  let port = given;
  try {
    // Without `reusePort`, so that a port in use is noticed.
    port = portOf(await open({ host: first, port }));
    const turn = given === 0 ? undefined : await onlySharer(port);
    if (turn !== undefined) {
      await close();
      servers.splice(0, servers.length, turn);
      for (let count = 0; count < SOCKETS; count++) await open({ host: first, port, reusePort: true });
    }
  } catch (error) {
    await close();
    throw error;
  }
  for (const address of others) await open({ host: address, port }).catch(() => {});
  return {
    url: urlOf({ host, port }),
    port,
    receive(next) {
      take = next;
    },
    close,
  };
}

/**
 * Processes of one user that listen with `reusePort` share a port without noticing: only the one that has this name may do so.
 * It is a name in the kernel (an abstract socket of Linux), of the same network namespace as the port, and disappears
 * with the process. @returns undefined where another process has it, and on other systems
 */
async function onlySharer(port: number): Promise<Server | undefined> {
  if (process.platform !== 'linux') return undefined;
  const server = createServer((socket) => socket.destroy());
  return listenOn(server, { path: `\0chancery-port-${port}` }).then(
    () => server,
    () => undefined,
  );
}

async function addressesOf(host: string): Promise<string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

function portOf(server: Server): number {
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('the server does not listen at a port');
  return address.port;
}

export function urlOf({ host, port }: Address): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function listenOn(server: Server, where: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(where, () => {
      server.removeListener('error', reject);
      resolve();
    });
  });
}
