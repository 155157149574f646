/** The topic of a log: created with the settings that a log needs, or checked for them. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Admin } from 'kafkajs';
import { EngineUnsuitable, PlaceLost } from '../replicated/engine.ts';
import type { KafkaAddress } from './kafka-address.ts';
import kafkajs from './kafkajs.ts';

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

export interface SettingProblem {
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
