/** The engines that crash rounds run on, each in a process of its own that can be killed. */
import { freePort } from '../../infra/kafka/free-port.ts';
import { createEventStoreEngine } from '../../src/events/eventstore/eventstore-engine.ts';
import { createKafkaEngine } from '../../src/events/kafka/kafka-engine.ts';
import type { LogEngine } from '../../src/events/replicated/engine.ts';
import { startKafkaBroker } from '../support/kafka-broker.ts';
import { startStandIn } from '../support/start-eventstore.ts';
import type { Random } from './random.ts';
import { type Link, startLink } from './several/link.ts';

export const engineNames = ['kafka', 'eventstore'] as const;
export type EngineName = (typeof engineNames)[number];

export interface EngineLink extends Link {
  readonly logUrl: string;
}

export interface CrashEngine {
  readonly name: EngineName;
  readonly logUrl: string;
  /** The networks of the gateways to it, each with a `LOG_URL` of its own. */
  readonly links: readonly EngineLink[];
  /** A driver of its own, which is not open yet. */
  connect(): LogEngine;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
  /** Starts it again on its data and at its address; resolves when it serves. */
  restart(): Promise<void>;
  /** Something less than its end: begins now, and resolves when it is over. */
  disturb(chance: Random): Promise<void>;
  dispose(): Promise<void>;
}

/** @param gateways number of gateways, each with a link of its own to the engine. @throws when there is no Kafka broker on this machine, with the reason */
export async function startCrashEngine(name: EngineName, gateways = 0): Promise<CrashEngine> {
  return name === 'kafka' ? kafka(gateways) : eventStoreStandIn(gateways);
}

async function kafka(gateways: number): Promise<CrashEngine> {
  // A killed broker comes back sooner.
  const settings = { 'broker.session.timeout.ms': 1000, 'broker.heartbeat.interval.ms': 200 };
  const ports = await Promise.all(Array.from({ length: gateways }, freePort));
  const links = await Promise.all(ports.map((port) => startLink(port)));
  const proxied = ports.map((port, index) => ({ port, proxyPort: links[index]?.port ?? 0 }));
  const broker = await startKafkaBroker({ settings, proxied });
  const logUrl = `kafka://${broker.address}/crash`;
  return {
    name: 'kafka',
    logUrl,
    links: links.map((link) => ({ ...link, logUrl: `kafka://127.0.0.1:${link.port}/crash` })),
    connect: () => createKafkaEngine({ url: logUrl }),
    kill: () => broker.kill(),
    restart: () => broker.restart(),
    async disturb(chance) {
      broker.pause();
      await waitFor(chance.between(20, 1500));
      broker.resume();
    },
    async dispose() {
      await Promise.all(links.map((link) => link.close()));
      await broker.dispose();
    },
  };
}

async function eventStoreStandIn(gateways: number): Promise<CrashEngine> {
  const server = await startStandIn();
  const logUrl = server.url('crash');
  const links = await Promise.all(Array.from({ length: gateways }, () => startLink(server.port)));
  return {
    name: 'eventstore',
    logUrl,
    links: links.map((link) => ({ ...link, logUrl: logUrl.replace(`:${server.port}/`, `:${link.port}/`) })),
    // Muted subscriptions are noticed after a second.
    connect: () => createEventStoreEngine({ url: logUrl, idleMs: 1_000 }),
    kill: () => server.kill(),
    restart: () => server.restart(),
    async disturb(chance) {
      const kind = chance.oneOf(['disconnect', 'drop', 'cut', 'refuse', 'refuse one', 'reverse', 'mute']);
      if (kind === 'disconnect') await server.disconnect();
      else if (kind === 'drop') await server.dropSubscriptions();
      else if (kind === 'mute') await server.setFaults({ muteSubscriptions: true });
      else {
        if (kind === 'cut') await server.setFaults({ cutAfterAppends: chance.between(1, 4) });
        else if (kind === 'refuse') await server.setFaults({ refuseAppends: chance.between(1, 4) });
        else if (kind === 'refuse one') await server.setFaults({ refuseAppendAfter: chance.between(1, 40) });
        else await server.setFaults({ reverse: true });
        await waitFor(chance.between(20, 300));
        await server.setFaults({});
      }
    },
    async dispose() {
      await Promise.all(links.map((link) => link.close()));
      await server.stop();
    },
  };
}

function waitFor(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
