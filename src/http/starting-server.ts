/**
 * Answers on the gateway's port while the gateway waits for the engine of its log, or its read models read the log: `GET /health` with 200, since the process
 * is alive; `GET /health/ready` with 503 and the reason; every other request with 503 `log_unavailable`. The gateway's own
 * server then takes over the listening socket, so that no connection is refused in between.
 */
import type { Server } from 'node:http';
import type { Server as NetServer } from 'node:net';
import { refusals } from '../commands/refusal.ts';
import { listenAt, listeningPort, listenOn } from './listen-at.ts';
import { createUnreadyServer } from './unready-server.ts';

export interface StartingState {
  readonly reason:
    | 'log: opening'
    | 'log: catching up'
    | 'engine unreachable'
    | 'disk: the replica cannot be written'
    | 'read models: catching up'
    | 'starting';
  /** While it catches up: of the last event that this gateway has, or that its read models have. */
  readonly position?: string;
}

export interface StartingServer {
  readonly port: number;
  /** Resolves when the server accepts the connections to the port. Those that are open end after one answer. */
  handOver(server: Server): Promise<void>;
  /** Frees the port for a server that listens at several addresses. Connections that are open end after one answer. */
  release(): Promise<void>;
  /** Frees the port, unless it was handed over. */
  close(): void;
}

export interface StartingServerOptions {
  readonly host: string;
  readonly port: number;
  readonly maxHeaderBytes: number;
  readonly state: () => StartingState;
}

/** @throws what `listen` fails with, such as EADDRINUSE */
export async function listenWhileStarting(options: StartingServerOptions): Promise<StartingServer> {
  const { host, port, maxHeaderBytes, state } = options;
  const unready = createUnreadyServer({
    maxHeaderBytes,
    refusal: () => refusals.logUnavailable(),
    readiness: () => ({ components: { storage: 'down' }, starting: state() }),
  });
  const [listening, ...further] = await listenAt({ host, port }, unready.take);
  let isHandedOver = false;
  return {
    port: listeningPort(listening) ?? port,
    async handOver(server) {
      await listenOn(server, listening);
      isHandedOver = true;
    },
    async release() {
      await Promise.all([listening, ...further].map(stopListening));
      isHandedOver = true;
    },
    close() {
      if (isHandedOver) return;
      for (const one of [listening, ...further]) one.close();
      unready.close();
    },
  };
}

/** Resolves when the port is free: connections that are open do not count. */
function stopListening(server: NetServer): Promise<void> {
  server.close();
  return new Promise((resolve) => setImmediate(resolve));
}
