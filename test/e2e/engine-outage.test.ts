/** A gateway that serves while the engine of its log is slow or down. */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { kafkaJars } from '../../infra/kafka/jars.ts';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { exchangeEnds } from '../../src/events/catalogue/exchange.ts';
import { streamName } from '../../src/events/event.ts';
import { startKafkaBroker } from '../support/kafka-broker.ts';
import { someOf } from '../support/seed.ts';
import { startStandIn } from '../support/start-eventstore.ts';
import { json } from '../support/with-gateway.ts';
import { ask, killAll, type ServedGateway, serve, temporaryFolder } from './gateway-process.ts';
import { eventsIn } from './recorded-events.ts';

interface Engine {
  readonly url: string;
  /** From now on it answers nothing, and keeps its connections. */
  stall(): Promise<void>;
  goOn(): Promise<void>;
  kill(): Promise<void>;
  restart(): Promise<void>;
  dispose(): Promise<void>;
}

async function kafka(): Promise<Engine> {
  const broker = await startKafkaBroker();
  return {
    url: `kafka://${broker.address}/log-${randomUUID()}?requestTimeout=1000`,
    stall: async () => broker.pause(),
    goOn: async () => broker.resume(),
    kill: () => broker.kill(),
    restart: () => broker.restart(),
    dispose: () => broker.dispose(),
  };
}

async function eventStoreStandIn(): Promise<Engine> {
  const server = await startStandIn();
  return {
    url: `${server.url('log')}&defaultDeadline=1000`,
    stall: () => server.setFaults({ delayMs: 3_600_000 }),
    goOn: () => server.setFaults({}),
    kill: () => server.kill(),
    restart: () => server.restart(),
    dispose: () => server.stop(),
  };
}

const jars = kafkaJars();
const engines = [
  { name: 'Kafka', start: kafka, missing: 'missing' in jars ? jars.missing : undefined },
  { name: 'EventStoreDB (stand-in)', start: eventStoreStandIn, missing: undefined },
];
const model = 'llamacpp/simulated-small';
const messages = [{ role: 'user', content: 'Hello there' }];
/** Together more than the gateway keeps for an engine that does not answer. */
const large = { count: 80, bytes: 6 * 1024 * 1024, atOnce: 10 };
/** What it keeps at most (256 MiB), what it needs to serve, and copies of requests that are being received. */
const mostResidentBytes = 1024 * 1024 * 1024;
const recovery = { timeout: 60_000, interval: 100 };

afterAll(killAll);

for (const { name, start, missing } of someOf(engines)) {
  if (missing !== undefined) console.log(`tests of outages of ${name} are skipped: ${missing}`);
  describe.skipIf(missing !== undefined)(`a gateway whose log is on ${name}`, () => {
    const folder = temporaryFolder();
    const provider = createSimulatedProvider({ responses: 'absent' });
    const acknowledged: string[] = [];
    let engine: Engine;
    let gateway: ServedGateway;

    beforeAll(async () => {
      engine = await start();
      const env = { LLAMACPP_BASE_URL: await provider.listen(), LOG_LEVEL: 'error', LOG_URL: engine.url };
      gateway = await serve({ dataDir: folder.path, env: { ...env, BODY_SIZE_LIMIT: '16MB' } });
    }, 90_000);
    afterAll(async () => {
      gateway?.process.kill('SIGKILL');
      await gateway?.process.exited;
      await Promise.all([engine?.dispose(), provider.close()]);
      folder.remove();
    });

    const chat = (content?: string) =>
      ask(gateway.url, '/v1/chat/completions', {
        json: { model, messages: content === undefined ? messages : [{ role: 'user', content }] },
      });

    async function expectServed(): Promise<void> {
      const response = await chat();
      expect(response.status).toBe(200);
      await response.json();
      acknowledged.push(response.headers.get('x-exchange-id') ?? '');
    }

    async function expectRefused(): Promise<void> {
      await expect.poll(async () => (await fetch(`${gateway.url}/health/ready`)).status, recovery).toBe(503);
      const calls = provider.requests.length;
      for (let request = 0; request < 5; request++) {
        const refused = await chat();
        expect(refused.status).toBe(503);
        expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
        expect(await json(refused)).toMatchObject({ error: { code: 'log_unavailable' } });
      }
      expect(provider.requests.length).toBe(calls);
      const ready = await fetch(`${gateway.url}/health/ready`);
      expect([ready.status, await json(ready)]).toMatchObject([
        503,
        { status: 'not_ready', components: { storage: 'down' }, log_engine: { connected: false } },
      ]);
      expect((await fetch(`${gateway.url}/health`)).status).toBe(200);
      expect((await ask(gateway.url, '/v1/models')).status).toBe(200);
    }

    async function expectRecovery(): Promise<void> {
      await expect.poll(async () => (await fetch(`${gateway.url}/health/ready`)).status, recovery).toBe(200);
      for (let request = 0; request < 5; request++) await expectServed();
    }

    it('refuses requests while the engine does not answer, in bounded memory, and recovers without a restart', async () => {
      for (let request = 0; request < 5; request++) await expectServed();
      await engine.stall();
      const content = 'x'.repeat(large.bytes);
      let left = large.count;
      const send = async () => {
        while (left-- > 0) {
          const { status } = await chat(content);
          expect(status).toBe(503);
        }
      };
      await Promise.all(Array.from({ length: large.atOnce }, send));
      await expectRefused();
      expect(mostResident(gateway.process.pid)).toBeLessThan(mostResidentBytes);
      await engine.goOn();
      await expectRecovery();
    }, 150_000);

    it('refuses requests while the engine is down, and recovers without a restart', async () => {
      await engine.kill();
      await chat();
      await expectRefused();
      await engine.restart();
      await expectRecovery();
    }, 150_000);

    it('has lost no acknowledged answer, and leaves nothing open', async () => {
      gateway.process.kill('SIGTERM');
      expect(await gateway.process.exited, gateway.process.stderr).toEqual({ code: 0, signal: null });
      const events = await eventsIn(folder.path);
      const completed = new Set(events.filter(({ type }) => type === 'exchange.completed').map(({ stream }) => stream));
      expect(acknowledged.filter((id) => !completed.has(streamName('exchange', id)))).toEqual([]);
      expect(acknowledged).toHaveLength(15);
      const ended = new Set(events.filter(({ type }) => exchangeEnds.has(type)).map(({ stream }) => stream));
      const begun = events.filter(({ type }) => type === 'request.received').map(({ stream }) => stream);
      expect(begun.filter((stream) => !ended.has(stream))).toEqual([]);
    }, 30_000);
  });
}

/** Bytes of memory that the process had at most. */
function mostResident(pid: number): number {
  const kibibytes = /VmHWM:\s*(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kibibytes) * 1024;
}
