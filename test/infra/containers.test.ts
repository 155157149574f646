/** The containers of tests, on a stand-in of Docker's API: what would be created, and what tests do with it. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { startBroker } from '../../infra/kafka/broker.ts';
import { kafkaJars } from '../../infra/kafka/jars.ts';
import {
  type ContainerProcess,
  type CreatedContainer,
  type DockerStandIn,
  startDockerStandIn,
} from '../support/docker-stand-in.ts';
import { startKafkaContainer } from '../support/kafka-container.ts';
import { eventStoreKind, startEventStore } from '../support/start-eventstore.ts';

const jars = kafkaJars();

let docker: DockerStandIn;
// testcontainers keeps the runtime that it has found: one for the file.
beforeAll(async () => {
  docker = await startDockerStandIn((container) =>
    container.Image.includes('kafka') ? brokerOf(container) : healthyServer(container),
  );
  vi.stubEnv('DOCKER_HOST', docker.address);
  vi.stubEnv('TESTCONTAINERS_HOST_OVERRIDE', '127.0.0.1');
  vi.stubEnv('TESTCONTAINERS_RYUK_DISABLED', 'true');
  vi.stubEnv('EVENTSTORE_URL', '');
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await docker.close();
});

function lastCreated(): CreatedContainer {
  const container = docker.created.at(-1);
  if (container === undefined) throw new Error('nothing was created');
  return container;
}

const environmentOf = ({ Env }: CreatedContainer): Record<string, string> =>
  Object.fromEntries(Env.map((line) => [line.split('=', 1)[0], line.slice(line.indexOf('=') + 1)]));

const publishedPort = ({ HostConfig }: CreatedContainer): number =>
  Number(Object.values(HostConfig.PortBindings)[0]?.[0]?.HostPort);

describe('EventStoreDB in a container', () => {
  it('is killed and restarted on its port, any number of times, and removed', async () => {
    expect(await eventStoreKind()).toBe('container');
    const store = await startEventStore();
    const container = lastCreated();
    expect(container.Image).toMatch(/^eventstore\/eventstore:\d/);
    expect(environmentOf(container)).toMatchObject({ EVENTSTORE_INSECURE: 'true', EVENTSTORE_RUN_PROJECTIONS: 'None' });
    const port = publishedPort(container);
    expect(store.url('x')).toBe(`esdb://127.0.0.1:${port}/x?tls=false`);
    const isHealthy = () =>
      fetch(`http://127.0.0.1:${port}/health/live`).then(
        ({ ok }) => ok,
        () => false,
      );
    for (const _ of [1, 2]) {
      await store.kill();
      expect(await isHealthy()).toBe(false);
      await store.restart();
      expect(await isHealthy()).toBe(true);
    }
    await store.kill();
    await store.stop();
    expect(docker.calls.filter((call) => call.endsWith('/kill'))).toHaveLength(3);
    expect(docker.calls.at(-1)).toBe('DELETE /containers/c1');
  });
});

describe.skipIf('missing' in jars)('Kafka in a container', () => {
  it('has variables that are the settings of a working broker', { timeout: 60_000 }, async () => {
    const { brokers, dispose } = await startKafkaContainer();
    expect(lastCreated().Image).toMatch(/^apache\/kafka:4\./);
    expect(brokers).toEqual([`127.0.0.1:${publishedPort(lastCreated())}`]);
    await dispose();
    expect(docker.calls.at(-1)).toBe('DELETE /containers/c1');
  });
});

/** Answers the question for its health as EventStoreDB does. */
async function healthyServer(container: CreatedContainer): Promise<ContainerProcess> {
  const server = createServer((_, response) => response.writeHead(204).end());
  server.listen(publishedPort(container), '127.0.0.1');
  await once(server, 'listening');
  const end = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  };
  return { output: '', end };
}

/** A broker of this machine with the container's variables as settings, in a folder of its own. */
async function brokerOf(container: CreatedContainer): Promise<ContainerProcess> {
  if ('missing' in jars) throw new Error(jars.missing);
  const variables = Object.entries(environmentOf(container));
  const settings = Object.fromEntries(
    variables.map(([name, value]) => [
      name
        .replace(/^KAFKA_/, '')
        .replaceAll('_', '.')
        .toLowerCase(),
      value,
    ]),
  );
  const dir = mkdtempSync(join(tmpdir(), 'chancery-kafka-'));
  const port = publishedPort(container);
  const place = { ...jars, dir, port, controllerPort: port + 1 };
  const broker = await startBroker({ ...place, settings: { ...settings, 'log.dirs': dir } });
  const end = async () => {
    broker.kill('SIGKILL');
    await broker.exited;
    rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
  };
  return { output: 'Kafka Server started', end };
}
