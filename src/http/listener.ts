/** The addresses at which clients reach a process. */
import { lookup } from 'node:dns/promises';
import { chmodSync, existsSync, lstatSync, unlinkSync } from 'node:fs';
import { connect, createServer, type ListenOptions, type Server, type ServerOpts, type Socket } from 'node:net';
import { dirname } from 'node:path';

export interface Address {
  /** `unix:` and a path for a Unix socket, which has no port and no TLS. */
  readonly host: string;
  readonly port: number;
  /** Undefined: clients use HTTP. */
  readonly tls?: object | undefined;
  /** Below which the routes are. */
  readonly basePath?: string;
  /** A further address, for administration. */
  readonly adminListen?: Address | undefined;
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
 * Node accepts one connection of a listening socket in each turn of its event loop (libuv, pull request 3696). With hundreds of open
 * exchanges a turn takes 10 ms and more, and of 1,000 clients that connect at once the last one would wait for seconds.
 * The system divides new connections between the sockets of a port.
 */
const SOCKETS = 64;

/** As Node's HTTP server accepts connections itself: a client may end its side after its request. */
export const acceptHttp: ServerOpts = { allowHalfOpen: true, noDelay: true };

type Take = (socket: Socket) => void;

/** Names the address and the setting that states it. `code` is that of the system's error. */
export class NotListening extends Error {
  readonly code: string | undefined;

  constructor({ host, port }: Address, setting: string, error: NodeJS.ErrnoException) {
    const at = host.startsWith('unix:') ? host : `${host}:${port}`;
    super(`${at} ${whyNotListening(host, error)} (${setting}).`, { cause: error });
    this.code = error.code;
  }
}

function whyNotListening(host: string, { code, message }: NodeJS.ErrnoException): string {
  if (host.startsWith('unix:')) {
    const path = host.slice('unix:'.length);
    if (!existsSync(dirname(path))) return 'cannot be created: its folder does not exist';
    if (code === 'EADDRINUSE' && !lstatSync(path).isSocket()) return 'is a file that is no socket: choose another path';
  }
  if (code === 'EADDRINUSE') return 'is in use: choose another address';
  if (code === 'EACCES') return 'cannot be used: the process is not allowed to listen there';
  return `cannot be used: ${message}`;
}

/**
 * @param take gets the connections until `receive` is called; those at a Unix socket or the address for administration are
 *   marked as such
 * @throws NotListening
 */
export async function openListener(address: Address, take: Take, options: ServerOpts = {}): Promise<PortListener> {
  const { adminListen, tls } = address;
  const main = await openAddress(
    address,
    address.host.startsWith('unix:') ? 'HOST' : 'HOST, --port or PORT',
    take,
    options,
  );
  if (adminListen === undefined) return main;
  const marked =
    (next: Take): Take =>
    (socket) => {
      socket.arrival = { isLocal: false, ...socket.arrival, isAdmin: true };
      next(socket);
    };
  try {
    const admin = await openAddress({ ...adminListen, tls }, 'ADMIN_LISTEN', marked(take), options);
    return {
      ...main,
      receive(next) {
        main.receive(next);
        admin.receive(marked(next));
      },
      close: async () => void (await Promise.all([main.close(), admin.close()])),
    };
  } catch (error) {
    await main.close();
    throw error;
  }
}

async function openAddress(address: Address, setting: string, take: Take, options: ServerOpts): Promise<PortListener> {
  const { host } = address;
  try {
    return host.startsWith('unix:') ? await openPath(host, take, options) : await openPort(address, take, options);
  } catch (error) {
    throw new NotListening(address, setting, error as NodeJS.ErrnoException);
  }
}

/** The socket that an earlier process has left at the path is replaced; one that is in use is not. */
async function openPath(host: string, take: Take, options: ServerOpts): Promise<PortListener> {
  const path = host.slice('unix:'.length);
  const server = createServer(options, (socket) => {
    socket.arrival = { isLocal: true };
    take(socket);
  });
  await listenOn(server, { path }).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EADDRINUSE' || !lstatSync(path).isSocket() || (await isInUse(path))) throw error;
    unlinkSync(path);
    await listenOn(server, { path });
  });
  // For proxies of the same group.
  chmodSync(path, 0o660);
  return {
    url: host,
    port: 0,
    receive(next) {
      take = next;
    },
    close: () => new Promise((resolve) => void server.close(() => resolve())),
  };
}

/** Whether a process listens at the path of a socket. */
function isInUse(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code !== 'ECONNREFUSED'));
  });
}

/** Listens at each address of the host name `localhost`: at the first one, and at further ones if possible. */
async function openPort(address: Address, take: Take, options: ServerOpts): Promise<PortListener> {
  const { host, port: given } = address;
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
    url: urlOf({ ...address, port }),
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

export function urlOf({ host, port, tls, basePath = '' }: Address): string {
  if (host.startsWith('unix:')) return host;
  return `${tls === undefined ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}${basePath}`;
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
