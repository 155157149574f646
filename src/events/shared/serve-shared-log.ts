/** Serves the log of this process to others on the same machine, through a Unix domain socket. */
import { chmodSync, lstatSync, renameSync, unlinkSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { appendOverheadBytes } from '../embedded/append-batch.ts';
import { type FileIdentity, isMissing } from '../embedded/disk.ts';
import type { EmbeddedLog } from '../embedded/embedded-log.ts';
import { parsePosition } from '../event.ts';
import { type Appended, LogUnavailable } from '../log.ts';
import { idsOf } from '../replicated/append-applier.ts';
import { unframeAppend } from '../replicated/append-frame.ts';
import type { SequencedAppend } from '../replicated/engine.ts';
import {
  doneMessage,
  emptyMessage,
  endMessage,
  jsonMessage,
  jsonOf,
  MessageSplitter,
  messageKinds,
  type PrimaryStatus,
  ProtocolError,
  protocolVersion,
  refusedMessage,
  shortSocketPath,
  type Welcome,
} from './messages.ts';

export interface ServeSharedLogOptions {
  /** Remains open, and the caller's. It may be used in this process, too. */
  readonly log: EmbeddedLog;
  /** The folder must exist. A socket that another process has left there is replaced. */
  readonly socketPath: string;
  /** Called with connections that were ended because of what they sent, and with changes of `problem`. */
  readonly warn?: (message: string, error: unknown) => void;
}

export interface SharedLogServer {
  /** Why workers cannot connect at the moment. Those that are connected go on. */
  problem(): string | undefined;
  /** Ends the connections when what was received on them has its outcome. To be called before the log is closed. */
  close(): Promise<void>;
}

/**
 * How long a worker that waits for no answer may be behind what is visible: so that it is not woken by each group commit of
 * the others.
 */
const notifyMs = 2;
/** How often changes of the figures in the status are looked for, and whether the socket is still at its path. */
const statusMs = 1_000;

/**
 * Resolves when workers can connect. A socket that is removed or replaced by another one is made again within a second;
 * anything else at its path stays there, and is the `problem` until it is moved away.
 * @throws Error when something else than a socket has that path
 */
export async function serveSharedLog(options: ServeSharedLogOptions): Promise<SharedLogServer> {
  const served = new ServedLog(options);
  await served.listen();
  return served;
}

class ServedLog implements SharedLogServer {
  readonly #options: ServeSharedLogOptions;
  #server: Server | undefined;
  /** Of the socket that this process has made. */
  #socket: FileIdentity | undefined;
  #problem: string | undefined;
  #making = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
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
  }

  problem(): string | undefined {
    return this.#problem;
  }

  async listen(): Promise<void> {
    const { log } = this.#options;
    await this.#makeSocket();
    this.#timer = setInterval(() => {
      this.#reportStatus();
      this.#making = this.#making.then(() => this.#checkSocket());
    }, statusMs).unref();
    this.#stop.push(
      log.onShown(() => this.#shownSoon()),
      log.onStatusChange(() => this.#reportStatus()),
      () => clearTimeout(this.#notify),
    );
  }

  /** Listens at another name first: what is at the path is replaced at once, and closing a server removes only that name. */
  async #makeSocket(): Promise<void> {
    const { socketPath } = this.#options;
    removeStale(socketPath);
    this.#server?.close();
    const fresh = `${socketPath}.new`;
    removeStale(fresh);
    const server = createServer((socket) => this.#connected(socket));
    this.#server = server;
    const { path, release } = shortSocketPath(fresh);
    // no other user may connect before the mode is set
    const umask = process.umask(0o177);
    try {
      const listening = new Promise<void>((resolve, reject) => {
        server.once('listening', resolve).once('error', reject);
      });
      server.listen(path);
      process.umask(umask);
      await listening;
      chmodSync(fresh, 0o600);
      renameSync(fresh, socketPath);
      this.#socket = identityOf(socketPath);
    } finally {
      process.umask(umask);
      release();
    }
  }

  async #checkSocket(): Promise<void> {
    const { socketPath, warn } = this.#options;
    try {
      if (isSame(identityOf(socketPath), this.#socket)) {
        this.#problem = undefined;
        return;
      }
      await this.#makeSocket();
      this.#problem = undefined;
      warn?.(`the socket ${socketPath} was removed or replaced, and is made again`, undefined);
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      if (problem !== this.#problem) warn?.(`no worker can connect to the log: ${problem}`, undefined);
      this.#problem = problem;
    }
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
    clearInterval(this.#timer);
    await this.#making;
    const closed = new Promise<void>((resolve) => (this.#server ?? createServer()).close(() => resolve()));
    await Promise.all([...this.#connections].map((connection) => connection.end()));
    await closed;
    for (const stop of this.#stop.splice(0)) stop();
    const { socketPath } = this.#options;
    if (isSame(identityOf(socketPath), this.#socket)) unlinkSync(socketPath);
  }
}

function statusOf(log: EmbeddedLog): PrimaryStatus {
  const { head, durableHead, subscriptions, ...status } = log.status();
  return status;
}

/** Undefined when there is nothing. */
function identityOf(path: string): FileIdentity | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

function isSame(one: FileIdentity | undefined, other: FileIdentity | undefined): boolean {
  return one !== undefined && one.dev === other?.dev && one.ino === other.ino;
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

// The connection of one worker, in the primary.

/** Most bytes of answers that wait until the worker reads. */
const maxUnreadBytes = 16 * 1024 * 1024;
/** How long an ended connection may take to close. */
const endMs = 1_000;

interface WorkerConnectionParts {
  readonly socket: Socket;
  readonly log: EmbeddedLog;
  readonly status: () => PrimaryStatus;
  /**
   * Called with the id of the client. Resolves when its former connection has ended, and everything that this one has
   * appended is visible, if that is requested.
   */
  readonly introduced: (connection: WorkerConnection, client: string, hasUnresolved: boolean) => Promise<void>;
  readonly failed: (error: unknown) => void;
}

/** What is to be done when the log is visible up to the position. */
interface HeldAnswer {
  readonly position: number;
  readonly release: () => void;
  readonly refuse: (error: Error) => void;
}

class WorkerConnection {
  readonly #parts: WorkerConnectionParts;
  #answers: Buffer[] = [];
  #answerBytes = 0;
  #held: HeldAnswer[] = [];
  #isIntroduced = false;
  #isWelcome = false;
  #flushes = false;
  /** The latest one that was not sent. */
  #status: PrimaryStatus | undefined;
  /** The last end that was sent. */
  #sent = { position: -1, moves: 0 };
  /** Appends that were received and are not answered yet. */
  #unanswered = 0;
  #settled: (() => void)[] = [];

  constructor(parts: WorkerConnectionParts) {
    this.#parts = parts;
    const { socket } = parts;
    const splitter = new MessageSplitter('worker', (kind, buffer, start, end) =>
      this.#receive(kind, buffer, start, end),
    );
    socket.on('data', (chunk) => {
      try {
        splitter.add(chunk);
      } catch (error) {
        parts.failed(error);
        socket.destroy();
      }
    });
    socket.on('drain', () => this.flushSoon());
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#refuseHeld('the connection has ended'));
  }

  /** Resolves when everything that was received on it has its outcome. */
  whenSettled(): Promise<void> {
    return this.#unanswered === 0 ? Promise.resolve() : new Promise((resolve) => this.#settled.push(resolve));
  }

  /** Handles nothing more; what was received is answered. */
  async end(): Promise<void> {
    this.#parts.socket.pause();
    await this.whenSettled();
    this.flush();
    this.#parts.socket.end();
    setTimeout(() => this.destroy(), endMs).unref();
  }

  destroy(): void {
    this.#parts.socket.destroy();
  }

  sendStatus(status: PrimaryStatus): void {
    if (status.state !== 'ok') this.#refuseHeld(status.reason ?? 'the disk refuses');
    this.#status = status;
    this.flush();
  }

  #receive(kind: number, buffer: Buffer, start: number, end: number): void {
    // what had been received before the end of the connection is not handled after it
    if (this.#parts.socket.destroyed) return;
    if (!this.#isIntroduced && kind !== messageKinds.hello) throw new ProtocolError('a connection begins with "hello"');
    if (kind === messageKinds.append) this.#append(unframeAppend(buffer.subarray(start, end)));
    else if (kind === messageKinds.ping) this.#pong();
    else if (kind === messageKinds.hello && !this.#isIntroduced) this.#hello(jsonOf(buffer, start, end));
    else throw new ProtocolError(`a message has the kind ${kind}`);
  }

  #hello({ version, client, hasUnresolved }: Record<string, unknown>): void {
    if (version !== protocolVersion || typeof client !== 'string' || client.length > 64) {
      throw new ProtocolError(
        `a worker has version ${String(version)} of the protocol, the primary ${protocolVersion}`,
      );
    }
    this.#isIntroduced = true;
    this.#parts.introduced(this, client, hasUnresolved === true).then(
      () => this.#welcome(),
      (error: unknown) => {
        this.#parts.failed(error);
        this.destroy();
      },
    );
  }

  #welcome(): void {
    const { log, socket, status } = this.#parts;
    if (socket.destroyed) return;
    const end = log.visibleEnd();
    const welcome: Welcome = {
      version: protocolVersion,
      mark: log.mark,
      capabilities: log.capabilities,
      status: status(),
      end,
      places: placesIn(log, end.position),
    };
    this.#sent = end;
    this.#isWelcome = true;
    socket.write(jsonMessage(messageKinds.welcome, welcome));
    this.flush();
  }

  #pong(): void {
    const { socket } = this.#parts;
    // a worker that does not read needs no answer to that
    if (!socket.writableNeedDrain) socket.write(emptyMessage(messageKinds.pong));
  }

  #append(append: SequencedAppend): void {
    if (this.#answerBytes > maxUnreadBytes) throw new ProtocolError('a worker does not read its answers');
    this.#unanswered++;
    const { number, writes, records, until = 'durable', withIds } = append;
    this.#parts.log.appendRecords({
      append: { writes, records, bytes: records.length + appendOverheadBytes },
      until,
      ids: withIds ? idsOf(append) : undefined,
      resolve: (appended) => this.#appended(append, appended),
      reject: (error) => this.#answer(refusedMessage(number, error)),
    });
  }

  #appended({ number, records }: SequencedAppend, appended: Appended): void {
    const position = records.length > 0 ? 0 : parsePosition(appended.position);
    const answer = doneMessage(number, appended);
    if (position <= this.#parts.log.visible()) {
      this.#answer(answer);
      return;
    }
    // an append without events: what was recorded before it is to be visible
    const refuse = (error: Error) => this.#answer(refusedMessage(number, error));
    this.#held.push({ position, release: () => this.#answer(answer), refuse });
  }

  #answer(message: Buffer): void {
    this.#answers.push(message);
    this.#answerBytes += message.length;
    this.flushSoon();
    if (--this.#unanswered === 0) for (const resolve of this.#settled.splice(0)) resolve();
  }

  #refuseHeld(reason: string): void {
    for (const { refuse } of this.#held.splice(0)) refuse(new LogUnavailable(reason, 'none'));
  }

  /** Sends at the end of the running callback what there is then. */
  flushSoon(): void {
    if (this.#flushes) return;
    this.#flushes = true;
    queueMicrotask(() => {
      this.#flushes = false;
      this.flush();
    });
  }

  /** Something has become visible. @returns whether the worker must still be told so */
  shown(): boolean {
    const visible = this.#parts.log.visible();
    while ((this.#held[0]?.position ?? Number.POSITIVE_INFINITY) <= visible) this.#held.shift()?.release();
    if (this.#answers.length > 0) this.flush();
    return this.#isWelcome && this.#sent.position < visible;
  }

  /** Sends the visible end, when it has changed, and the answers, in one write. */
  flush(): void {
    const { socket, log } = this.#parts;
    // a worker that does not read gets the latest end when it does
    if (!this.#isWelcome || socket.writableNeedDrain || !socket.writable) return;
    if (this.#status !== undefined) socket.write(jsonMessage(messageKinds.status, this.#status));
    this.#status = undefined;
    const end = log.visibleEnd();
    const isNew = end.position !== this.#sent.position || end.moves !== this.#sent.moves;
    if (isNew) this.#answers.unshift(endMessage(end));
    if (this.#answers.length === 0) return;
    this.#sent = end;
    socket.write(Buffer.concat(this.#answers));
    this.#answers = [];
    this.#answerBytes = 0;
  }
}

function placesIn(log: EmbeddedLog, visible: number): number[][] {
  return log
    .segmentPlaces()
    .map(({ first, places }) => [
      first,
      ...places.filter(({ position }) => position <= visible).flatMap(({ position, offset }) => [position, offset]),
    ]);
}
