/**
 * A place between two records of a topic, as text: `<offset>:<check>`. The check is the CRC-32 of the value of the record
 * before it, in 8 hexadecimal digits. Without a record before it, and in places that earlier versions stored, it is missing.
 */
import { crc32 } from 'node:zlib';
import type { Batch, Kafka, KafkaMessage } from 'kafkajs';
import { type EnginePlace, EngineUnavailable, PlaceLost, type PlaceState } from '../replicated/engine.ts';
import { type KafkaClient, type KafkaClients, kafkaErrorOf } from './kafka-clients.ts';
import kafkajs from './kafkajs.ts';

export interface KafkaPlace {
  /** Of the record after it. */
  readonly offset: bigint;
  readonly check: number | undefined;
}

export const topicStart: KafkaPlace = { offset: 0n, check: undefined };

/** @throws PlaceLost */
export function parseKafkaPlace(place: EnginePlace): KafkaPlace {
  const [, offset, check] = /^(\d{1,19})(?::([0-9a-f]{8}))?$/.exec(place) ?? [];
  if (offset === undefined) throw new PlaceLost('the place is none of Kafka');
  return { offset: BigInt(offset), check: check === undefined ? undefined : Number.parseInt(check, 16) };
}

export function formatKafkaPlace({ offset, check }: KafkaPlace): EnginePlace {
  return check === undefined ? String(offset) : `${offset}:${check.toString(16).padStart(8, '0')}`;
}

export function placeAfter({ offset, value }: Pick<KafkaMessage, 'offset' | 'value'>): KafkaPlace {
  return { offset: BigInt(offset) + 1n, check: crc32(value ?? '') };
}

/** Where reading begins, so that the record before the place is read and compared. */
export function firstOffsetOf({ offset, check }: KafkaPlace): bigint {
  return check === undefined ? offset : offset - 1n;
}

/**
 * Fetches the record before a place, on a connection of its own, and compares it. kafkajs reads only in consumer groups, and
 * joining one takes seconds, so that this uses the cluster inside kafkajs: not part of its interface, whose version is pinned.
 */
interface FetchedPartition {
  readonly messages: readonly { readonly offset: string; readonly value: Buffer | null }[];
}

interface FetchRequest {
  readonly replicaId: number;
  readonly isolationLevel: number;
  readonly maxWaitTime: number;
  readonly minBytes: number;
  readonly maxBytes: number;
  readonly topics: readonly unknown[];
}

interface Cluster {
  connect(): Promise<void>;
  disconnect(): Promise<void>;
  addTargetTopic(topic: string): Promise<void>;
  findTopicPartitionMetadata(topic: string): readonly { readonly leader: number }[];
  findBroker(node: { readonly nodeId: number }): Promise<Broker>;
}

type PartitionRequest = Pick<FetchRequest, 'replicaId' | 'isolationLevel' | 'topics'>;

interface Answer<Partition> {
  readonly responses: readonly { readonly partitions: readonly Partition[] }[];
}

interface Broker {
  fetch(request: FetchRequest): Promise<Answer<FetchedPartition>>;
  listOffsets(request: PartitionRequest): Promise<Answer<{ readonly offset: string }>>;
}

type CreateCluster = (options: { readonly metadataMaxAge: number; readonly allowAutoTopicCreation: false }) => Cluster;

const metadataMaxAgeMs = 30_000;
const consumerReplicaId = -1;
const readUncommitted = 0;
/** A broker returns one whole batch, however large it is. */
const leastBytes = 1;
/** Special timestamps of the protocol. */
const latest = -1;
const earliest = -2;

interface Connected {
  readonly client: KafkaClient;
  readonly cluster: Promise<Cluster>;
}

export class PlaceVerifier {
  readonly #clients: KafkaClients;
  readonly #topic: string;
  #connected: Connected | undefined;

  constructor(clients: KafkaClients, topic: string) {
    this.#clients = clients;
    this.#topic = topic;
  }

  /** @throws PlaceLost, EngineUnavailable, EngineUnsuitable */
  async verify(place: KafkaPlace): Promise<PlaceState> {
    this.#connected ??= this.#connect();
    const connected = this.#connected;
    try {
      return await connected.client.limited(this.#verify(connected.cluster, place));
    } catch (error) {
      await this.#end(connected);
      if (isOutOfRange(error)) {
        throw new PlaceLost(`the topic ${this.#topic} does not have record ${firstOffsetOf(place)}`);
      }
      throw kafkaErrorOf(error, 'reading', 'none');
    }
  }

  async close(): Promise<void> {
    if (this.#connected !== undefined) await this.#end(this.#connected);
  }

  async #verify(cluster: Promise<Cluster>, place: KafkaPlace): Promise<PlaceState> {
    const broker = await this.#leader(await cluster);
    const end = await this.#checkOffsets(broker, place);
    if (place.check !== undefined) this.#compare(place, await this.#fetch(broker, place.offset - 1n));
    return { isEnd: end === place.offset };
  }

  /** The next call connects again. */
  async #end(connected: Connected): Promise<void> {
    if (this.#connected === connected) this.#connected = undefined;
    await connected.client.end(async () => (await connected.cluster).disconnect());
  }

  #connect(): Connected {
    const client = this.#clients.create();
    const cluster = this.#connectCluster(client.kafka);
    cluster.catch(() => {});
    return { client, cluster };
  }

  async #connectCluster(kafka: Kafka): Promise<Cluster> {
    const symbol = Object.getOwnPropertySymbols(kafka).find(
      ({ description }) => description === 'private:Kafka:createCluster',
    );
    if (symbol === undefined) throw new Error('this version of kafkajs has no clusters');
    const create: CreateCluster = Reflect.get(kafka, symbol);
    const cluster = create({ metadataMaxAge: metadataMaxAgeMs, allowAutoTopicCreation: false });
    await cluster.connect();
    await cluster.addTargetTopic(this.#topic);
    return cluster;
  }

  async #leader(cluster: Cluster): Promise<Broker> {
    const [metadata] = cluster.findTopicPartitionMetadata(this.#topic);
    if (metadata === undefined) throw new EngineUnavailable(`the topic ${this.#topic} does not exist`, 'none');
    return cluster.findBroker({ nodeId: metadata.leader });
  }

  /** @returns the offset of the next record. @throws PlaceLost */
  async #checkOffsets(broker: Broker, place: KafkaPlace): Promise<bigint> {
    const first = firstOffsetOf(place);
    const [begin, end] = [await this.#offset(broker, earliest), await this.#offset(broker, latest)];
    if (first < begin) throw new PlaceLost(`the topic ${this.#topic} begins with record ${begin}; ${first} is needed`);
    // What this place has read is gone for every other reader.
    if (begin > topicStart.offset) {
      const deleted = `records were deleted from its beginning, which a log needs as much as its end`;
      throw new PlaceLost(`the topic ${this.#topic} begins with record ${begin}: ${deleted}`);
    }
    if (place.offset <= end) return end;
    throw new PlaceLost(`the topic ${this.#topic} ends before record ${end}; ${place.offset} is needed`);
  }

  async #offset(broker: Broker, timestamp: number): Promise<bigint> {
    const { responses } = await broker.listOffsets(this.#request({ partition: 0, timestamp }));
    return BigInt(this.#only(responses).offset);
  }

  async #fetch(broker: Broker, offset: bigint): Promise<FetchedPartition['messages']> {
    const partition = { partition: 0, currentLeaderEpoch: -1, fetchOffset: String(offset), maxBytes: leastBytes };
    const { responses } = await broker.fetch({
      ...this.#request(partition),
      ...{ maxWaitTime: 0, minBytes: 0, maxBytes: leastBytes },
    });
    return this.#only(responses).messages;
  }

  /** An open transaction of another program would otherwise look like the end of the topic. */
  #request(partition: unknown): PartitionRequest {
    const topics = [{ topic: this.#topic, partitions: [partition] }];
    return { replicaId: consumerReplicaId, isolationLevel: readUncommitted, topics };
  }

  #only<Partition>(responses: Answer<Partition>['responses']): Partition {
    const found = responses[0]?.partitions[0];
    if (found === undefined) throw new EngineUnavailable(`Kafka returned nothing of the topic ${this.#topic}`, 'none');
    return found;
  }

  #compare({ offset, check }: KafkaPlace, messages: FetchedPartition['messages']): void {
    const before = messages.find((message) => BigInt(message.offset) >= offset - 1n);
    // right after a change of the leader, a record can be hidden
    if (before === undefined) {
      throw new EngineUnavailable(`Kafka did not return record ${offset - 1n} of the topic ${this.#topic}`, 'none');
    }
    if (BigInt(before.offset) === offset - 1n && crc32(before.value ?? '') === check) return;
    throw otherRecord(this.#topic, offset - 1n);
  }
}

export function otherRecord(topic: string, offset: bigint): PlaceLost {
  return new PlaceLost(
    `record ${offset} of the topic ${topic} is not the one that was read: the topic lost its end, or was ` +
      'deleted and created again',
  );
}

function isOutOfRange(error: unknown): boolean {
  return error instanceof kafkajs.KafkaJSProtocolError && error.type === 'OFFSET_OUT_OF_RANGE';
}

// Whether the records that kafkajs fetches follow each other without a gap. Control records, which transactions of other
// programs leave on the topic, take offsets, but kafkajs does not hand them over.

/** A batch as kafkajs reports it, also when all its records are control records. */
interface ReportedBatch {
  readonly firstOffset: string | null;
  readonly lastOffset: string;
}

/** Not part of the interface of kafkajs, whose version is pinned: all records that the broker returned. */
interface WithControlRecords {
  readonly rawMessages?: readonly (Pick<KafkaMessage, 'offset'> & { readonly isControlRecord?: boolean })[];
}

export class RecordSequence {
  readonly #topic: string;
  /** With which record the next batch begins. */
  #expected = 0n;
  /** A place before which a record with a check is to be read first. */
  #unverified: KafkaPlace | undefined;

  constructor(topic: string) {
    this.#topic = topic;
  }

  /** @returns the offset from which records have to be fetched */
  begin(place: KafkaPlace): bigint {
    this.#expected = firstOffsetOf(place);
    this.#unverified = place.check === undefined ? undefined : place;
    return this.#expected;
  }

  /**
   * @throws EngineUnavailable when kafkajs fetched from another offset than the next one: it does so when the topic does
   *   not have that one. A reader that begins again finds out why.
   */
  startBatch({ firstOffset }: ReportedBatch): void {
    if (firstOffset === null) throw new PlaceLost(`the topic ${this.#topic} has no record ${this.#expected}`);
    if (BigInt(firstOffset) === this.#expected) return;
    throw new EngineUnavailable(
      `Kafka returned record ${firstOffset} of the topic ${this.#topic} instead of ${this.#expected}`,
      'none',
    );
  }

  endBatch({ lastOffset }: ReportedBatch): void {
    this.#expected = BigInt(lastOffset) + 1n;
  }

  /** @throws PlaceLost when a record is missing in the batch, or the record before the place is another one */
  checkRecords(batch: Batch): void {
    const { messages, rawMessages = messages }: Batch & WithControlRecords = batch;
    let expected = this.#expected;
    for (const { offset } of rawMessages) {
      const at = BigInt(offset);
      if (at < expected) continue;
      if (at > expected) throw new PlaceLost(`the topic ${this.#topic} has no record ${expected} any more`);
      expected += 1n;
    }
    this.#verifyPlace(messages[0]);
  }

  #verifyPlace(first: KafkaMessage | undefined): void {
    const place = this.#unverified;
    if (place === undefined || first === undefined) return;
    const found = placeAfter(first);
    if (found.offset !== place.offset || found.check !== place.check) {
      throw otherRecord(this.#topic, place.offset - 1n);
    }
    this.#unverified = undefined;
  }
}
