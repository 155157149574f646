/**
 * A log on EventStoreDB or KurrentDB, for several gateways. Appends are written without a condition (`any`): each
 * reader evaluates their expected revisions in the order of `$all` and ignores repetitions by writer and number.
 */
import { randomBytes } from 'node:crypto';
import {
  type EnginePlace,
  EngineUnavailable,
  type LogEngine,
  type PlaceState,
  type ReadBatch,
  type SequencedAppend,
} from '../replicated/engine.ts';
import type { LogEngineAccess } from '../replicated/engine-access.ts';
import { checkTlsTexts } from '../replicated/tls-texts.ts';
import { layOut } from './event-layout.ts';
import { type EventStoreAddress, parseEventStoreAddress } from './eventstore-address.ts';
import { EventStoreConnection } from './eventstore-connection.ts';
import { engineErrorOf, messageOf } from './eventstore-errors.ts';
import { type ReadOptions, readAppends, verifyPlace } from './read-appends.ts';
import { sendAppends } from './send-appends.ts';

export interface EventStoreEngineOptions extends LogEngineAccess {
  /** After this time without an event, the reader looks whether it has missed any. Default 15,000. */
  readonly idleMs?: number;
}

const maxAppendBytes = 80 * 1024 * 1024;

/** @throws EngineUnsuitable when the address or a setting is wrong */
export function createEventStoreEngine(options: EventStoreEngineOptions): LogEngine {
  checkTlsTexts(options);
  return new EventStoreEngine(parseEventStoreAddress(options), options.idleMs ?? 15_000);
}

class EventStoreEngine implements LogEngine {
  readonly name = 'eventstore';
  readonly maxAppendBytes = maxAppendBytes;
  readonly #address: EventStoreAddress;
  readonly #idleMs: number;
  /** Names the calls of this engine among those of all gateways. */
  readonly #instance = randomBytes(8).toString('hex');
  #calls = 0;
  #reading: EventStoreConnection | undefined;
  /** Apart from the reading one, because it is closed after each failed append. */
  #appending: EventStoreConnection | undefined;
  #closed = new AbortController();

  constructor(address: EventStoreAddress, idleMs: number) {
    this.#address = address;
    this.#idleMs = idleMs;
  }

  async open(): Promise<void> {
    this.#reading ??= new EventStoreConnection(this.#address);
    try {
      await this.#reading.readLast(1);
    } catch (error) {
      throw engineErrorOf(error, 'opening');
    }
  }

  async append(appends: readonly SequencedAppend[]): Promise<void> {
    const { logName, deadlineMs } = this.#address;
    const writes = layOut(appends, logName, `${this.#instance}-${++this.#calls}`);
    const connection = await this.#connectToAppend();
    try {
      await sendAppends(connection, writes, deadlineMs);
    } catch (error) {
      this.#appending = undefined;
      throw error;
    }
  }

  async *read(after: EnginePlace | undefined, signal: AbortSignal): AsyncGenerator<ReadBatch> {
    const ended = AbortSignal.any([signal, this.#closed.signal]);
    yield* readAppends(this.#toRead(), after, ended);
    if (!signal.aborted) throw new EngineUnavailable('EventStoreDB has been closed', 'none');
  }

  async verify(place: EnginePlace | undefined): Promise<PlaceState> {
    return verifyPlace(this.#toRead(), place);
  }

  async close(): Promise<void> {
    this.#closed.abort();
    const connections = [this.#reading, this.#appending];
    this.#reading = undefined;
    this.#appending = undefined;
    await Promise.all(connections.map((connection) => connection?.close()));
  }

  #toRead(): ReadOptions {
    const connection = this.#reading;
    if (connection === undefined) throw new EngineUnavailable('EventStoreDB has not been opened', 'none');
    return { connection, logName: this.#address.logName, idleMs: this.#idleMs };
  }

  /** The first call on a connection is a read: the client can hang when it begins with many appends. */
  async #connectToAppend(): Promise<EventStoreConnection> {
    if (this.#closed.signal.aborted) throw new EngineUnavailable('EventStoreDB has been closed', 'none');
    if (this.#appending !== undefined) return this.#appending;
    const connection = new EventStoreConnection(this.#address);
    this.#appending = connection;
    try {
      await connection.readLast(1);
    } catch (error) {
      this.#appending = undefined;
      await connection.close();
      throw new EngineUnavailable(messageOf(engineErrorOf(error, 'appending')), 'none');
    }
    return connection;
  }
}
