/**
 * A log on Kafka, for several gateways: one topic with one partition. A record is acknowledged when all replicas in sync
 * have it (`acks=all`); a broker does not wait for its disk. Order and content are those of the topic; each reader evaluates
 * expected revisions and ignores repetitions by writer and number.
 */
import { randomBytes } from 'node:crypto';
import type { Admin, Consumer, EachBatchPayload, KafkaConfig, KafkaMessage, Producer } from 'kafkajs';
import {
  checkTlsTexts,
  type EnginePlace,
  EngineUnavailable,
  type LogEngine,
  type LogEngineAccess,
  type PlaceState,
  type ReadBatch,
  type SequencedAppend,
} from '../replicated/engine.ts';
import { type KafkaAddress, parseKafkaAddress } from './kafka-address.ts';
import { ensureTopic, type KafkaClient, KafkaClients, kafkaErrorOf } from './kafka-clients.ts';
import {
  formatKafkaPlace,
  type KafkaPlace,
  PlaceVerifier,
  parseKafkaPlace,
  placeAfter,
  RecordSequence,
  topicStart,
} from './kafka-place.ts';
import { AppendAssembler, maxPartDistance, messagesOf } from './kafka-records.ts';
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

/**
 * Reads a topic from an offset. kafkajs reads only as member of a consumer group: each reader has a group of its own,
 * which never commits an offset and ends with it.
 */
const sessionTimeoutMs = 15_000;
const heartbeatMs = 2_000;
/** An idle fetch ends after this time; it delays the end of a reader, not the records. */
const maxWaitMs = 250;
const maxFetchBytes = 4 * 1024 * 1024;

/**
 * Records without gaps, in batches: all that are not control records, also those of transactions that are open or were
 * aborted. Ends when the signal is aborted, and the client with it.
 * @throws EngineUnavailable, PlaceLost
 */
async function* readRecords(
  client: KafkaClient,
  topic: string,
  from: KafkaPlace,
  signal: AbortSignal,
): AsyncGenerator<readonly KafkaMessage[]> {
  const consumer = client.kafka.consumer({
    groupId: `chancery-${randomBytes(12).toString('hex')}`,
    ...{ sessionTimeout: sessionTimeoutMs, heartbeatInterval: heartbeatMs, maxWaitTimeInMs: maxWaitMs },
    ...{ maxBytes: maxFetchBytes, maxBytesPerPartition: maxFetchBytes },
    // Otherwise an open transaction of another program would hold back the appends after it.
    readUncommitted: true,
    retry: { retries: 2, initialRetryTime: 100, restartOnFailure: () => Promise.resolve(false) },
  });
  const handover = new Handover(signal, heartbeatMs);
  const sequence = new RecordSequence(topic);
  let next = from;
  watch(consumer, handover, sequence);
  // The group has no offsets, so kafkajs would begin again at the first record each time it joins: also after a change of
  // the leader or the coordinator, and after this process was suspended for longer than its session lasts.
  consumer.on(consumer.events.GROUP_JOIN, () => {
    consumer.seek({ topic, partition: 0, offset: String(sequence.begin(next)) });
  });
  try {
    await handover.orEnd(client.limited(start(consumer, topic, handover, sequence)));
    for (;;) {
      const messages = await handover.take();
      if (messages === undefined) return;
      const fresh = messages.filter(({ offset }) => BigInt(offset) >= next.offset);
      const last = fresh.at(-1);
      if (last === undefined) continue;
      next = placeAfter(last);
      yield fresh;
    }
  } catch (error) {
    throw kafkaErrorOf(error, 'reading', 'none');
  } finally {
    handover.end();
    await client.end(() => consumer.disconnect());
  }
}

function watch(consumer: Consumer, handover: Handover, sequence: RecordSequence): void {
  const { CRASH, START_BATCH_PROCESS, END_BATCH_PROCESS } = consumer.events;
  consumer.on(CRASH, ({ payload }) => handover.fail(payload.error));
  consumer.on(START_BATCH_PROCESS, ({ payload }) => handover.failOn(() => sequence.startBatch(payload)));
  consumer.on(END_BATCH_PROCESS, ({ payload }) => sequence.endBatch(payload));
}

async function start(consumer: Consumer, topic: string, handover: Handover, sequence: RecordSequence): Promise<void> {
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatch: (payload) => {
      handover.failOn(() => sequence.checkRecords(payload.batch));
      return handover.give(payload);
    },
  });
}

/** One batch at a time from kafkajs to the reader. */
class Handover {
  readonly #signal: AbortSignal;
  readonly #heartbeatMs: number;
  #given: readonly KafkaMessage[] | undefined;
  #failure: unknown;
  #ended = false;
  #changed = Promise.withResolvers<void>();

  constructor(signal: AbortSignal, heartbeatMs: number) {
    this.#heartbeatMs = heartbeatMs;
    this.#signal = signal;
    signal.addEventListener('abort', () => this.#change(), { once: true });
  }

  /** Resolves when the reader has taken the batch. Meanwhile the reader stays a member of its group. */
  async give({ batch, heartbeat }: EachBatchPayload): Promise<void> {
    if (batch.messages.length === 0 || this.#failure !== undefined) return;
    this.#given = batch.messages;
    this.#change();
    while (this.#given !== undefined && !this.#ended && !this.#signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, this.#heartbeatMs);
      await Promise.race([this.#changed.promise, promise]);
      clearTimeout(timer);
      if (this.#given !== undefined) await heartbeat();
    }
  }

  /** Undefined at the end. */
  async take(): Promise<readonly KafkaMessage[] | undefined> {
    for (;;) {
      if (this.#signal.aborted) return undefined;
      if (this.#failure !== undefined) throw this.#failure;
      if (this.#ended) throw new EngineUnavailable('the connection to Kafka has been closed', 'none');
      const given = this.#given;
      if (given !== undefined) {
        this.#given = undefined;
        this.#change();
        return given;
      }
      await this.#changed.promise;
    }
  }

  /** Rejects with the failure, and resolves at the end of the signal, also when the promise does neither. */
  async orEnd(promise: Promise<void>): Promise<void> {
    let isSettled = false;
    promise.then(
      () => {
        isSettled = true;
        this.#change();
      },
      (error: unknown) => this.fail(error),
    );
    while (!isSettled && !this.#signal.aborted && this.#failure === undefined) await this.#changed.promise;
    if (this.#failure !== undefined && !this.#signal.aborted) throw this.#failure;
  }

  /** Fails when the function throws. */
  failOn(check: () => void): void {
    try {
      check();
    } catch (error) {
      this.fail(error);
    }
  }

  fail(error: unknown): void {
    this.#failure ??= error;
    this.#change();
  }

  end(): void {
    this.#ended = true;
    this.#change();
  }

  #change(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
