import { describe, expect, it } from 'vitest';
import { parseKafkaAddress } from '../../../src/events/kafka/kafka-address.ts';
import { EngineUnsuitable, type LogEngineAccess } from '../../../src/events/replicated/engine.ts';

const parse = (url: string, access: Partial<LogEngineAccess> = {}) => parseKafkaAddress({ ...access, url });

describe('the address of a log on Kafka', () => {
  it('names brokers and topic, with defaults', () => {
    expect(parse('kafka://a')).toEqual({
      brokers: ['a:9092'],
      topic: 'chancery',
      tls: false,
      sasl: undefined,
      replicationFactor: undefined,
      requestTimeoutMs: 10_000,
    });
    expect(parse('kafka://a:1,b.example,[::1]:3/the.log').brokers).toEqual(['a:1', 'b.example:9092', '[::1]:3']);
    expect(parse('kafka://a/the.log').topic).toBe('the.log');
  });

  it('has settings', () => {
    const { tls, replicationFactor, requestTimeoutMs } = parse(
      'kafka://a/t?tls=true&replicationFactor=2&requestTimeout=700',
    );
    expect({ tls, replicationFactor, requestTimeoutMs }).toEqual({
      tls: {},
      replicationFactor: 2,
      requestTimeoutMs: 700,
    });
  });

  it('has user and password, which may be set apart from it', () => {
    expect(parse('kafka://us%40er:p%3A%2Fss@a/t').sasl).toEqual({
      mechanism: 'plain',
      username: 'us@er',
      password: 'p:/ss',
    });
    const access = { user: 'u', password: 'p', saslMechanism: 'scram-sha-512' } as const;
    expect(parse('kafka://one:two@a/t', access).sasl).toEqual({
      mechanism: 'scram-sha-512',
      username: 'u',
      password: 'p',
    });
  });

  it('takes certificates only with TLS', () => {
    const pem = { ca: 'CA', cert: 'CERT', key: 'KEY' };
    expect(parse('kafka://a/t', { ...pem, tls: true }).tls).toEqual({ ca: ['CA'], cert: 'CERT', key: 'KEY' });
    expect(parse('kafka://a/t?tls=true', { ...pem, tls: false }).tls).toBe(false);
  });

  it.each([
    'kafka:a/t',
    'kafka://a:port/t',
    'kafka://a/no topic',
    'kafka://a/..',
    'kafka://a:0/t',
    'kafka://a:65536/t',
    'kafka://a/a/b',
    'kafka://a/t%zz',
    'kafka://a/t?tls=true&tls=false',
    'kafka://a/t?tls=yes',
    'kafka://a/t?acks=1',
    'kafka://user@a/t',
    'kafka://%zz:secret@a/t',
    'kafka://user:secret@a,/t',
  ])('is refused, without its password in the message: %s', (url) => {
    const parsing = () => parse(url);
    expect(parsing).toThrow(EngineUnsuitable);
    expect(parsing).not.toThrow(/secret/);
  });
});
