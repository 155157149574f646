/**
 * Clients of kafkajs that end. kafkajs opens a new connection when anything is sent on a client after its `disconnect`, and some
 * of its requests never settle; such a connection would stay open and keep the process alive. Here each client has its own
 * sockets: they are destroyed at its end, and it opens no more.
 */
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import type { Admin, ISocketFactoryArgs, Kafka, KafkaConfig } from 'kafkajs';
import { EngineDamaged, EngineUnavailable, EngineUnsuitable, PlaceLost } from '../replicated/engine.ts';
import type { KafkaAddress } from './kafka-address.ts';
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

/** Errors of kafkajs as errors of the port. Their messages can name brokers, never a password. */
const {
  KafkaJSAggregateError,
  KafkaJSConnectionError,
  KafkaJSError,
  KafkaJSGroupCoordinatorNotFound,
  KafkaJSProtocolError,
  KafkaJSSASLAuthenticationError,
} = kafkajs;

type KafkaOperation = 'opening' | 'appending' | 'reading';

export function kafkaErrorOf(error: unknown, doing: KafkaOperation, outcome: 'none' | 'unknown'): Error {
  if (
    error instanceof EngineUnavailable ||
    error instanceof EngineUnsuitable ||
    error instanceof EngineDamaged ||
    error instanceof PlaceLost
  ) {
    return error;
  }
  const causes = causesOf(error);
  const damaged = causes.find((cause) => cause instanceof EngineDamaged);
  if (damaged !== undefined) return damaged;
  for (const cause of causes) {
    const refusal = refusalIn(cause);
    if (refusal !== undefined) return new EngineUnsuitable(`Kafka refused ${operations[doing]}: ${refusal}`);
  }
  const cause = causes.at(-1);
  const isReached = !causes.some((one) => one instanceof KafkaJSConnectionError);
  const reason = cause instanceof KafkaJSGroupCoordinatorNotFound ? noCoordinator : connectionReason(cause);
  return new EngineUnavailable(
    `Kafka ${isReached ? 'failed' : 'could not be reached'} while ${doing}: ${reason}`,
    outcome,
    error,
  );
}

const operations: Readonly<Record<KafkaOperation, string>> = {
  opening: 'to open the log',
  appending: 'an append to the log',
  reading: 'to read the log',
};

const loginRefused = 'user or password is wrong (LOG_USER and LOG_PASSWORD, or in LOG_URL)';
const mechanismRefused = 'the brokers do not support the SASL mechanism; set LOG_SASL_MECHANISM';

/** By type of the error. */
const refusals: ReadonlyMap<string, string> = new Map([
  [
    'TOPIC_AUTHORIZATION_FAILED',
    'the user lacks rights on the topic; it needs Describe, DescribeConfigs, Read and Write, and Create while the topic does not exist',
  ],
  [
    'GROUP_AUTHORIZATION_FAILED',
    'the user lacks rights on consumer groups; it needs Read on groups with the prefix chancery-',
  ],
  [
    'CLUSTER_AUTHORIZATION_FAILED',
    'the user lacks rights on the cluster; appends need Write on the topic, and IdempotentWrite on brokers before 2.8',
  ],
  ['SASL_AUTHENTICATION_FAILED', loginRefused],
  ['UNSUPPORTED_SASL_MECHANISM', mechanismRefused],
]);

/** kafkajs does not say which of the two it was. */
const noCoordinator =
  'the coordinator of the consumer group was not found, or the user lacks the right to Read groups with the prefix chancery-';

const notTrusted =
  "the broker's certificate is not signed by a trusted authority; LOG_TLS_CA names the PEM file of the authority that signed it";

/** By code of the error. */
const tlsReasons: ReadonlyMap<string, string> = new Map([
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', notTrusted],
  ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', notTrusted],
  ['UNABLE_TO_GET_ISSUER_CERT', notTrusted],
  ['SELF_SIGNED_CERT_IN_CHAIN', notTrusted],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', notTrusted],
  ['CERT_SIGNATURE_FAILURE', notTrusted],
]);

/** What a message of kafkajs means when the connection failed. */
function connectionReason(cause: unknown): string {
  const text = textOf(cause);
  if (cause instanceof KafkaJSConnectionError) {
    const known = 'code' in cause && typeof cause.code === 'string' ? tlsReasons.get(cause.code) : undefined;
    if (known !== undefined) return known;
    if (/alert (bad certificate|certificate unknown|unknown ca|certificate required|handshake failure)/.test(text))
      return "the broker does not accept the gateway's certificate (LOG_TLS_CERT and LOG_TLS_KEY), or requires one";
    if (text.includes('before secure TLS connection')) return `${text}; brokers without TLS do so (LOG_TLS=false)`;
  }
  if (text === 'Closed connection')
    return 'the broker closed the connection; brokers with TLS (LOG_TLS=true), or with users (LOG_USER), do so';
  return text;
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Why trying again is useless; undefined when it is not. */
function refusalIn(cause: unknown): string | undefined {
  if (cause instanceof KafkaJSProtocolError) return refusals.get(cause.type);
  if (!(cause instanceof KafkaJSSASLAuthenticationError)) return undefined;
  if (cause.message.includes('mechanism is not supported')) return mechanismRefused;
  // kafkajs reports a connection that was lost during authentication with this error too.
  return /connect|timed out/i.test(cause.message) ? undefined : loginRefused;
}

/** The error, what caused it, and so on. */
function causesOf(error: unknown): unknown[] {
  if (error instanceof KafkaJSAggregateError) return [error, ...error.errors.flatMap(causesOf)];
  if (!(error instanceof KafkaJSError) || error.cause === undefined || error.cause === error) return [error];
  return [error, ...causesOf(error.cause)];
}

// The topic of a log: created with the settings that a log needs, or checked for them.

/** Nothing is ever removed, and a replica that is behind never becomes the leader. */
const settings = {
  'cleanup.policy': 'delete',
  'retention.ms': '-1',
  'retention.bytes': '-1',
  'unclean.leader.election.enable': 'false',
  'message.timestamp.type': 'CreateTime',
};

/** Settings without which events would be lost; brokers that do not have the last one report no value of it. */
const required = ['cleanup.policy', 'retention.ms', 'retention.bytes', 'unclean.leader.election.enable'] as const;
/** The compressions that kafkajs reads: brokers compress with that of the topic. `producer` is that of the gateway, none. */
const readableCompressions = ['producer', 'uncompressed', 'gzip'];
/** Records carry names beside the bytes of an append. */
const leastMessageBytes = 16 * 1024;

/** A broker that has just started may not list every topic yet. */
const looksForTopic = 10;
const lookEveryMs = 500;

/**
 * @param hasEvents whether there are events of this log: then the topic is not created
 * @returns the most bytes that a batch of records may have
 * @throws EngineUnsuitable, which names the setting; PlaceLost when there is no topic of the events
 */
export async function ensureTopic(admin: Admin, address: KafkaAddress, hasEvents: boolean): Promise<number> {
  const { topic, replicationFactor } = address;
  const exists = async () => (await admin.listTopics()).includes(topic);
  if (hasEvents) {
    for (let look = 1; !(await exists()); look++) {
      if (look === looksForTopic) throw new PlaceLost(`the topic ${topic} does not exist`);
      await delay(lookEveryMs);
    }
  } else if (!(await exists())) await createTopic(admin, topic, replicationFactor);
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
  const [partition, ...further] = topics[0]?.partitions ?? [];
  if (partition === undefined || further.length > 0) {
    const count = partition === undefined ? 0 : 1 + further.length;
    throw new EngineUnsuitable(
      `the topic ${topic} has ${count} partitions; a log needs a topic with 1 partition. Name another topic in LOG_URL: ` +
        'it is created when it does not exist. The number of partitions of a topic cannot be reduced.',
    );
  }
  const found = await settingsOf(admin, topic);
  const problem = topicProblem(found, partition.replicas.length);
  if (problem !== undefined) throw unsuitableSetting(address, problem, found.get(problem.name));
  return Number(found.get('max.message.bytes') ?? defaultMaxMessageBytes);
}

const defaultMaxMessageBytes = 1_048_588;

interface SettingProblem {
  readonly name: string;
  /** What a log needs, in words. */
  readonly needed: string;
  /** A value with which it works. */
  readonly value: string;
}

/**
 * The first setting of a topic with which a log would lose events, or could not append.
 * @param replicas the replication factor of the topic
 */
export function topicProblem(found: ReadonlyMap<string, string>, replicas: number): SettingProblem | undefined {
  for (const name of required) {
    const value = found.get(name);
    if (value === settings[name] || (value === undefined && name === 'unclean.leader.election.enable')) continue;
    return { name, needed: `${name}=${settings[name]}`, value: settings[name] };
  }
  if (!readableCompressions.includes(found.get('compression.type') ?? 'producer')) {
    const name = 'compression.type';
    return { name, needed: `one of ${readableCompressions.join(', ')}`, value: 'producer' };
  }
  const insync = Number(found.get('min.insync.replicas') ?? 1);
  const least = insyncReplicas(Math.min(replicas, mostReplicas));
  if (insync < least || insync > replicas) {
    const name = 'min.insync.replicas';
    const needed = `a value from ${least} to ${replicas} with replication factor ${replicas}`;
    return { name, needed, value: String(insyncReplicas(replicas)) };
  }
  if (Number(found.get('max.message.bytes') ?? defaultMaxMessageBytes) >= leastMessageBytes) return undefined;
  return {
    name: 'max.message.bytes',
    needed: `at least ${leastMessageBytes}`,
    value: String(defaultMaxMessageBytes),
  };
}

function unsuitableSetting({ topic, brokers }: KafkaAddress, { name, needed, value }: SettingProblem, found?: string) {
  return new EngineUnsuitable(
    `the topic ${topic} has ${name}=${found}; a log needs ${needed}. To change it: kafka-configs.sh ` +
      `--bootstrap-server ${brokers.join(',')} --alter --entity-type topics --entity-name ${topic} --add-config ${name}=${value}`,
  );
}

/** With three replicas the loss of one broker neither loses an acknowledged append nor stops the log. */
function insyncReplicas(replicas: number): number {
  return Math.max(1, replicas - 1);
}

const mostReplicas = 3;

async function createTopic(admin: Admin, topic: string, wanted: number | undefined): Promise<void> {
  const replicationFactor = wanted ?? Math.min(mostReplicas, (await admin.describeCluster()).brokers.length);
  const insync = String(insyncReplicas(replicationFactor));
  const configEntries = Object.entries({ ...settings, 'min.insync.replicas': insync }).map(([name, value]) => ({
    name,
    value,
  }));
  // False when another gateway was faster.
  await admin.createTopics({
    waitForLeaders: true,
    topics: [{ topic, numPartitions: 1, replicationFactor, configEntries }],
  });
}

async function settingsOf(admin: Admin, topic: string): Promise<Map<string, string>> {
  const resource = { type: kafkajs.ConfigResourceTypes.TOPIC, name: topic };
  const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [resource] });
  const entries = resources[0]?.configEntries ?? [];
  return new Map(entries.map(({ configName, configValue }) => [configName, configValue]));
}
