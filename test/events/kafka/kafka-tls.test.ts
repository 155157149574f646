/** A log on a broker that is reached with TLS. */
import { writeFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../../infra/kafka/free-port.ts';
import { kafkaJars } from '../../../infra/kafka/jars.ts';
import { createKafkaEngine } from '../../../src/events/kafka/kafka-engine.ts';
import {
  EngineUnavailable,
  EngineUnsuitable,
  type LogEngine,
  type LogEngineAccess,
} from '../../../src/events/replicated/engine.ts';
import { type Authority, type Certificate, createAuthority, missingOpenssl } from '../../support/certificates.ts';
import { type KafkaBroker, startKafkaBroker } from '../../support/kafka-broker.ts';
import { append, numbersOf, readTo } from '../eventstore/appends.ts';

const jars = kafkaJars();
const missing = 'missing' in jars ? jars.missing : missingOpenssl();
if (missing !== undefined) console.log(`tests of Kafka with TLS are skipped: ${missing}`);

describe.skipIf(missing !== undefined)('a Kafka broker with TLS', () => {
  let broker: KafkaBroker;
  let authority: Authority;
  let stranger: Authority;
  let client: Certificate;
  const ports = { plain: 0, tls: 0, users: 0, clients: 0 };
  const open: LogEngine[] = [];

  beforeAll(async () => {
    authority = createAuthority();
    stranger = createAuthority();
    client = authority.issue('gateway', 'DNS:gateway');
    for (const name of ['plain', 'tls', 'users', 'clients'] as const) ports[name] = await freePort();
    broker = await startKafkaBroker({ port: ports.plain, settings: await settings() });
  }, 60_000);
  afterEach(async () => {
    await Promise.all(open.splice(0).map((engine) => engine.close()));
  });
  afterAll(async () => {
    await broker?.dispose();
    authority?.remove();
    stranger?.remove();
  });

  /** Its certificate is valid for `localhost` only. */
  async function settings() {
    const { cert, key, keyFile } = authority.issue('broker', 'DNS:localhost');
    const keystore = `${keyFile}.store`;
    writeFileSync(keystore, key + cert);
    const controller = await freePort();
    const listeners = `PLAINTEXT://127.0.0.1:${ports.plain},TLS://localhost:${ports.tls},USERS://localhost:${ports.users},CLIENTS://localhost:${ports.clients}`;
    return {
      listeners: `${listeners},CONTROLLER://127.0.0.1:${controller}`,
      'advertised.listeners': listeners,
      'controller.quorum.voters': `1@127.0.0.1:${controller}`,
      'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,USERS:SASL_SSL,CLIENTS:SSL',
      'ssl.keystore.type': 'PEM',
      'ssl.keystore.location': keystore,
      'ssl.truststore.type': 'PEM',
      'ssl.truststore.location': authority.ca.certFile,
      'listener.name.clients.ssl.client.auth': 'required',
      'sasl.enabled.mechanisms': 'PLAIN',
      'listener.name.users.plain.sasl.jaas.config':
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_gateway="right-password";',
    };
  }

  function engineOf(address: string, access: Partial<LogEngineAccess> = {}): LogEngine {
    const engine = createKafkaEngine({ url: `kafka://${address}/log`, tls: true, ca: authority.ca.cert, ...access });
    open.push(engine);
    return engine;
  }

  async function expectServed(engine: LogEngine): Promise<void> {
    await engine.open();
    const number = Math.floor(Math.random() * 1e9);
    await engine.append([append({ number })]);
    expect(numbersOf((await readTo(engine, number)).appends)).toContain(number);
  }

  async function failureOf(engine: LogEngine): Promise<Error> {
    return engine.open().then(
      () => Promise.reject(new Error('it was opened')),
      (error: Error) => error,
    );
  }

  it('is used with the authority that signed its certificate', async () => {
    await expectServed(engineOf(`localhost:${ports.tls}`));
  });

  it('is used by users with a password', async () => {
    const users = `localhost:${ports.users}`;
    await expectServed(engineOf(users, { user: 'gateway', password: 'right-password' }));
    const refused = await failureOf(engineOf(users, { user: 'gateway', password: 'wrong-password' }));
    expect(refused).toBeInstanceOf(EngineUnsuitable);
    expect(refused.message).toContain('user or password is wrong');
    expect(inspect(refused, { depth: 9 })).not.toContain('wrong-password');
  });

  it('is used by clients with a certificate', async () => {
    await expectServed(engineOf(`localhost:${ports.clients}`, { cert: client.cert, key: client.key }));
  });

  it.each([
    ['another authority', () => engineOf(`localhost:${ports.tls}`, { ca: stranger.ca.cert }), 'LOG_TLS_CA'],
    ['the authorities of Node', () => engineOf(`localhost:${ports.tls}`, { ca: undefined }), 'LOG_TLS_CA'],
    ['another host name', () => engineOf(`127.0.0.1:${ports.tls}`), "does not match certificate's altnames"],
    ['plain text', () => engineOf(`localhost:${ports.tls}`, { tls: false }), 'brokers with TLS (LOG_TLS=true)'],
    ['TLS at a port without', () => engineOf(`127.0.0.1:${ports.plain}`), 'brokers without TLS do so (LOG_TLS=false)'],
    ['no user where one is needed', () => engineOf(`localhost:${ports.users}`), 'or with users (LOG_USER)'],
    ['no certificate where one is needed', () => engineOf(`localhost:${ports.clients}`), 'LOG_TLS_CERT'],
    [
      'a certificate of another authority',
      () => engineOf(`localhost:${ports.clients}`, stranger.issue('gateway', 'DNS:gateway')),
      'LOG_TLS_CERT',
    ],
  ])('is unavailable with %s, and the reason says what to set', async (_what, made, reason) => {
    const error = await failureOf(made());
    expect(error).toBeInstanceOf(EngineUnavailable);
    expect(error.message).toContain('Kafka could not be reached while opening: ');
    expect(error.message).toContain(reason);
  });

  it.each([
    ['LOG_TLS_CA has no certificate', () => ({ ca: 'not a certificate' })],
    ['LOG_TLS_CERT has no certificate', () => ({ cert: client.key, key: client.key })],
    ['LOG_TLS_KEY is not the key of LOG_TLS_CERT', () => ({ cert: client.cert, key: stranger.ca.key })],
  ])('is refused before it is contacted when the file of %s', (reason, access) => {
    expect(() => engineOf('localhost', access())).toThrow(EngineUnsuitable);
    expect(() => engineOf('localhost', access())).toThrow(reason);
  });
});
