/**
 * The providers of the gateway: those of the configuration, those that administrators set up, and the demonstration's
 * own while there is no other.
 */
import type { Logger } from 'pino';
import { createSimulatedProvider, type SimulatedProvider } from '../../infra/simulated-provider/server.ts';
import type { Credential } from '../commands/credentials/credential.ts';
import { openCredential, type SealerSource } from '../commands/credentials/sealed-credentials.ts';
import {
  type ActiveProviderConfig,
  ActiveProviders,
  type ProviderJournal,
} from '../commands/providers/active-providers.ts';
import type { Config } from '../config/config.ts';
import type { SavedObjects } from '../projections/administered.ts';
import type { ProviderMemory } from '../projections/provider-memory.ts';
import type { ProxyOf } from '../providers/proxies.ts';
import { createRegistry } from '../providers/registry.ts';

export interface GatewayProvidersOptions {
  readonly config: Config;
  readonly stored: { readonly state: SavedObjects<Credential> };
  readonly remembered: { readonly state: ProviderMemory };
  readonly sealers: SealerSource;
  readonly journal: ProviderJournal;
  readonly logger: Logger;
  readonly proxyOf: ProxyOf;
  /** Resolves once every exchange that is open now has ended. */
  openExchangesEnded(): Promise<void>;
  /** Whether no other gateway can have taken over the exchanges of this one. */
  mayCall(): boolean;
}

export type GatewayProviders = Awaited<ReturnType<typeof createGatewayProviders>>;

export async function createGatewayProviders(options: GatewayProvidersOptions) {
  const { config, stored, remembered, sealers, journal, logger } = options;
  const onError = (error: unknown) => logger.error(error);
  const registry = createRegistry({
    providers: [],
    refreshIntervalMs: config.registry.refreshSeconds * 1000,
    recheckIntervalMs: config.registry.recheckSeconds * 1000,
    onListed: (name, models) => journal.listed(name, models),
    onUnavailable: (name, message) => {
      logger.warn(`provider ${name}: ${message}`);
      journal.unavailable(name, message);
    },
    onAvailable: (name) => journal.available(name),
  });
  const active = new ActiveProviders({
    registry,
    journal,
    remembered: () => remembered.state,
    openExchangesEnded: () => options.openExchangesEnded(),
    now: () => performance.now(),
    proxyOf: options.proxyOf,
    mayCall: options.mayCall,
    socketPingMs: config.server.websockets.pingMs,
    circuitChanged: (name, model, state) =>
      logger.warn(`provider ${name}${model === '' ? '' : `, model ${model}`}: circuit breaker ${state}`),
    onError,
  });

  let demo: { readonly server: SimulatedProvider; readonly url: string } | undefined;
  let isDemo = false;
  let problems: ReadonlyMap<string, string> = new Map();
  let followed: Promise<void> = Promise.resolve();

  async function configured(unusable: Map<string, string>): Promise<ActiveProviderConfig[]> {
    const settings: ActiveProviderConfig[] = [];
    const shared = { retry: config.retry, circuitBreaker: config.circuitBreaker };
    const managed = new Set(config.providers.map(({ name }) => name));
    for (const { value: credential } of stored.state.byKey.values()) {
      if (!credential.enabled || managed.has(credential.name)) continue;
      try {
        const opened = openCredential(credential, sealers, config.registry.modelsMode);
        const timeouts = config.timeoutsByType[opened.type];
        settings.push({ ...opened, timeouts, resilience: shared, localAddresses: config.registry.allowLocalProviders });
      } catch (error) {
        unusable.set(credential.name, error instanceof Error ? error.message : String(error));
      }
    }
    // Stored providers that are disabled or cannot be opened do not start the demonstration.
    isDemo = config.providers.length === 0 && stored.state.byKey.size === 0;
    if (!isDemo) return [...config.providers, ...settings];
    demo ??= await startDemo();
    return [
      { ...demoProvider, baseUrl: demo.url, timeouts: config.timeoutsByType[demoProvider.type], resilience: shared },
    ];
  }

  let inForce: Pick<SavedObjects<Credential>, 'byKey' | 'version'> | undefined;
  async function follow(): Promise<void> {
    // A problem may have been solved outside of the log.
    const { byKey, version } = stored.state;
    if (inForce?.byKey === byKey && inForce.version === version && problems.size === 0) return;
    const unusable = new Map<string, string>();
    for (const [name, why] of active.follow(await configured(unusable))) unusable.set(name, why);
    for (const [name, why] of unusable) {
      if (problems.get(name) !== why) logger.error(`provider ${name} is not in force: ${why}`);
    }
    problems = unusable;
    inForce = { byKey, version };
  }

  await follow();
  return {
    registry,
    active,
    /** Whether the demonstration's provider is the only one. */
    demo: () => isDemo,
    /** Applies the stored credentials to the running gateway. */
    follow() {
      followed = followed.catch(() => {}).then(follow);
      return followed;
    },
    /** @returns a function that puts the providers of the configuration in force anew. @throws Error when one of `next` is invalid */
    prepareReload(next: Config): () => Promise<void> {
      active.check(next.providers);
      return () => {
        followed = followed
          .catch(() => {})
          .then(() => {
            inForce = undefined;
            return follow();
          });
        return followed;
      };
    },
    /** By name, why a provider that was set up is not in force. */
    problems: () => problems,
    async close() {
      registry.close();
      await active.close();
      await demo?.server.close();
    },
  };
}

async function startDemo() {
  const server = createSimulatedProvider({ paceMs: 30 });
  return { server, url: await server.listen() };
}

const demoProvider = {
  name: 'demo',
  type: 'simulated',
  apiKeys: [],
  models: [],
  modelsMode: 'fallback' as const,
  options: {},
  source: 'environment' as const,
};
