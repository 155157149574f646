/** A gateway for tests: the real one, on a free port, with a simulated provider behind it. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pino from 'pino';
import {
  createSimulatedProvider,
  type SimulatedProvider,
  type SimulatedProviderOptions,
} from '../../infra/simulated-provider/server.ts';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { RunningConfiguration } from '../../src/config/reload.ts';
import { EmbeddedLog } from '../../src/events/embedded/embedded-log.ts';
import { directoryOf } from '../../src/events/open-log.ts';
import { serveSharedLog } from '../../src/events/shared/serve-shared-log.ts';
import { type Gateway, startGateway } from '../../src/gateway.ts';
import { providerTypes } from '../../src/providers/types.ts';
import type { AnalyticsQueries } from '../../src/wiring/analytics/reports.ts';
import { createReload } from '../../src/wiring/reload.ts';
import type { WorkerPlace } from '../../src/wiring/workers/messages.ts';
import { endLeasesOfEarlierRuns } from '../../src/wiring/workers/serve-with-workers.ts';
import { type AlternatingProxy, startAlternatingProxy } from './alternating-proxy.ts';
import { cacheOfTests, cacheStarted } from './cache-of-tests.ts';
import { gatewaysOfTests, logOfTests, workersOfTests } from './test-log.ts';
import { guardrailsOfTests } from './three-guardrails.ts';

export const MASTER_KEY = 'test-master-key';

export interface TestGatewayOptions {
  /** Environment variables; `DATA_DIR` and `PORT` are set already. */
  readonly env?: Record<string, string>;
  /** The simulated provider; `false` for none. It is registered as `llamacpp` unless `env` says otherwise. */
  readonly simulated?: SimulatedProviderOptions | false;
  /** How the simulated provider is registered: environment variables made from its URL. */
  readonly register?: (url: string) => Record<string, string>;
  readonly dataDir?: string;
  /** The analytics that it queries for reports. */
  readonly analytics?: AnalyticsQueries;
  /** Folder of the built dashboard; default: that of this project. */
  readonly dashboardFolder?: string;
}

export interface TestGateway {
  readonly url: string;
  readonly dataDir: string;
  readonly simulated: SimulatedProvider;
  readonly gateway: Gateway;
  /** `fetch` with the master key. */
  fetch(path: string, init?: RequestInit & { json?: unknown }): Promise<Response>;
  /** Stops everything and removes the data, unless `dataDir` was given. */
  close(): Promise<void>;
}

export async function startTestGateway(options: TestGatewayOptions = {}): Promise<TestGateway> {
  const dataDir = options.dataDir ?? mkdtempSync(join(tmpdir(), 'chancery-test-'));
  const simulated = createSimulatedProvider(options.simulated === false ? {} : (options.simulated ?? {}));
  const upstream = await simulated.listen();
  const register = options.register ?? ((url: string) => ({ LLAMACPP_BASE_URL: url }));
  const env = {
    DATA_DIR: dataDir,
    GATEWAY_MASTER_KEY: MASTER_KEY,
    RETRY_INITIAL_BACKOFF: '10ms',
    ...logOfTests(dataDir),
    ...workersOf(options.env),
    ...guardrailsOfTests(),
    ...cacheOfTests(),
    ...(options.simulated === false ? {} : register(upstream)),
    ...options.env,
  };
  const sources = { flags: {}, env, cwd: dataDir, providerTypes };
  const loaded = loadConfig(sources);
  if (!loaded.ok) throw new Error(loaded.problems.map(({ message }) => message).join('\n'));
  const config = { ...loaded.config, server: { ...loaded.config.server, port: 0 } };
  const logger = pino({ level: 'silent' }, { write() {} });
  const running = new RunningConfiguration(sources, loaded);
  const reload = createReload(running, (next, record) => gateway.configure(next, record), logger);
  const masterKey = config.unsafeOpen ? undefined : MASTER_KEY;
  const companions = { analytics: options.analytics, dashboardFolder: options.dashboardFolder };
  const service = config.server.workers === 1 ? undefined : await shareLog(config);
  const gateway: Gateway = await startGateway(config, masterKey, logger, {
    ...companions,
    reload,
    worker: service?.place(1),
  });
  const others =
    service === undefined
      ? await startOthers(gateway, env, masterKey)
      : await startWorkers(gateway, service, config.server.workers, async (worker) => {
          const other = await startGateway(config, masterKey, pino({ level: 'silent' }), { ...companions, worker });
          await listedAll(other.url, masterKey, providersIn(env));
          return other;
        });
  const url = others?.proxy.url ?? gateway.url;
  const countHits = await cacheStarted((path, init) =>
    fetch(`${url}${path}`, {
      ...init,
      headers: { ...Object.fromEntries(new Headers(init?.headers)), authorization: `Bearer ${MASTER_KEY}` },
    }),
  );
  return {
    url,
    dataDir,
    simulated,
    gateway,
    fetch(path, { json, ...init } = {}) {
      const headers = new Headers(init.headers);
      if (!headers.has('authorization')) headers.set('authorization', `Bearer ${MASTER_KEY}`);
      if (json === undefined) return fetch(`${url}${path}`, { ...init, headers });
      headers.set('content-type', 'application/json');
      return fetch(`${url}${path}`, { method: 'POST', ...init, headers, body: JSON.stringify(json) });
    },
    async close() {
      await countHits();
      await others?.stop();
      await gateway.stop('test is over');
      await service?.close();
      await simulated.close();
      if (options.dataDir === undefined) rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

interface OtherGateways {
  /** In front of all gateways on the log. */
  readonly proxy: AlternatingProxy;
  stop(): Promise<void>;
}

/** Further gateways on the log, each with a data folder of its own (`npm run test:engine -- kafka --gateways 2`). */
async function startOthers(
  first: Gateway,
  env: Record<string, string>,
  masterKey: string | undefined,
): Promise<OtherGateways | undefined> {
  if (gatewaysOfTests === 1 || env['LOG_URL'] === undefined) return undefined;
  const started: { readonly gateway: Gateway; readonly dir: string }[] = [];
  for (let n = 1; n < gatewaysOfTests; n++) {
    const dir = mkdtempSync(join(tmpdir(), 'chancery-test-other-'));
    const loaded = loadConfig({ flags: {}, env: { ...env, DATA_DIR: dir }, cwd: dir, providerTypes });
    if (!loaded.ok) throw new Error(loaded.problems.map(({ message }) => message).join('\n'));
    const config = { ...loaded.config, server: { ...loaded.config.server, port: 0 } };
    const gateway = await startGateway(config, masterKey, pino({ level: 'silent' }));
    started.push({ gateway, dir });
    await listedAll(gateway.url, masterKey, providersIn(env));
  }
  const proxy = await startAlternatingProxy([first.url, ...started.map(({ gateway }) => gateway.url)]);
  return {
    proxy,
    async stop() {
      await proxy.close();
      for (const { gateway, dir } of started) {
        await gateway.stop('test is over');
        rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
      }
    },
  };
}

/** `GATEWAY_WORKERS` where the log of the test is in files (`npm run test:engine -- files --workers 2`). */
function workersOf(env: Record<string, string> = {}): Record<string, string> {
  return workersOfTests === 1 || env['LOG_URL'] !== undefined ? {} : { GATEWAY_WORKERS: String(workersOfTests) };
}

interface SharedService {
  place(number: number): WorkerPlace;
  close(): Promise<void>;
}

/** What the primary process does for the log, in this process. */
async function shareLog({ dataDir, log: { url, durability }, server }: Config): Promise<SharedService> {
  mkdirSync(dataDir, { recursive: true });
  const log = await EmbeddedLog.open(directoryOf(url), { durability });
  const socketPath = join(dataDir, 'workers.sock');
  const sharing = await serveSharedLog({ log, socketPath });
  await endLeasesOfEarlierRuns(log, join(dataDir, 'views.db'));
  return {
    place: (number) => ({
      number,
      socketPath,
      leased() {},
      workers: () => ({ configured: server.workers, running: server.workers }),
      scrape: undefined,
    }),
    async close() {
      await sharing.close();
      await log.close();
    },
  };
}

/** The other workers, each at a port of its own. */
async function startWorkers(
  first: Gateway,
  service: SharedService,
  count: number,
  start: (place: WorkerPlace) => Promise<Gateway>,
): Promise<OtherGateways> {
  const started: Gateway[] = [];
  for (let number = 2; number <= count; number++) started.push(await start(service.place(number)));
  const proxy = await startAlternatingProxy([first.url, ...started.map(({ url }) => url)]);
  return {
    proxy,
    async stop() {
      await proxy.close();
      for (const gateway of started) await gateway.stop('test is over');
    },
  };
}

function providersIn(env: Record<string, string>): number {
  return Object.keys(env).filter((name) => name.endsWith('_BASE_URL')).length;
}

/** Waits until the gateway has listed the models of its providers, whose next request a test may determine; two seconds at most. */
async function listedAll(url: string, masterKey: string | undefined, providers: number): Promise<void> {
  const until = performance.now() + 2000;
  const headers: Record<string, string> = masterKey === undefined ? {} : { authorization: `Bearer ${masterKey}` };
  while (performance.now() < until) {
    const answer = await fetch(`${url}/v1/models`, { headers });
    const { data = [] } = (await answer.json()) as { data?: { id: string }[] };
    if (new Set(data.map(({ id }) => id.split('/', 1)[0])).size >= providers) return;
    // A time: between two requests for the models.
    await delay(20);
  }
}
