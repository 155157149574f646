/**
 * One Kafka broker for all test files of a run, started when the first of them asks for it (`kafka-broker.ts`). It
 * belongs to the process of the test runner and ends with it. `vitest.config.ts` loads this file.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { kafkaJars } from '../../infra/kafka/jars.ts';
import { containerHost } from './containers.ts';
import { startKafkaBroker } from './kafka-broker.ts';
import { startKafkaContainer } from './kafka-container.ts';

/** Brokers as `host:port`, or the reason why there are none. */
export type KafkaForTests = { readonly brokers: readonly string[] } | { readonly missing: string };

declare module 'vitest' {
  export interface ProvidedContext {
    /** A socket that answers each connection with `KafkaForTests` as JSON. */
    sharedKafka: string;
  }
}

type Shared = KafkaForTests & { dispose?(): Promise<void> };

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), 'chancery-kafka-'));
  const path = join(folder, 'socket');
  let shared: Promise<Shared> | undefined;
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    shared ??= startShared(join(folder, 'data')).catch((error: Error) => ({ missing: error.message }));
    void shared.then((answer) => socket.end(JSON.stringify(answer)));
  });
  await new Promise<void>((done) => server.listen(path, done));
  server.unref();
  project.provide('sharedKafka', path);
  return async () => {
    server.close();
    await (await shared)?.dispose?.();
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  };
}

async function startShared(dir: string): Promise<Shared> {
  const jars = kafkaJars();
  if ('classPath' in jars) {
    const broker = await startKafkaBroker({ dir });
    return { brokers: [broker.address], dispose: () => broker.dispose() };
  }
  if ((await containerHost()) !== undefined) return startKafkaContainer();
  return { missing: `${jars.missing}; neither Docker nor Podman runs; KAFKA_BROKERS is not set` };
}
