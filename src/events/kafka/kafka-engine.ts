/**
 * A log on Kafka, for several gateways: one topic with one partition. A record is acknowledged when all replicas in sync
 * have it (`acks=all`); a broker does not wait for its disk. Order and content are those of the topic; each reader evaluates
 * expected revisions and ignores repetitions by writer and number.
 */
import { randomBytes } from 'node:crypto';
import type { Admin, KafkaConfig, Producer } from 'kafkajs';
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
import { type KafkaAddress, parseKafkaAddress } from './kafka-address.ts';
import { type KafkaClient, KafkaClients } from './kafka-clients.ts';
import { kafkaErrorOf } from './kafka-errors.ts';
import { formatKafkaPlace, parseKafkaPlace, topicStart } from './kafka-place.ts';
import { PlaceVerifier } from './kafka-place-verifier.ts';
import { readRecords } from './kafka-reader.ts';
import { AppendAssembler, maxPartDistance, messagesOf } from './kafka-records.ts';
import { ensureTopic } from './kafka-topic.ts';
import kafkajs from './kafkajs.ts';

const maxAppendBytes = 64 * 1024 * 1024;
/** More in one batch does not make the broker faster. */
const mostBatchBytes = 1024 * 1024;
/** Of a batch beside its records. */
const batchOverheadBytes = 1024;
const connectTimeoutMs = 3_000;
/** A call takes several requests, and kafkajs repeats some of them. */
const requestsPerCall = 6;

interface ConnectedProducer {
  readonly client: KafkaClient;
  readonly producer: Producer;
}

/** @throws EngineUnsuitable when the address or a setting is wrong */
export function createKafkaEngine(access: LogEngineAccess): LogEngine {
  checkTlsTexts(access);
  return new KafkaEngine(parseKafkaAddress(access));
}

class KafkaEngine implements LogEngine {
  readonly name = 'kafka';
  readonly maxAppendBytes = maxAppendBytes;
  readonly #address: KafkaAddress;
  readonly #clients: KafkaClients;
  /** Names the calls of this engine among those of all gateways. */
  readonly #instance = randomBytes(8).toString('hex');
  readonly #closed = new AbortController();
  readonly #verifier: PlaceVerifier;
  #calls = 0;
  #batchBytes = 0;
  #connected: ConnectedProducer | undefined;

  constructor(address: KafkaAddress) {
    const { brokers, tls, sasl, requestTimeoutMs } = address;
    this.#address = address;
    const config: KafkaConfig = {
      ...{ clientId: 'chancery', brokers: [...brokers], ssl: tls, logLevel: kafkajs.logLevel.NOTHING },
      ...{ connectionTimeout: connectTimeoutMs, requestTimeout: requestTimeoutMs, enforceRequestTimeout: true },
      ...(sasl !== undefined && { sasl }),
      retry: { retries: 2, initialRetryTime: 100 },
    };
    this.#clients = new KafkaClients(config, requestsPerCall * requestTimeoutMs);
    this.#verifier = new PlaceVerifier(this.#clients, address.topic);
  }

  async open(hasEvents = false): Promise<void> {
    const client = this.#clients.create();
    const admin = client.kafka.admin();
    try {
      const most = await client.limited(this.#prepareTopic(admin, hasEvents));
      this.#batchBytes = Math.min(mostBatchBytes, most) - batchOverheadBytes;
    } catch (error) {
      throw kafkaErrorOf(error, 'opening', 'none');
    } finally {
      await client.end(() => admin.disconnect());
    }
  }

  async #prepareTopic(admin: Admin, hasEvents: boolean): Promise<number> {
    await admin.connect();
    return ensureTopic(admin, this.#address, hasEvents);
  }

  async append(appends: readonly SequencedAppend[]): Promise<void> {
    const connected = await this.#connectedProducer();
    const { client, producer } = connected;
    const call = `${this.#instance}-${++this.#calls}`;
    let last: bigint | undefined;
    try {
      const form = { call, maxBatchBytes: this.#batchBytes, source: `kafka:///${this.#address.topic}` };
      for (const message of messagesOf(appends, form)) {
        const [sent] = await client.limited(
          producer.send({ topic: this.#address.topic, acks: -1, messages: [message] }),
        );
        const offset = BigInt(sent?.baseOffset ?? -1);
        if (last !== undefined && offset - last > maxPartDistance) {
          throw new EngineUnavailable('Kafka stored the parts of an append too far from each other', 'unknown');
        }
        last = offset;
      }
    } catch (error) {
      // A new producer has a new id: what is still on its way cannot be confused with what it sends.
      if (this.#connected === connected) this.#connected = undefined;
      await client.end(() => producer.disconnect());
      throw kafkaErrorOf(error, 'appending', 'unknown');
    }
  }

  async *read(after: EnginePlace | undefined, signal: AbortSignal): AsyncGenerator<ReadBatch> {
    const from = after === undefined ? topicStart : parseKafkaPlace(after);
    const ended = AbortSignal.any([signal, this.#closed.signal]);
    await this.#verifier.verify(from);
    if (signal.aborted) return;
    const assembler = new AppendAssembler(from);
    for await (const messages of readRecords(this.#clients.create(), this.#address.topic, from, ended)) {
      const appends = messages.flatMap((message) => assembler.add(message));
      yield { appends, resume: formatKafkaPlace(assembler.resume()) };
    }
    if (!signal.aborted) throw new EngineUnavailable('the connection to Kafka has been closed', 'none');
  }

  async verify(place: EnginePlace | undefined): Promise<PlaceState> {
    if (this.#closed.signal.aborted) throw new EngineUnavailable('the connection to Kafka has been closed', 'none');
    return this.#verifier.verify(place === undefined ? topicStart : parseKafkaPlace(place));
  }

  async close(): Promise<void> {
    this.#closed.abort();
    const connected = this.#connected;
    this.#connected = undefined;
    await Promise.all([
      connected?.client.end(() => connected.producer.disconnect()),
      this.#verifier.close(),
      this.#clients.close(),
    ]);
  }

  async #connectedProducer(): Promise<ConnectedProducer> {
    if (this.#connected !== undefined) return this.#connected;
    const client = this.#clients.create();
    const producer = client.kafka.producer({
      ...{ idempotent: true, maxInFlightRequests: 1, allowAutoTopicCreation: false },
      createPartitioner: () => () => 0,
      retry: { retries: 2, initialRetryTime: 100 },
    });
    try {
      await client.limited(producer.connect());
    } catch (error) {
      await client.end(() => producer.disconnect());
      throw kafkaErrorOf(error, 'appending', 'none');
    }
    this.#connected = { client, producer };
    return this.#connected;
  }
}
