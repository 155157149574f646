/**
 * The providers in force: each with its connections, its place in the registry and its circuit breakers. They can
 * change at any time. An exchange ends with the provider that it began with; the connections of that provider are
 * closed after it.
 */
import { isDeepStrictEqual } from 'node:util';
import type { z } from 'zod';
import * as events from '../../events/catalogue/provider.ts';
import { type EpochMs, type EventContext, type NewEvent, streamName } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import { createProvider } from '../../providers/create-provider.ts';
import type { Provider, ProviderConfig, ProviderModel } from '../../providers/provider.ts';
import type { ProxyOf } from '../../providers/proxies.ts';
import type { Registry } from '../../providers/registry.ts';
import { publicUrl } from '../credentials/credential-fields.ts';
import {
  CircuitBreaker,
  type CircuitBreakerPolicy,
  CircuitBreakers,
  type CircuitState,
} from '../exchange/attempts/circuit-breaker.ts';
import type { RetryPolicy } from '../exchange/attempts/retry-loop.ts';
import type { Resilience } from '../exchange/pipeline/dependencies.ts';

interface ResilienceSettings {
  readonly retry: RetryPolicy;
  readonly circuitBreaker: Omit<CircuitBreakerPolicy, 'isFailure'> & { readonly failureOnStatuses: readonly number[] };
}

export type ActiveProviderConfig = ProviderConfig & { readonly resilience: ResilienceSettings };

/** Facts about a provider from before the start. */
export interface KnownProvider {
  /** Undefined when it was no longer configured. */
  readonly configuration?: Configuration | undefined;
  /** Its last valid list of models. */
  readonly models?: readonly ProviderModel[] | undefined;
  readonly capabilities: { readonly responses?: boolean | undefined };
  readonly capabilitiesLearnedAt?: EpochMs | undefined;
}

interface ActiveProvidersOptions {
  readonly registry: Pick<Registry, 'set'>;
  readonly journal: Pick<ProviderJournal, 'configured' | 'circuit'>;
  remembered(): ReadonlyMap<string, KnownProvider>;
  /** Resolves once every exchange that is open now has ended. */
  openExchangesEnded(): Promise<void>;
  /** The proxies of connections to providers that have none of their own. */
  readonly proxyOf: ProxyOf;
  /** Milliseconds of a monotonic clock. */
  now(): number;
  /** Asked before each call for a client, whatever its provider; false: this gateway makes none at the moment. */
  mayCall(): boolean;
  /** Between two pings of the WebSockets of providers. */
  readonly socketPingMs: number;
  circuitChanged(name: string, model: string, state: CircuitState): void;
  onError(error: unknown): void;
}

interface Entry {
  readonly config: ActiveProviderConfig;
  readonly provider: Provider;
}

export class ActiveProviders {
  readonly #options: ActiveProvidersOptions;
  readonly #resilience = new Map<string, Resilience>();
  readonly #retired = new Set<Provider>();
  #entries: readonly Entry[] = [];
  #announced: ReadonlyMap<string, Configuration> | undefined;

  constructor(options: ActiveProvidersOptions) {
    this.#options = options;
  }

  /** The settings of the providers in force, including secrets. */
  get configs(): readonly ActiveProviderConfig[] {
    return this.#entries.map(({ config }) => config);
  }

  /** By name; includes a removed provider until its last exchange has ended. */
  get resilience(): ReadonlyMap<string, Resilience> {
    return this.#resilience;
  }

  /**
   * Replaces the providers by these, in this order.
   * @returns by name, why providers that were set up at run time could not be created; they are left out
   * @throws Error when a provider of the configuration cannot be created; nothing has changed then
   */
  follow(configured: readonly ActiveProviderConfig[]): ReadonlyMap<string, string> {
    const before = new Map(this.#entries.map((entry) => [entry.config.name, entry]));
    const problems = new Map<string, string>();
    const next: Entry[] = [];
    const made: Entry[] = [];
    for (const config of configured) {
      const kept = before.get(config.name);
      if (kept !== undefined && isDeepStrictEqual(kept.config, config)) {
        next.push(kept);
        continue;
      }
      try {
        const entry = { config, provider: this.#created(config) };
        made.push(entry);
        next.push(entry);
      } catch (error) {
        if (config.source !== 'stored') {
          for (const { provider } of made) void provider.close();
          throw error;
        }
        problems.set(config.name, error instanceof Error ? error.message : String(error));
      }
    }
    const known = new Map<string, readonly ProviderModel[]>();
    for (const entry of made) this.#prepare(entry, known);
    const kept = new Set(next);
    const gone = this.#entries.filter((entry) => !kept.has(entry));
    this.#entries = next;
    this.#options.registry.set(
      next.map(({ provider, config }) => ({ provider, config })),
      known,
    );
    if (gone.length > 0) void this.#retire(gone).catch(this.#options.onError);
    if (this.#announced !== undefined) this.announce();
    return problems;
  }

  /** @throws Error when one of them could not be created */
  check(configured: readonly ActiveProviderConfig[]): void {
    for (const config of configured) {
      if (this.configs.some((one) => isDeepStrictEqual(one, config))) continue;
      void this.#created(config).close();
    }
  }

  #created(config: ActiveProviderConfig): Provider {
    const { mayCall, proxyOf, socketPingMs } = this.#options;
    return createProvider({ ...config, mayCall, proxyOf, socketPingMs });
  }

  /** Records the current providers, and from now on every change of them. */
  announce(): void {
    const now = this.#entries.map(({ config }) => configurationOf(config));
    const before = this.#announced ?? rememberedConfigurations(this.#options.remembered());
    this.#announced = new Map(now.map((configuration) => [configuration.name, configuration]));
    this.#options.journal.configured(now, before);
  }

  /** Aborts all running calls. */
  async close(): Promise<void> {
    const all = [...this.#entries.map(({ provider }) => provider), ...this.#retired];
    await Promise.all(all.map((provider) => provider.close()));
  }

  #prepare({ config, provider }: Entry, known: Map<string, readonly ProviderModel[]>): void {
    const { journal, remembered, now, circuitChanged } = this.#options;
    const { name, resilience } = config;
    const { retry, circuitBreaker } = resilience;
    const isFailure = (status: number) => circuitBreaker.failureOnStatuses.includes(status);
    const changed = (model: string, state: CircuitState, failures: number) => {
      circuitChanged(name, model, state);
      journal.circuit(name, model, state, failures);
    };
    const before = this.#resilience.get(name)?.breakers.notClosed ?? [];
    const policy = { ...circuitBreaker, isFailure };
    const breakers = new CircuitBreakers(
      (model) => new CircuitBreaker(policy, now, (state, failures) => changed(model, state, failures)),
    );
    this.#resilience.set(name, { retry, breakers });
    for (const model of before) changed(model, 'closed', 0);
    const memory = remembered().get(name);
    const configuration = configurationOf(config);
    const { type, baseUrl } = configuration;
    // Facts about another server or another type with the same name do not apply.
    if (memory?.configuration?.type !== type || memory.configuration.baseUrl !== baseUrl) return;
    known.set(name, memory.models ?? []);
    const { capabilities, capabilitiesLearnedAt = 0 } = memory;
    if (capabilities.responses === undefined || !isSameConfiguration(memory.configuration, configuration)) return;
    provider.learnResponses(capabilities.responses, capabilitiesLearnedAt);
  }

  async #retire(gone: readonly Entry[]): Promise<void> {
    const breakers = gone.map(({ config: { name } }) => [name, this.#resilience.get(name)] as const);
    for (const { provider } of gone) this.#retired.add(provider);
    await this.#options.openExchangesEnded();
    const inForce = new Set(this.#entries.map(({ config }) => config.name));
    for (const [name, resilience] of breakers) {
      if (!inForce.has(name) && this.#resilience.get(name) === resilience) this.#resilience.delete(name);
    }
    for (const { provider } of gone) {
      await provider.close('idle');
      this.#retired.delete(provider);
    }
  }
}

function configurationOf({ name, type, baseUrl, apiKeys, models }: ActiveProviderConfig): Configuration {
  return {
    name,
    type,
    baseUrl: publicUrl(baseUrl),
    hasApiKey: apiKeys.length > 0,
    configuredModels: models.map(({ id }) => id),
  };
}

function rememberedConfigurations(remembered: ReadonlyMap<string, KnownProvider>): Map<string, Configuration> {
  const found = new Map<string, Configuration>();
  for (const [name, { configuration }] of remembered) if (configuration !== undefined) found.set(name, configuration);
  return found;
}

// Records changes of providers on `provider-<name>`, apart from any request.

/** The recorded configuration of a provider: its address, and no secret. */
export type Configuration = z.infer<typeof events.providerConfigured.data>;

const context: EventContext = { actor: 'system' };

export class ProviderJournal {
  readonly #log: EventLog;
  readonly #onError: (error: unknown) => void;
  #lastWrite: Promise<unknown> = Promise.resolve();

  /** @param onError called when an event could not be recorded; the gateway and the provider keep running */
  constructor(log: EventLog, onError: (error: unknown) => void) {
    this.#log = log;
    this.#onError = onError;
  }

  /** Notes the changes since the last start, or since they were last noted. */
  configured(now: readonly Configuration[], before: ReadonlyMap<string, Configuration>): void {
    for (const configuration of now) {
      const known = before.get(configuration.name);
      if (known === undefined || !isSameConfiguration(known, configuration)) {
        this.#write(configuration.name, events.providerConfigured.create(configuration, context));
      }
    }
    const names = new Set(now.map(({ name }) => name));
    for (const name of before.keys()) {
      if (!names.has(name)) this.#write(name, events.providerRemoved.create({ name }, context));
    }
  }

  listed(name: string, models: readonly ProviderModel[]): void {
    const listed = models.map(({ id, created, ownedBy, metadata }) => ({ id, created, ownedBy, metadata }));
    this.#write(name, events.providerModelsListed.create({ models: listed }, context));
  }

  unavailable(name: string, message: string): void {
    this.#write(name, events.providerBecameUnavailable.create({ message }, context));
  }

  available(name: string): void {
    this.#write(name, events.providerBecameAvailable.create({}, context));
  }

  learnedResponses(name: string, supported: boolean): void {
    this.#write(name, events.providerCapabilityLearned.create({ capability: 'responses', supported }, context));
  }

  circuit(name: string, model: string, state: CircuitState, failures: number): void {
    this.#write(name, events.providerCircuitChanged.create({ model: model || undefined, state, failures }, context));
  }

  /** Resolves when everything noted so far is recorded, or its append has failed. */
  settled(): Promise<unknown> {
    return this.#lastWrite;
  }

  #write(name: string, event: NewEvent): void {
    const stream = streamName('provider', name);
    this.#lastWrite = this.#log
      .append([{ stream, events: [event], expectedRevision: 'any' }])
      .catch((error: unknown) => this.#onError(error));
  }
}

function isSameConfiguration(a: Configuration, b: Configuration): boolean {
  return JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort());
}
