/**
 * Several gateways on one log, in this process, for the length of one test file. The engine is the stand-in for
 * EventStoreDB. Each gateway reaches it through a network of its own: what is recorded arrives late there, so that a gateway
 * that answers from what it has read so far is found out.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { afterAll, beforeAll } from 'vitest';
import { createSimulatedProvider, type SimulatedProviderOptions } from '../../infra/simulated-provider/server.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { RunningConfiguration } from '../../src/config/reload.ts';
import { ReadOnlyLog } from '../../src/events/embedded/read-only-log.ts';
import type { RecordedEvent } from '../../src/events/event.ts';
import { type Gateway, startGateway } from '../../src/gateway.ts';
import { providerTypes } from '../../src/providers/types.ts';
import { createReload } from '../../src/wiring/reload.ts';
import { MASTER_KEY } from '../support/gateway.ts';
import { type SlowNetwork, startSlowNetwork } from '../support/slow-network.ts';
import { type RunningStandIn, startStandIn } from '../support/start-eventstore.ts';
import { SHARED_KEY } from '../support/test-log.ts';
import { modelsListed } from '../support/with-gateway.ts';

export interface OneOfSeveral {
  readonly url: string;
  readonly gateway: Gateway;
  readonly dataDir: string;
  readonly network: SlowNetwork;
  /** `fetch` with the master key. */
  fetch(path: string, init?: RequestInit & { json?: unknown; key?: string }): Promise<Response>;
  /** The events that its replica has, also while it runs. */
  events(): Promise<RecordedEvent[]>;
}

export interface SeveralOptions {
  /** One gateway for each: milliseconds until it gets what the engine has recorded. */
  readonly delays: readonly number[];
  readonly env?: Record<string, string> | (() => Promise<Record<string, string>>);
  readonly simulated?: SimulatedProviderOptions;
}

export interface Several {
  readonly all: readonly OneOfSeveral[];
  readonly simulated: ReturnType<typeof createSimulatedProvider>;
  readonly store: RunningStandIn;
  /** A further gateway on the log, which the test file stops. */
  start(delayMs: number, env?: Record<string, string>): Promise<OneOfSeveral>;
}

export function withSeveral({ delays, env = {}, simulated: options = {} }: SeveralOptions): Several {
  const simulated = createSimulatedProvider(options);
  const started: OneOfSeveral[] = [];
  let store: RunningStandIn | undefined;
  let upstream = '';
  let ofAll: Record<string, string> = {};
  const there = () => {
    if (store === undefined) throw new Error('the gateways run only within tests');
    return store;
  };
  async function start(delayMs: number, more: Record<string, string> = {}): Promise<OneOfSeveral> {
    const network = await startSlowNetwork(there().port, delayMs);
    const one = await startOne(network, { LLAMACPP_BASE_URL: upstream, ...ofAll, ...more });
    started.push(one);
    return one;
  }
  beforeAll(async () => {
    [store, upstream] = await Promise.all([startStandIn(), simulated.listen()]);
    ofAll = typeof env === 'function' ? await env() : env;
    const providers = 1 + Object.keys(ofAll).filter((name) => name.endsWith('_BASE_URL')).length;
    for (const delay of delays) await modelsListed(await start(delay), providers);
  });
  afterAll(async () => {
    await Promise.all(started.map(({ gateway }) => gateway.stop('test is over')));
    for (const { network, dataDir } of started) {
      await network.close();
      rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
    }
    await simulated.close();
    await store?.stop();
  });
  return {
    get all() {
      return started.slice(0, delays.length);
    },
    simulated,
    get store() {
      return there();
    },
    start,
  };
}

async function startOne(network: SlowNetwork, env: Record<string, string>): Promise<OneOfSeveral> {
  const dataDir = mkdtempSync(join(tmpdir(), 'chancery-several-'));
  const variables = {
    DATA_DIR: dataDir,
    GATEWAY_MASTER_KEY: MASTER_KEY,
    LOG_URL: `esdb://127.0.0.1:${network.port}/several?tls=false`,
    CREDENTIALS_KEY: SHARED_KEY,
    LOG_LEASE: '3s',
    ANALYTICS_ENABLED: 'false',
    RETRY_INITIAL_BACKOFF: '10ms',
    ...env,
  };
  const sources = { flags: {}, env: variables, cwd: dataDir, providerTypes };
  const loaded = loadConfig(sources);
  if (!loaded.ok) throw new Error(loaded.problems.map(({ message }) => message).join('\n'));
  const config = { ...loaded.config, server: { ...loaded.config.server, port: 0 } };
  const logger = pino({ level: 'silent' }, { write() {} });
  const running = new RunningConfiguration(sources, loaded);
  const reload = createReload(running, (next, record) => gateway.configure(next, record), logger);
  const gateway: Gateway = await startGateway(config, MASTER_KEY, logger, { reload });
  return {
    url: gateway.url,
    gateway,
    dataDir,
    network,
    fetch(path, { json, key = MASTER_KEY, ...init } = {}) {
      const headers = new Headers(init.headers);
      if (!headers.has('authorization')) headers.set('authorization', `Bearer ${key}`);
      if (json === undefined) return fetch(`${gateway.url}${path}`, { ...init, headers });
      headers.set('content-type', 'application/json');
      return fetch(`${gateway.url}${path}`, { method: 'POST', ...init, headers, body: JSON.stringify(json) });
    },
    async events() {
      const log = await ReadOnlyLog.open(join(dataDir, 'log'));
      try {
        return await Array.fromAsync(log.readAll());
      } finally {
        await log.close();
      }
    },
  };
}
