import type { Server } from 'node:net';

/** The TCP port that a server listens on; 0 while it does not listen, or on a socket file. */
export function portOf(server: Server): number {
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}
