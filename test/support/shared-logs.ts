/** A log in files that is served through a socket, and the logs of workers on it. */
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { EmbeddedLog, type EmbeddedLogOptions } from '../../src/events/embedded/embedded-log.ts';
import { MessageSplitter, messageHeaderBytes, messageKinds } from '../../src/events/shared/messages.ts';
import { type SharedLogServer, serveSharedLog } from '../../src/events/shared/serve-shared-log.ts';
import { SharedLog, type SharedLogOptions } from '../../src/events/shared/shared-log.ts';
import type { SharedLog as LogOfContract, ReopenOptions, SharedHandle } from '../contract/shared-log.ts';

/** The primary, in this process. */
export class ServedFolder {
  readonly folder: string;
  readonly dir: string;
  readonly socketPath: string;
  /** What the server has warned of. */
  readonly warnings: string[];
  readonly #options: EmbeddedLogOptions;
  #log: EmbeddedLog;
  #server: SharedLogServer;
  #runs = true;

  private constructor(parts: {
    folder: string;
    options: EmbeddedLogOptions;
    warnings: string[];
    log: EmbeddedLog;
    server: SharedLogServer;
  }) {
    this.warnings = parts.warnings;
    this.folder = parts.folder;
    this.dir = dirIn(parts.folder);
    this.socketPath = socketIn(parts.folder);
    this.#options = parts.options;
    this.#log = parts.log;
    this.#server = parts.server;
  }

  static async open(options: EmbeddedLogOptions = {}): Promise<ServedFolder> {
    const folder = await mkdtemp(path.join(tmpdir(), 'chancery-shared-'));
    const warnings: string[] = [];
    return new ServedFolder({ folder, options, warnings, ...(await serve(folder, options, warnings)) });
  }

  get log(): EmbeddedLog {
    return this.#log;
  }

  async stop(): Promise<void> {
    this.#runs = false;
    await this.#server.close();
    await this.#log.close();
  }

  async start(): Promise<void> {
    ({ log: this.#log, server: this.#server } = await serve(this.folder, this.#options, this.warnings));
    this.#runs = true;
  }

  openWorker(options: Partial<SharedLogOptions> = {}): Promise<SharedLog> {
    return SharedLog.open({
      socketPath: this.socketPath,
      dir: this.dir,
      ...options,
      timing: { retryMs: 5, checkMs: 50, ...options.timing },
    });
  }

  async dispose(): Promise<void> {
    if (this.#runs) await this.stop();
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

function dirIn(folder: string): string {
  return path.join(folder, 'log');
}

function socketIn(folder: string): string {
  return path.join(folder, 'log.sock');
}

async function serve(folder: string, options: EmbeddedLogOptions, warnings: string[]) {
  const log = await EmbeddedLog.open(dirIn(folder), options);
  const warn = (_: string, error: unknown) => warnings.push(String(error));
  return { log, server: await serveSharedLog({ log, socketPath: socketIn(folder), warn }) };
}

/** Between a worker and the primary: passes everything on, and can lose the connection at an append. */
class Relay {
  readonly socketPath: string;
  readonly #primary: string;
  readonly #server: Server;
  readonly #losses: boolean[] = [];
  readonly #sockets = new Set<Socket>();

  private constructor(socketPath: string, primary: string) {
    this.socketPath = socketPath;
    this.#primary = primary;
    this.#server = createServer((worker) => this.#connected(worker));
  }

  static async open(socketPath: string, primary: string): Promise<Relay> {
    const relay = new Relay(socketPath, primary);
    await new Promise<void>((resolve) => relay.#server.listen(socketPath, resolve));
    return relay;
  }

  lose(recorded: boolean): void {
    this.#losses.push(recorded);
  }

  #connected(worker: Socket): void {
    const primary = connect(this.#primary);
    let losing = false;
    const end = () => {
      worker.destroy();
      primary.destroy();
    };
    for (const socket of [worker, primary]) {
      this.#sockets.add(socket);
      socket.on('error', end).on('close', () => {
        this.#sockets.delete(socket);
        end();
      });
    }
    const toPrimary = new MessageSplitter('worker', (kind, buffer, start, to) => {
      const hasEvents = kind === messageKinds.append && to - start > 100;
      if (losing || worker.destroyed) return;
      if (hasEvents && this.#losses.length > 0) {
        losing = this.#losses.shift() === true;
        if (!losing) return end();
      }
      primary.write(buffer.subarray(start - messageHeaderBytes, to));
    });
    worker.on('data', (chunk) => toPrimary.add(chunk));
    const toWorker = new MessageSplitter('primary', (kind, buffer, start, to) => {
      if (losing && (kind === messageKinds.done || kind === messageKinds.refused)) return end();
      if (!worker.destroyed) worker.write(buffer.subarray(start - messageHeaderBytes, to));
    });
    primary.on('data', (chunk) => toWorker.add(chunk));
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}

class Worker implements SharedHandle {
  readonly #served: ServedFolder;
  readonly #relay: Relay;
  #log: SharedLog;

  private constructor(served: ServedFolder, relay: Relay, log: SharedLog) {
    this.#served = served;
    this.#relay = relay;
    this.#log = log;
  }

  static async open(served: ServedFolder, socketPath: string): Promise<Worker> {
    const relay = await Relay.open(socketPath, served.socketPath);
    return new Worker(served, relay, await served.openWorker({ socketPath }));
  }

  get log(): SharedLog {
    return this.#log;
  }

  loseAnswer(recorded: boolean): void {
    this.#relay.lose(recorded);
  }

  /** A worker has no folder and no checkpoint. */
  async reopen({ meanwhile }: ReopenOptions = {}): Promise<void> {
    await this.#log.close();
    await meanwhile?.();
    this.#log = await this.#served.openWorker({ socketPath: this.#relay.socketPath });
  }

  async dispose(): Promise<void> {
    await this.#log.close().catch(() => {});
    await this.#relay.close();
  }
}

/** One log, for `sharedLogContract`. */
export async function sharedWorkers(options: EmbeddedLogOptions = {}): Promise<LogOfContract> {
  const served = await ServedFolder.open(options);
  const workers: Worker[] = [];
  let opened = 0;
  return {
    engine: { stop: () => served.stop(), start: () => served.start() },
    open: async () => {
      const worker = await Worker.open(served, path.join(served.folder, `worker-${++opened}.sock`));
      workers.push(worker);
      return worker;
    },
    dispose: async () => {
      await Promise.all(workers.map((worker) => worker.dispose()));
      await served.dispose();
    },
  };
}
