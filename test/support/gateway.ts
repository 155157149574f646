/** A gateway for tests: the real one, on a free port, with a simulated provider behind it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import {
  createSimulatedProvider,
  type SimulatedProvider,
  type SimulatedProviderOptions,
} from '../../infra/simulated-provider/server.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { type Gateway, startGateway } from '../../src/gateway.ts';
import { providerTypes } from '../../src/providers/types.ts';
import type { AnalyticsQueries } from '../../src/wiring/analytics/reports.ts';
import { cacheOfTests, cacheStarted } from './cache-of-tests.ts';
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
    ...guardrailsOfTests(),
    ...cacheOfTests(),
    ...(options.simulated === false ? {} : register(upstream)),
    ...options.env,
  };
  const loaded = loadConfig({ flags: {}, env, cwd: dataDir, providerTypes });
  if (!loaded.ok) throw new Error(loaded.problems.map(({ message }) => message).join('\n'));
  const config = { ...loaded.config, server: { ...loaded.config.server, port: 0 } };
  const gateway = await startGateway(config, config.unsafeOpen ? undefined : MASTER_KEY, pino({ level: 'silent' }), {
    analytics: options.analytics,
    dashboardFolder: options.dashboardFolder,
  });
  const countHits = await cacheStarted((path, init) =>
    fetch(`${gateway.url}${path}`, {
      ...init,
      headers: { ...Object.fromEntries(new Headers(init?.headers)), authorization: `Bearer ${MASTER_KEY}` },
    }),
  );
  return {
    url: gateway.url,
    dataDir,
    simulated,
    gateway,
    fetch(path, { json, ...init } = {}) {
      const headers = new Headers(init.headers);
      if (!headers.has('authorization')) headers.set('authorization', `Bearer ${MASTER_KEY}`);
      if (json === undefined) return fetch(`${gateway.url}${path}`, { ...init, headers });
      headers.set('content-type', 'application/json');
      return fetch(`${gateway.url}${path}`, { method: 'POST', ...init, headers, body: JSON.stringify(json) });
    },
    async close() {
      await countHits();
      await gateway.stop('test is over');
      await simulated.close();
      if (options.dataDir === undefined) rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
