/** The connection of a worker to the primary; it is made again whenever it ends. */
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { LogEngine, SequencedAppend } from '../replicated/engine.ts';
import {
  appendMessages,
  emptyMessage,
  type Hello,
  jsonMessage,
  jsonOf,
  MessageSplitter,
  messageKinds,
  ProtocolError,
  protocolVersion,
  shortSocketPath,
  type Welcome,
} from './messages.ts';

export interface PrimaryLinkParts {
  readonly socketPath: string;
  readonly hello: () => Omit<Hello, 'version'>;
  /** The primary is reached. What is sent from now on follows the hello. @throws Error to end this connection */
  readonly welcomed: (welcome: Welcome) => void;
  readonly received: (kind: number, buffer: Buffer, start: number, end: number) => void;
  /** The primary cannot be reached; the link tries again. Called once for each end and each failed attempt. */
  readonly lost: (error: Error) => void;
  readonly retryMs: number;
}

export class PrimaryLink implements Pick<LogEngine, 'name' | 'append'> {
  readonly name = 'the primary process';
  readonly #parts: PrimaryLinkParts;
  readonly #ended = new AbortController();
  #socket: Socket | undefined;
  #running: Promise<void> | undefined;

  constructor(parts: PrimaryLinkParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Resolves when the operating system has them, or the connection is lost: the next one shows what became of them. */
  append(appends: readonly SequencedAppend[]): Promise<void> {
    return new Promise((resolve) => this.#socket?.write(appendMessages(appends), () => resolve()) ?? resolve());
  }

  ping(): void {
    this.#socket?.write(emptyMessage(messageKinds.ping));
  }

  /** Ends the connection, so that another one is made. */
  reconnect(): void {
    this.#socket?.destroy();
  }

  async close(): Promise<void> {
    this.#ended.abort();
    this.#socket?.destroy();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      const error = await this.#connectOnce();
      this.#socket = undefined;
      if (signal.aborted) return;
      this.#parts.lost(error);
      await delay(this.#parts.retryMs, undefined, { signal }).catch(() => {});
    }
  }

  /** @returns why the connection has ended, or was not made */
  #connectOnce(): Promise<Error> {
    return new Promise((resolve) => {
      const { path, release } = shortSocketPath(this.#parts.socketPath);
      let failure: Error | undefined;
      const socket = connect(path);
      this.#socket = socket;
      const splitter = new MessageSplitter('primary', (kind, buffer, start, end) =>
        this.#receive(kind, buffer, start, end),
      );
      socket.on('connect', () => {
        release();
        socket.write(jsonMessage(messageKinds.hello, { version: protocolVersion, ...this.#parts.hello() }));
      });
      socket.on('data', (chunk) => {
        try {
          splitter.add(chunk);
        } catch (error) {
          socket.destroy(error instanceof Error ? error : new Error(String(error)));
        }
      });
      socket.on('error', (error) => {
        failure = error;
      });
      socket.on('close', () => {
        release();
        resolve(failure ?? new Error('it has closed the connection'));
      });
    });
  }

  #receive(kind: number, buffer: Buffer, start: number, end: number): void {
    if (kind !== messageKinds.welcome) {
      this.#parts.received(kind, buffer, start, end);
      return;
    }
    const welcome = jsonOf(buffer, start, end) as unknown as Welcome;
    if (welcome.version !== protocolVersion) {
      throw new ProtocolError(`the primary has version ${welcome.version} of the protocol, not ${protocolVersion}`);
    }
    this.#parts.welcomed(welcome);
  }
}
