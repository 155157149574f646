import { describe, expect, it } from 'vitest';
import { kafkaErrorOf } from '../../../src/events/kafka/kafka-clients.ts';
import kafkajs from '../../../src/events/kafka/kafkajs.ts';
import { EngineUnavailable, EngineUnsuitable } from '../../../src/events/replicated/engine.ts';

const {
  KafkaJSAggregateError,
  KafkaJSConnectionError,
  KafkaJSNonRetriableError,
  KafkaJSNumberOfRetriesExceeded,
  KafkaJSProtocolError,
  KafkaJSSASLAuthenticationError,
} = kafkajs;

function protocolError(type: string): Error {
  return new KafkaJSProtocolError(Object.assign(new Error(`${type} in words`), { type, code: 1, retriable: false }));
}

function refusedLogin(message: string): Error {
  // Its declared type has no parameter.
  return Reflect.construct(KafkaJSSASLAuthenticationError, [message]);
}

/** As the retries of kafkajs wrap an error. */
function wrapped(cause: Error): Error {
  return Object.assign(new KafkaJSNonRetriableError(cause), { cause });
}

describe('an error of kafkajs', () => {
  it.each([
    ['TOPIC_AUTHORIZATION_FAILED', 'rights on the topic'],
    ['GROUP_AUTHORIZATION_FAILED', 'rights on consumer groups'],
    ['CLUSTER_AUTHORIZATION_FAILED', 'rights on the cluster'],
    ['SASL_AUTHENTICATION_FAILED', 'user or password is wrong'],
    ['UNSUPPORTED_SASL_MECHANISM', 'LOG_SASL_MECHANISM'],
  ])('%s makes the engine unsuitable, however it is wrapped, and names the operation', (type, reason) => {
    const error = protocolError(type);
    const all = [
      error,
      wrapped(error),
      wrapped(wrapped(error)),
      new KafkaJSAggregateError('several', [wrapped(error)]),
    ];
    for (const one of all) {
      for (const [doing, operation] of [
        ['opening', 'to open the log'],
        ['appending', 'an append'],
        ['reading', 'to read the log'],
      ] as const) {
        const made = kafkaErrorOf(one, doing, 'unknown');
        expect(made).toBeInstanceOf(EngineUnsuitable);
        expect(made.message).toContain(`Kafka refused ${operation}`);
        expect(made.message).toContain(reason);
      }
    }
  });

  it.each(['PLAIN', 'SCRAM SHA256'])('of a refused %s authentication makes it unsuitable', (mechanism) => {
    const error = refusedLogin(
      `SASL ${mechanism} authentication failed: Authentication failed: Invalid username or password`,
    );
    const made = kafkaErrorOf(wrapped(error), 'opening', 'none');
    expect(made).toBeInstanceOf(EngineUnsuitable);
    expect(made.message).toContain('user or password is wrong');
  });

  it.each(['Closed connection', 'Connection error: read ECONNRESET', 'Request SaslAuthenticate(key: 36) timed out'])(
    'of an authentication that ended with "%s" makes it unavailable',
    (reason) => {
      const error = refusedLogin(`SASL PLAIN authentication failed: ${reason}`);
      expect(kafkaErrorOf(wrapped(error), 'opening', 'none')).toBeInstanceOf(EngineUnavailable);
    },
  );

  it('of a connection makes it unavailable, with the reason', () => {
    const cause = new KafkaJSConnectionError('Connection error: connect ECONNREFUSED 127.0.0.1:1');
    const error = Object.assign(new KafkaJSNumberOfRetriesExceeded(cause, { retryCount: 2, retryTime: 1 }), { cause });
    expect(kafkaErrorOf(error, 'reading', 'none')).toMatchObject({
      outcome: 'none',
      message: 'Kafka could not be reached while reading: Connection error: connect ECONNREFUSED 127.0.0.1:1',
    });
    expect(kafkaErrorOf(protocolError('NOT_ENOUGH_REPLICAS'), 'appending', 'unknown')).toMatchObject({
      outcome: 'unknown',
      message: 'Kafka failed while appending: NOT_ENOUGH_REPLICAS in words',
    });
  });
});
