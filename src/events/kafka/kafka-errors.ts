/** Errors of kafkajs as errors of the port. Their messages can name brokers, never a password. */

import { EngineDamaged, EngineUnavailable, EngineUnsuitable, PlaceLost } from '../replicated/engine.ts';
import kafkajs from './kafkajs.ts';

const {
  KafkaJSAggregateError,
  KafkaJSConnectionError,
  KafkaJSError,
  KafkaJSGroupCoordinatorNotFound,
  KafkaJSProtocolError,
  KafkaJSSASLAuthenticationError,
} = kafkajs;

export type KafkaOperation = 'opening' | 'appending' | 'reading';

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
