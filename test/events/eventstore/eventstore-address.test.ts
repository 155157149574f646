import { describe, expect, it } from 'vitest';
import { parseEventStoreAddress } from '../../../src/events/eventstore/eventstore-address.ts';
import { EngineUnsuitable, type LogEngineAccess } from '../../../src/events/replicated/engine.ts';

function parse(url: string, more: Partial<LogEngineAccess> = {}) {
  return parseEventStoreAddress({ url, ...more });
}

function reasonOf(url: string, more: Partial<LogEngineAccess> = {}): string {
  try {
    parse(url, more);
  } catch (error) {
    if (error instanceof EngineUnsuitable) return error.message;
  }
  throw new Error('it was accepted');
}

describe('parseEventStoreAddress', () => {
  it('accepts one server, with default port and log name', () => {
    const { connection, logName, credentials, channel } = parse('esdb://db.example');
    expect(connection).toMatchObject({ endpoint: { address: 'db.example', port: 2113 }, throwOnAppendFailure: true });
    expect({ logName, credentials, channel }).toEqual({
      logName: 'chancery',
      credentials: undefined,
      channel: { insecure: false },
    });
  });

  it('accepts several servers, both schemes and discovery', () => {
    const endpoints = [
      { address: 'a', port: 1 },
      { address: 'b', port: 2113 },
    ];
    expect(parse('kurrentdb://a:1,b/gateway').connection).toMatchObject({ endpoints });
    expect(parse('esdb+discover://cluster:2114/gateway').connection).toMatchObject({
      discover: { address: 'cluster', port: 2114 },
    });
    expect(parse('kurrentdb+discover://cluster/x').logName).toBe('x');
  });

  it('passes settings on', () => {
    const url =
      'esdb://a/log?tls=false&keepAliveInterval=20000&connection-name=gw&default_deadline=700&gossipTimeout=2';
    const { connection, channel, deadlineMs } = parse(url);
    expect(connection).toMatchObject({ keepAliveInterval: 20_000, connectionName: 'gw', defaultDeadline: 700 });
    expect({ channel, deadlineMs }).toEqual({ channel: { insecure: true }, deadlineMs: 700 });
  });

  it('decodes user and password, and prefers those given apart', () => {
    expect(parse('esdb://us%40er:p%3A%2Fss@a/log').credentials).toEqual({ username: 'us@er', password: 'p:/ss' });
    expect(parse('esdb://one:two@a/log', { user: 'u', password: 'p' }).credentials).toEqual({
      username: 'u',
      password: 'p',
    });
  });

  it('uses TLS texts and settings of the access', () => {
    const { channel } = parse('esdb://a/log?tls=false', { tls: true, ca: 'CA', cert: 'CERT', key: 'KEY' });
    expect(channel).toEqual({
      insecure: false,
      rootCertificate: Buffer.from('CA'),
      userCertFile: Buffer.from('CERT'),
      userKeyFile: Buffer.from('KEY'),
    });
  });

  it.each([
    ['http://a/log', 'form'],
    ['esdb://', 'form'],
    ['esdb://a:b:c/log', 'host:port'],
    ['esdb://a:x/log', 'host:port'],
    ['esdb://a:0/log', 'from 1 to 65535'],
    ['esdb://a:99999/log', 'from 1 to 65535'],
    ['esdb://a/log?tls=xyz', 'neither true nor false'],
    ['esdb://a/log?tls=true&TLS=false', 'twice'],
    ['esdb://a/log?gossipTimeout=1&gossip_timeout=1', 'twice'],
    ['esdb://a/log.2', 'letters'],
    ['esdb://a/log?throwOnAppendFailure=false', 'unknown setting; known are connectionName'],
    ['esdb://a/log?tlsVerifyCert=false', 'unknown setting'],
    ['esdb://a/log?gossipTimeout=soon', 'not a number'],
    ['esdb://a/log?nodePreference=follower', 'leader'],
    ['esdb://a/log?tlsCAFile=/does/not/exist', '/does/not/exist'],
    ['esdb://user@a/log', 'without a password'],
  ])('refuses %s', (url, reason) => {
    expect(reasonOf(url)).toContain(reason);
  });

  it('never has the password in a message', () => {
    for (const rest of ['a:x/log', 'a/log.2', 'a/log?x=1', '', 'a:b:c', '/log', 'a/log?nodePreference=random']) {
      expect(reasonOf(`esdb://user:s3cret@${rest}`)).not.toContain('s3cret');
    }
    expect(reasonOf('esdb://user:s3cret%zz@a/log')).not.toContain('s3cret');
    expect(reasonOf('esdb://a/log', { user: 'u', password: 's3cret', cert: 'C' })).not.toContain('s3cret');
  });
});
