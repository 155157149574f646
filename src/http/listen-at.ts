/** Listening at an address, or at every address of `localhost`. */
import { lookup } from 'node:dns/promises';
import { createServer, type ListenOptions, type Server, type ServerOpts, type Socket } from 'node:net';

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Listens at each address of the host name `localhost`: at the first one, and at further ones if possible. */
export async function listenAt(
  { host, port }: Address,
  accept: (socket: Socket) => void,
  options: ServerOpts = {},
): Promise<[Server, ...Server[]]> {
  const [first = host, ...others] = host === 'localhost' ? await addressesOf(host) : [host];
  const listening = createServer(options, accept);
  await listenOn(listening, { host: first, port });
  const further: Server[] = [];
  for (const address of others) {
    const server = createServer(options, accept);
    const isListening = await listenOn(server, { host: address, port: listeningPort(listening) ?? port }).then(
      () => true,
      () => false,
    );
    if (isListening) further.push(server);
  }
  return [listening, ...further];
}

async function addressesOf(host: string): Promise<string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

export function listeningPort(server: Server): number | undefined {
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : undefined;
}

/** @param where an address, or a server whose listening socket is used from now on */
export function listenOn(server: Server, where: ListenOptions | Server): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(where, () => {
      server.removeListener('error', reject);
      resolve();
    });
  });
}
