/** What is left of an engine that was closed while something was under way on it: nothing, or the process would not end. */
import { randomUUID } from 'node:crypto';
import { createServer, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { freePort } from '../../../infra/kafka/free-port.ts';
import { kafkaJars } from '../../../infra/kafka/jars.ts';
import { createKafkaEngine } from '../../../src/events/kafka/kafka-engine.ts';
import type { LogEngine } from '../../../src/events/replicated/engine.ts';
import { startLink } from '../../crash/several/link.ts';
import { startHoldingProxy } from '../../support/holding-proxy.ts';
import { startKafkaBroker } from '../../support/kafka-broker.ts';
import { kafkaOrSkip } from '../../support/kafka-for-tests.ts';
import { append } from '../eventstore/appends.ts';

const shared = await kafkaOrSkip();
const [broker = ''] = shared ?? [];
const brokerPort = Number(broker.split(':')[1]);

/** Connections of this process to brokers at the port. */
function connectionsTo(port: number): number {
  const { _getActiveHandles: handles } = process as unknown as { _getActiveHandles(): Partial<Socket>[] };
  return handles.call(process).filter(({ remotePort, destroyed }) => remotePort === port && destroyed === false).length;
}

async function openEngine(): Promise<LogEngine> {
  const engine = createKafkaEngine({ url: `kafka://${broker}/log-${randomUUID()}` });
  await engine.open();
  return engine;
}

/** Closes an engine in each of so many turns of the event loop after the call. */
async function closeDuring(turns: number, call: (engine: LogEngine) => Promise<unknown>): Promise<void> {
  await expect.poll(() => connectionsTo(brokerPort)).toBe(0);
  for (let turn = 0; turn < turns; turn++) {
    const engine = await openEngine();
    const called = call(engine).catch(() => {});
    for (let passed = 0; passed < turn; passed++) await nextTurn();
    await engine.close();
    await called;
  }
  await expect.poll(() => connectionsTo(brokerPort)).toBe(0);
}

describe.skipIf(shared === undefined)('a closed engine on Kafka', () => {
  it('has no connection, whenever it was closed while it connected to append', async () => {
    await closeDuring(10, (engine) => engine.append([append({ number: 1, bodies: [10] })]));
  }, 60_000);

  it('has no connection, whenever it was closed while it verified a place', async () => {
    await closeDuring(10, (engine) => engine.verify(undefined));
  }, 60_000);

  it('has no connection, whenever it was closed while it began to read', async () => {
    await closeDuring(10, async (engine) => {
      for await (const _ of engine.read(undefined, new AbortController().signal));
    });
  }, 60_000);
});

describe.skipIf('missing' in kafkaJars())('an engine on Kafka whose network fails', () => {
  it('has no connection after it was closed while a place was being verified', async () => {
    const port = await freePort();
    const link = await startLink(port);
    const ownBroker = await startKafkaBroker({ proxied: [{ port, proxyPort: link.port }] });
    onTestFinished(async () => {
      await link.close();
      await ownBroker.dispose();
    });
    const engine = createKafkaEngine({ url: `kafka://127.0.0.1:${link.port}/log` });
    await engine.open();
    await engine.verify(undefined);
    link.disturb({ fault: 'deaf' });
    const verified = engine.verify(undefined).then(String, (error: Error) => error.message);
    await nextTurn();
    const closed = engine.close();
    await nextTurn();
    link.heal();
    await closed;
    await verified;
    await expect.poll(() => connectionsTo(link.port)).toBe(0);
  }, 60_000);
});

describe('an engine whose broker never answers', () => {
  it('closes at once, and what was called fails', async () => {
    const silent = createServer(() => {}).listen(0, '127.0.0.1');
    await expect.poll(() => silent.listening).toBe(true);
    const address = silent.address();
    const proxy = await startHoldingProxy(typeof address === 'object' && address !== null ? address.port : 0);
    const engine = createKafkaEngine({ url: `kafka://127.0.0.1:${proxy.port}/log?requestTimeout=3600000` });
    const calls = [engine.open(), engine.verify(undefined), engine.append([append({ number: 1, bodies: [10] })])];
    const settled = Promise.all(calls.map((call) => call.then(String, (error: Error) => error.message)));
    await expect.poll(() => connectionsTo(proxy.port)).toBeGreaterThan(2);
    const before = performance.now();
    await engine.close();
    const closed = 'the connection to Kafka has been closed';
    expect(await settled).toEqual(
      ['opening', 'reading', 'appending'].map((doing) => expect.stringContaining(`${doing}: ${closed}`)),
    );
    expect(performance.now() - before).toBeLessThan(5_000);
    await expect.poll(() => connectionsTo(proxy.port)).toBe(0);
    await proxy.close();
    silent.close();
  });
});
