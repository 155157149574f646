/**
 * The port of a service with several workers. The primary process accepts the connections and passes each one to the next
 * worker, which has to confirm it before it gets another: one that hangs gets no more than that. While no worker runs,
 * connections wait.
 */
import type { Socket } from 'node:net';
import { type Address, listenAt, listeningPort } from '../../http/listen-at.ts';

export interface ConnectionReceiver {
  readonly number: number;
  /** @returns whether it could be sent */
  pass(connection: Socket): boolean;
}

/** Length of the system's queue of connections that are not accepted yet. */
const MAX_WAITING = 511;

export class Connections {
  readonly port: number;
  readonly #servers: Awaited<ReturnType<typeof listenAt>>;
  readonly #waiting: Socket[] = [];
  /** Those that may get a connection, the one that waits longest first. */
  readonly #free: ConnectionReceiver[] = [];
  /** Sent and not confirmed, by the number of the worker. */
  readonly #sent = new Map<number, Socket>();

  private constructor(servers: Awaited<ReturnType<typeof listenAt>>, port: number) {
    this.#servers = servers;
    this.port = listeningPort(servers[0]) ?? port;
  }

  /** @throws what `listen` fails with, such as EADDRINUSE */
  static async listen(address: Address): Promise<Connections> {
    let accepted: (socket: Socket) => void = (socket) => socket.destroy();
    const servers = await listenAt(address, (socket) => accepted(socket), { pauseOnConnect: true, noDelay: true });
    const connections = new Connections(servers, address.port);
    accepted = (socket) => connections.#accept(socket);
    return connections;
  }

  /** The worker serves requests, or has confirmed a connection. */
  workerIsFree(worker: ConnectionReceiver): void {
    this.#sent.get(worker.number)?.destroy();
    this.#sent.delete(worker.number);
    this.#free.push(worker);
    this.#pass();
  }

  /** A connection that it has not confirmed is closed. */
  workerEnded(number: number): void {
    this.#sent.get(number)?.destroy();
    this.#sent.delete(number);
    const at = this.#free.findIndex((worker) => worker.number === number);
    if (at >= 0) this.#free.splice(at, 1);
  }

  /** Accepts no further connection. */
  close(): void {
    for (const server of this.#servers) server.close();
    for (const socket of this.#waiting.splice(0)) socket.destroy();
  }

  #accept(socket: Socket): void {
    socket.on('error', () => {});
    if (this.#waiting.length >= MAX_WAITING) {
      socket.destroy();
      return;
    }
    this.#waiting.push(socket);
    this.#pass();
  }

  #pass(): void {
    for (;;) {
      const [worker] = this.#free;
      const [socket] = this.#waiting;
      if (worker === undefined || socket === undefined) return;
      this.#free.shift();
      // One that cannot be sent to has ended, which is handled elsewhere.
      if (!worker.pass(socket)) continue;
      this.#waiting.shift();
      this.#sent.set(worker.number, socket);
    }
  }
}
