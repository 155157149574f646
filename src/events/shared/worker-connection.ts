/** The connection of one worker, in the primary. */
import type { Socket } from 'node:net';
import type { EmbeddedLog } from '../embedded/embedded-log.ts';
import { parsePosition } from '../event.ts';
import { type Appended, LogUnavailable } from '../log.ts';
import { AnswerBuffer } from './answer-messages.ts';
import { type ReceivedAppend, readAppend } from './append-message.ts';
import {
  emptyMessage,
  endBytes,
  jsonMessage,
  jsonOf,
  MessageSplitter,
  messageKinds,
  type PrimaryStatus,
  ProtocolError,
  protocolVersion,
  type Welcome,
  writeEnd,
} from './messages.ts';

/** Most bytes of answers that wait until the worker reads. */
const maxUnreadBytes = 16 * 1024 * 1024;
/** How long an ended connection may take to close. */
const endMs = 1_000;

export interface WorkerConnectionParts {
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

export class WorkerConnection {
  readonly #parts: WorkerConnectionParts;
  readonly #answers = new AnswerBuffer(endBytes);
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
    if (kind === messageKinds.append) this.#append(readAppend(buffer, start, end));
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

  #append(append: ReceivedAppend): void {
    if (this.#answers.bytes > maxUnreadBytes) throw new ProtocolError('a worker does not read its answers');
    this.#unanswered++;
    this.#parts.log.appendRecords({
      append,
      until: append.until,
      ids: append.ids,
      resolve: (appended) => this.#appended(append, appended),
      reject: (error) => this.#refused(append.number, error),
    });
  }

  #appended({ number, records }: ReceivedAppend, appended: Appended): void {
    const position = records.length > 0 ? 0 : parsePosition(appended.position);
    if (position <= this.#parts.log.visible()) {
      this.#answers.done(number, appended);
      this.#answered();
      return;
    }
    // an append without events: what was recorded before it is to be visible
    this.#held.push({
      position,
      release: () => {
        this.#answers.done(number, appended);
        this.#answered();
      },
      refuse: (error) => this.#refused(number, error),
    });
  }

  #refused(number: number, error: unknown): void {
    this.#answers.refused(number, error);
    this.#answered();
  }

  #answered(): void {
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
    if (!this.#answers.isEmpty) this.flush();
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
    if (!isNew && this.#answers.isEmpty) return;
    this.#sent = end;
    socket.write(this.#answers.take(isNew ? (target) => writeEnd(target, 0, end) : undefined));
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
