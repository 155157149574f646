/**
 * Clients of kafkajs that end. kafkajs opens a new connection when anything is sent on a client after its `disconnect`, and some
 * of its requests never settle; such a connection would stay open and keep the process alive. Here each client has its own
 * sockets: they are destroyed at its end, and it opens no more.
 */
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import type { ISocketFactoryArgs, Kafka, KafkaConfig } from 'kafkajs';
import { EngineUnavailable } from '../replicated/engine.ts';
import kafkajs from './kafkajs.ts';

/** For an orderly end. */
const disconnectMs = 1_000;
const keepAliveMs = 60_000;
const CLOSED = 'the connection to Kafka has been closed';

export class KafkaClient {
  readonly kafka: Kafka;
  readonly #limitMs: number;
  readonly #sockets = new Set<Socket>();
  readonly #ended = Promise.withResolvers<never>();
  #isEnded = false;
  #ending: Promise<void> | undefined;

  constructor(config: KafkaConfig, limitMs: number) {
    this.kafka = new kafkajs.Kafka({ ...config, socketFactory: (to) => this.#connect(to) });
    this.#limitMs = limitMs;
    this.#ended.promise.catch(() => {});
  }

  /** The result of work on this client. @throws what the work throws; Error when the client ends, or the work takes too long */
  async limited<Value>(work: Promise<Value>): Promise<Value> {
    work.catch(() => {});
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new Error(`no result within ${this.#limitMs} ms`)), this.#limitMs);
    try {
      return await Promise.race([work, this.#ended.promise, late.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  get isEnding(): boolean {
    return this.#ending !== undefined;
  }

  /** @param disconnect ends in an orderly way what kafkajs has on this client; not waited for longer than a second */
  end(disconnect: () => Promise<unknown>): Promise<void> {
    this.#ending ??= withinTime(disconnect(), disconnectMs).finally(() => this.destroy());
    return this.#ending;
  }

  /** Ends its connections at once. What is under way on it fails. */
  destroy(): void {
    this.#isEnded = true;
    this.#ended.reject(new Error(CLOSED));
    for (const socket of this.#sockets) socket.destroy(new Error(CLOSED));
  }

  /** Resolves when it has ended. */
  async whenEnded(): Promise<void> {
    await this.#ended.promise.catch(() => {});
  }

  #connect({ host, port, ssl, onConnect }: ISocketFactoryArgs): Socket {
    if (this.#isEnded) throw new Error(CLOSED);
    const names = isIP(host) === 0 ? { servername: host } : {};
    // kafkajs passes undefined for connections without TLS, unlike its types say
    const tls: ISocketFactoryArgs['ssl'] | undefined = ssl;
    const socket = tls
      ? connectTls({ host, port, ...names, ...tls }, onConnect)
      : connectTcp({ host, port }, onConnect);
    // A small request must not wait for the acknowledgement of the one before.
    socket.setNoDelay(true);
    socket.setKeepAlive(true, keepAliveMs);
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    return socket;
  }
}

/** All clients of an engine. */
export class KafkaClients {
  readonly #config: KafkaConfig;
  readonly #limitMs: number;
  readonly #clients = new Set<KafkaClient>();
  #isClosed = false;

  /** @param limitMs of one call of kafkajs with all its requests and repetitions */
  constructor(config: KafkaConfig, limitMs: number) {
    this.#config = config;
    this.#limitMs = limitMs;
  }

  /** @throws EngineUnavailable after `close` */
  create(): KafkaClient {
    if (this.#isClosed) throw new EngineUnavailable(CLOSED, 'none');
    const client = new KafkaClient(this.#config, this.#limitMs);
    this.#clients.add(client);
    void client.whenEnded().then(() => this.#clients.delete(client));
    return client;
  }

  /** Resolves when all have ended: those that have not begun to end in this turn of the event loop end at once. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await nextTurn();
    await Promise.all([...this.#clients].map((client) => (client.isEnding ? client.whenEnded() : client.destroy())));
  }
}

/** Waits for the end of the promise, however it ends, but not longer than this. */
async function withinTime(promise: Promise<unknown>, ms: number): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  await Promise.race([promise.catch(() => undefined), late]);
  clearTimeout(timer);
}
