/** A log on a broker with users and rights. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { freePort } from '../../../infra/kafka/free-port.ts';
import { kafkaJars } from '../../../infra/kafka/jars.ts';
import { EmbeddedLog } from '../../../src/events/embedded/embedded-log.ts';
import { createKafkaEngine } from '../../../src/events/kafka/kafka-engine.ts';
import kafkajs from '../../../src/events/kafka/kafkajs.ts';
import { EngineUnavailable, EngineUnsuitable, type LogEngine } from '../../../src/events/replicated/engine.ts';
import { inheritedVariables } from '../../e2e/gateway-process.ts';
import { type KafkaBroker, startKafkaBroker } from '../../support/kafka-broker.ts';
import { main } from '../../support/main-program.ts';
import { append, numbersOf, readTo } from '../eventstore/appends.ts';
import { appendThings } from '../log-files.ts';

const { AclOperationTypes, AclPermissionTypes, AclResourceTypes, Kafka, ResourcePatternTypes, logLevel } = kafkajs;
const passwords = {
  writer: 'right-password',
  reader: 'password-of-reader',
  watcher: 'password-of-watcher',
  stranger: 'password-of-stranger',
};

/** As the log does: tries again while the broker is not ready, for as long as the test may take. */
async function onceAvailable(work: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof EngineUnavailable)) throw error;
      // A time: between attempts.
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

describe.skipIf('missing' in kafkaJars())('a Kafka broker with users and rights', () => {
  let broker: KafkaBroker;
  let address = '';
  const open: LogEngine[] = [];

  beforeAll(async () => {
    const [port, users, controller] = [await freePort(), await freePort(), await freePort()];
    address = `127.0.0.1:${users}`;
    const accounts = Object.entries(passwords).map(([name, password]) => `user_${name}="${password}"`);
    broker = await startKafkaBroker({
      port,
      settings: {
        listeners: `PLAINTEXT://127.0.0.1:${port},USERS://${address},CONTROLLER://127.0.0.1:${controller}`,
        'advertised.listeners': `PLAINTEXT://127.0.0.1:${port},USERS://${address}`,
        'controller.quorum.voters': `1@127.0.0.1:${controller}`,
        'listener.security.protocol.map': 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,USERS:SASL_PLAINTEXT',
        'sasl.enabled.mechanisms': 'PLAIN',
        'listener.name.users.plain.sasl.jaas.config': `org.apache.kafka.common.security.plain.PlainLoginModule required ${accounts.join(' ')};`,
        'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
        'super.users': 'User:ANONYMOUS',
      },
    });
    const { ALL, DESCRIBE, DESCRIBE_CONFIGS, READ } = AclOperationTypes;
    await allow('writer', AclResourceTypes.TOPIC, 'log', [ALL]);
    await allow('writer', AclResourceTypes.GROUP, 'chancery-', [READ]);
    await allow('reader', AclResourceTypes.TOPIC, 'log', [DESCRIBE, DESCRIBE_CONFIGS, READ]);
    await allow('watcher', AclResourceTypes.TOPIC, 'log', [DESCRIBE, DESCRIBE_CONFIGS]);
    await allow('watcher', AclResourceTypes.GROUP, 'chancery-', [READ]);
  }, 60_000);
  afterEach(async () => {
    await Promise.all(open.splice(0).map((engine) => engine.close()));
  });
  afterAll(() => broker?.dispose());

  async function allow(user: string, resourceType: number, prefix: string, operations: number[]): Promise<void> {
    const admin = new Kafka({ brokers: [broker.address], logLevel: logLevel.NOTHING }).admin();
    await admin.connect();
    const acl = operations.map((operation) => ({
      resourceType,
      resourceName: prefix,
      resourcePatternType: ResourcePatternTypes.PREFIXED,
      principal: `User:${user}`,
      host: '*',
      operation,
      permissionType: AclPermissionTypes.ALLOW,
    }));
    await admin.createAcls({ acl });
    await admin.disconnect();
  }

  function engineOf(user: keyof typeof passwords, password: string = passwords[user]): LogEngine {
    const engine = createKafkaEngine({ url: `kafka://${address}/log`, user, password });
    open.push(engine);
    return engine;
  }

  async function refusalOf(doing: Promise<unknown>): Promise<string> {
    const error: unknown = await doing.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(EngineUnsuitable);
    return String(error);
  }

  it('serves a user with all rights', async () => {
    const engine = engineOf('writer');
    await onceAvailable(() => engine.open());
    await onceAvailable(() => engine.append([append({ number: 1 })]));
    expect(numbersOf((await readTo(engine, 1)).appends)).toEqual([1]);
  });

  it('refuses a wrong password, which no message has', async () => {
    const message = await refusalOf(engineOf('writer', 'wrong-password').open());
    expect(message).toContain('Kafka refused to open the log: user or password is wrong');
    expect(message).not.toContain('wrong-password');
  });

  it('refuses a user without rights on the topic', async () => {
    expect(await refusalOf(engineOf('stranger').open())).toContain('refused to open the log: the user lacks rights');
  });

  it('refuses appends and reads of a user who may only look at the topic', async () => {
    await engineOf('writer').open();
    const engine = engineOf('watcher');
    await engine.open();
    const appending = await refusalOf(engine.append([append({ number: 1 })]));
    expect(appending).toMatch(/Kafka refused an append to the log: .*; appends need Write on the topic/);
    const reading = await refusalOf(readAll(engine));
    expect(reading).toMatch(/Kafka refused to read the log: the user lacks rights on the topic; it needs .*Read/);
  });

  it('names the missing right on groups among the reasons why a user cannot read', async () => {
    await engineOf('writer').open();
    const engine = engineOf('reader');
    await engine.open();
    const reading = readAll(engine);
    await expect(reading).rejects.toThrow(EngineUnavailable);
    await expect(reading).rejects.toThrow('the user lacks the right to Read groups with the prefix chancery-');
  });

  it('is a destination and a source of chancery log copy with the password of each side', async () => {
    const cwd = mkdtempSync(join(tmpdir(), 'chancery-copy-'));
    onTestFinished(() => rmSync(cwd, { recursive: true, force: true, maxRetries: 3 }));
    const log = await EmbeddedLog.open(join(cwd, 'log'));
    await appendThings(log, 0, 20);
    await log.close();
    const topic = `kafka://${address}/log-copy`;
    const to = { LOG_USER: 'writer', LOG_PASSWORD: passwords.writer };
    const wrong = await copy(cwd, 'log', topic, { ...to, LOG_PASSWORD: 'wrong-password' });
    expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining('user or password is wrong')]);
    expect(wrong.stderr).not.toContain('wrong-password');
    const there = await copy(cwd, 'log', topic, to);
    expect([there.code, there.stderr]).toEqual([0, '']);
    const from = { LOG_FROM_USER: 'writer', LOG_FROM_PASSWORD: passwords.writer };
    const back = await copy(cwd, topic, 'back', from);
    expect([back.code, back.stderr]).toEqual([0, '']);
    const { sha256 } = JSON.parse(there.stdout);
    expect(JSON.parse(back.stdout)).toMatchObject({ copied: 20, sha256 });
  }, 60_000);
});

function copy(cwd: string, from: string, to: string, variables: Readonly<Record<string, string>>) {
  const { promise, resolve } = Promise.withResolvers<{ code: number; stdout: string; stderr: string }>();
  const env = { ...inheritedVariables(), TMPDIR: cwd, ...variables };
  const args = [main, 'log', 'copy', '--from', from, '--to', to, '--json'];
  execFile(process.execPath, args, { cwd, env }, (error, stdout, stderr) => {
    resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr });
  });
  return promise;
}

const readAll = (engine: LogEngine) => Array.fromAsync(engine.read(undefined, new AbortController().signal));
