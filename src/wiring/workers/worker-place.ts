import type { Socket } from 'node:net';
import type { ServiceWorkers } from '../../http/health.ts';

/** The connections of a worker, which the primary process accepts. */
export interface ReceivedConnections {
  /** At which clients reach the service. */
  readonly url: string;
  receive(take: (socket: Socket) => void): void;
}

/** What a gateway needs to know about the service of which it is one of several workers. */
export interface WorkerPlace {
  /** From 1. The first one saves the read models for all. */
  readonly number: number;
  /** Of the primary process, which has the log open. */
  readonly socketPath: string;
  /** Undefined: it listens itself. */
  readonly connections?: ReceivedConnections | undefined;
  /** Called with the id of this gateway when it has its lease. */
  leased(gateway: string): void;
  /** The metrics of all workers, as the text of a scrape. Undefined: a scrape gets those of this one. */
  readonly scrape: (() => Promise<string>) | undefined;
  /** How many workers there are to be, and how many serve requests. */
  workers(): ServiceWorkers;
}
