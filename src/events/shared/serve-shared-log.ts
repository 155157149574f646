/** Serves the log of this process to others on the same machine, through a Unix domain socket. */
import { chmodSync, lstatSync, unlinkSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { isMissing } from '../embedded/disk.ts';
import type { EmbeddedLog } from '../embedded/embedded-log.ts';
import type { PrimaryStatus } from './messages.ts';
import { shortSocketPath } from './short-socket-path.ts';
import { WorkerConnection } from './worker-connection.ts';

export interface ServeSharedLogOptions {
  /** Remains open, and the caller's. It may be used in this process, too. */
  readonly log: EmbeddedLog;
  /** The folder must exist. A socket that another process has left there is replaced. */
  readonly socketPath: string;
  /** Called with connections that were ended because of what they sent. */
  readonly warn?: (message: string, error: unknown) => void;
}

export interface SharedLogServer {
  /** Ends the connections when what was received on them has its outcome. To be called before the log is closed. */
  close(): Promise<void>;
}

/**
 * How long a worker that waits for no answer may be behind what is visible: so that it is not woken by each group commit of
 * the others.
 */
const notifyMs = 2;
/** How often changes of the figures in the status are looked for. */
const statusMs = 1_000;

/** Resolves when workers can connect. @throws Error when something else than a socket has that path */
export async function serveSharedLog(options: ServeSharedLogOptions): Promise<SharedLogServer> {
  const served = new ServedLog(options);
  await served.listen();
  return served;
}

class ServedLog implements SharedLogServer {
  readonly #options: ServeSharedLogOptions;
  readonly #server: Server;
  readonly #connections = new Set<WorkerConnection>();
  /** The latest connection of each client, until it has ended and is settled. */
  readonly #clients = new Map<string, WorkerConnection>();
  readonly #stop: (() => void)[] = [];
  #shown: (() => void)[] = [];
  #flushes = false;
  #notify: NodeJS.Timeout | undefined;
  #status = '';

  constructor(options: ServeSharedLogOptions) {
    this.#options = options;
    this.#server = createServer((socket) => this.#connected(socket));
  }

  async listen(): Promise<void> {
    const { socketPath, log } = this.#options;
    removeStale(socketPath);
    const { path, release } = shortSocketPath(socketPath);
    // no other user may connect before the mode is set
    const umask = process.umask(0o177);
    try {
      const listening = new Promise<void>((resolve, reject) => {
        this.#server.once('listening', resolve).once('error', reject);
      });
      this.#server.listen(path);
      process.umask(umask);
      await listening;
      chmodSync(socketPath, 0o600);
    } finally {
      process.umask(umask);
      release();
    }
    const timer = setInterval(() => this.#reportStatus(), statusMs).unref();
    this.#stop.push(
      log.onShown(() => this.#shownSoon()),
      log.onStatusChange(() => this.#reportStatus()),
      () => clearInterval(timer),
      () => clearTimeout(this.#notify),
    );
  }

  #connected(socket: Socket): void {
    const { log, warn } = this.#options;
    const connection = new WorkerConnection({
      socket,
      log,
      status: () => statusOf(log),
      introduced: (self, client, hasUnresolved) => this.#introduced(self, client, hasUnresolved),
      failed: (error) => warn?.('the connection of a worker to the log was ended', error),
    });
    this.#connections.add(connection);
    socket.on('close', () => {
      this.#connections.delete(connection);
      void connection.whenSettled().then(() => {
        for (const [client, latest] of this.#clients) if (latest === connection) this.#clients.delete(client);
      });
    });
  }

  async #introduced(connection: WorkerConnection, client: string, hasUnresolved: boolean): Promise<void> {
    const former = this.#clients.get(client);
    former?.destroy();
    this.#clients.set(client, connection);
    if (!hasUnresolved) return;
    await former?.whenSettled();
    const { log } = this.#options;
    const { head } = log.status();
    while ((await log.head()) < head) await new Promise<void>((resolve) => this.#shown.push(resolve));
  }

  /** Once per group commit, whatever the number of its batches. */
  #shownSoon(): void {
    if (this.#flushes) return;
    this.#flushes = true;
    queueMicrotask(() => {
      this.#flushes = false;
      let isBehind = false;
      for (const connection of this.#connections) if (connection.shown()) isBehind = true;
      if (isBehind) this.#notify ??= setTimeout(() => this.#notifyAll(), notifyMs);
      for (const resolve of this.#shown.splice(0)) resolve();
    });
  }

  #notifyAll(): void {
    this.#notify = undefined;
    for (const connection of this.#connections) connection.flush();
  }

  #reportStatus(): void {
    const status = statusOf(this.#options.log);
    const text = JSON.stringify(status);
    if (text === this.#status) return;
    this.#status = text;
    for (const connection of this.#connections) connection.sendStatus(status);
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    await Promise.all([...this.#connections].map((connection) => connection.end()));
    await closed;
    for (const stop of this.#stop.splice(0)) stop();
    removeStale(this.#options.socketPath);
  }
}

function statusOf(log: EmbeddedLog): PrimaryStatus {
  const { head, durableHead, subscriptions, ...status } = log.status();
  return status;
}

/** The log's lock is held, so no other process serves this one. @throws Error */
function removeStale(socketPath: string): void {
  try {
    if (!lstatSync(socketPath).isSocket()) throw new Error(`${socketPath} exists and is no socket; move it away`);
    unlinkSync(socketPath);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}
