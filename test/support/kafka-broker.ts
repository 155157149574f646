/** A real Kafka broker that a test ends, suspends and starts again. Needs the jars (`npm run kafka:prepare`). */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type BrokerProcess, startBroker } from '../../infra/kafka/broker.ts';
import type { BrokerPlace, BrokerSettings } from '../../infra/kafka/broker-settings.ts';
import { freePort } from '../../infra/kafka/free-port.ts';
import { kafkaJars } from '../../infra/kafka/jars.ts';
import kafkajs from '../../src/events/kafka/kafkajs.ts';

export interface KafkaBroker {
  /** `host:port`, the same after `restart`. */
  readonly address: string;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
  /** An orderly end; resolves when the process is gone. */
  stop(): Promise<void>;
  /** Starts the broker again on its data and port, after killing it if it runs; resolves when it serves requests. */
  restart(): Promise<void>;
  /** SIGSTOP: connections stay open and nothing is answered until `resume`. */
  pause(): void;
  resume(): void;
  /** Ends the broker and removes its data, unless the caller named the folder. */
  dispose(): Promise<void>;
}

export interface KafkaBrokerOptions {
  /** Where its data is; default: a temporary folder. */
  readonly dir?: string;
  readonly port?: number;
  readonly proxied?: BrokerPlace['proxied'];
  /** Beside those of `infra/kafka/broker-settings.ts`. */
  readonly settings?: BrokerSettings;
}

/** @throws when the jars are not there, with the command that fetches them */
export async function startKafkaBroker(options: KafkaBrokerOptions = {}): Promise<KafkaBroker> {
  const jars = kafkaJars();
  if ('missing' in jars) throw new Error(jars.missing);
  const dir = options.dir ?? mkdtempSync(join(tmpdir(), 'chancery-kafka-'));
  const port = options.port ?? (await freePort());
  const start = {
    ...jars,
    dir,
    port,
    controllerPort: await freePort(),
    settings: options.settings,
    proxied: options.proxied,
  };
  let broker: BrokerProcess | undefined = await startBroker(start);
  await consumerGroupsReady(`127.0.0.1:${port}`);
  const end = async (signal: 'SIGKILL' | 'SIGTERM') => {
    broker?.kill(signal);
    await broker?.exited;
    broker = undefined;
  };
  return {
    address: `127.0.0.1:${port}`,
    kill: () => end('SIGKILL'),
    stop: () => end('SIGTERM'),
    async restart() {
      await end('SIGKILL');
      broker = await startBroker(start);
    },
    pause: () => broker?.kill('SIGSTOP'),
    resume: () => broker?.kill('SIGCONT'),
    async dispose() {
      await end('SIGKILL');
      if (options.dir === undefined) rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

const GROUPS_READY_WITHIN_MS = 60_000;

/** Resolves when the broker serves consumer groups, which it does some time after other requests. */
export async function consumerGroupsReady(address: string): Promise<void> {
  const { Kafka, logLevel } = kafkajs;
  const admin = new Kafka({ brokers: [address], logLevel: logLevel.NOTHING, retry: { retries: 0 } }).admin();
  const deadline = performance.now() + GROUPS_READY_WITHIN_MS;
  try {
    for (;;) {
      try {
        await admin.connect();
        await admin.describeGroups(['none']);
        return;
      } catch (error) {
        if (performance.now() > deadline) throw error;
        // A time: between two attempts to reach the broker.
        await sleep(50);
      }
    }
  } finally {
    await admin.disconnect();
  }
}
