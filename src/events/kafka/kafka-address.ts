/**
 * The address of a log on Kafka: `kafka://[user:password@]host[:9092][,host2[:9092]]/<topic>[?setting=value&…]`.
 *
 *   tls                 `true` to reach the brokers with TLS; default `false`
 *   replicationFactor   of a topic that is created; default: 3, or as many as there are brokers
 *   requestTimeout      milliseconds within which a broker must answer; default 10,000
 */
import type { ConnectionOptions } from 'node:tls';
import type { SASLOptions } from 'kafkajs';
import { EngineUnsuitable, enginePort, type LogEngineAccess, settingsInQuery } from '../replicated/engine.ts';

export interface KafkaAddress {
  /** `host:port` each. */
  readonly brokers: readonly string[];
  readonly topic: string;
  readonly tls: ConnectionOptions | false;
  readonly sasl: SASLOptions | undefined;
  /** Undefined: by the number of brokers. */
  readonly replicationFactor: number | undefined;
  readonly requestTimeoutMs: number;
}

const defaultTopic = 'chancery';
const defaultPort = 9092;
const defaultRequestTimeoutMs = 10_000;

/** @throws EngineUnsuitable, with a message without the address */
export function parseKafkaAddress(access: LogEngineAccess): KafkaAddress {
  const form = /^kafka:\/\/(?:([^@/?]*)@)?([^@/?]+)(?:\/([^?]*))?(?:\?(.*))?$/.exec(access.url);
  if (form === null) throw new EngineUnsuitable('the address is not of the form kafka://host:9092,host2:9092/<topic>');
  const [, userinfo, hosts = '', path = '', query = ''] = form;
  const topic = path === '' ? defaultTopic : path;
  if (!/^[A-Za-z0-9._-]{1,249}$/.test(topic) || topic === '.' || topic === '..') {
    throw new EngineUnsuitable('the name of a topic consists of at most 249 letters, digits, ".", "_" and "-"');
  }
  const settings = settingsOf(query);
  return {
    brokers: hosts.split(',').map(brokerOf),
    topic,
    tls: tlsOf(access, settings.tls),
    sasl: saslOf(access, userinfo),
    replicationFactor: settings.replicationFactor,
    requestTimeoutMs: settings.requestTimeout ?? defaultRequestTimeoutMs,
  };
}

function brokerOf(host: string): string {
  const parts = /^([\w.-]+|\[[\da-fA-F:.]+\])(?::(\d{1,5}))?$/.exec(host);
  if (parts === null) throw new EngineUnsuitable('a broker in the address is not of the form host:port');
  return `${parts[1]}:${enginePort(parts[2] ?? String(defaultPort))}`;
}

interface Settings {
  tls?: boolean;
  replicationFactor?: number;
  requestTimeout?: number;
}

function settingsOf(query: string): Settings {
  const settings: Settings = {};
  for (const [name, value] of settingsInQuery(query)) {
    if (name === 'tls' && (value === 'true' || value === 'false')) settings.tls = value === 'true';
    else if (name === 'replicationFactor' && /^[1-9]\d?$/.test(value)) settings.replicationFactor = Number(value);
    else if (name === 'requestTimeout' && /^[1-9]\d{0,6}$/.test(value)) settings.requestTimeout = Number(value);
    else if (name === 'tls' || name === 'replicationFactor' || name === 'requestTimeout') {
      throw new EngineUnsuitable(`the setting ${name} of the address has a wrong value`);
    } else
      throw new EngineUnsuitable(
        'the address has an unknown setting; known are tls, replicationFactor and requestTimeout',
      );
  }
  return settings;
}

function tlsOf({ tls, ca, cert, key }: LogEngineAccess, inAddress = false): ConnectionOptions | false {
  if (!(tls ?? inAddress)) return false;
  return {
    ...(ca !== undefined && { ca: [ca] }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
  };
}

function saslOf(
  { user, password, saslMechanism = 'plain' }: LogEngineAccess,
  userinfo?: string,
): SASLOptions | undefined {
  const [userInAddress, passwordInAddress] = (userinfo ?? '').split(':').map(decoded);
  const username = user ?? (userInAddress || undefined);
  const secret = user === undefined ? passwordInAddress : password;
  if (username === undefined) return undefined;
  if (secret === undefined) throw new EngineUnsuitable('a user needs a password');
  return { mechanism: saslMechanism, username, password: secret };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new EngineUnsuitable('user and password in the address must be percent-encoded');
  }
}
