/** Recorded state of each provider, so that a start does not have to wait until all providers have answered. */
import type { z } from 'zod';
import { priceOverrideRemoved, priceOverrideSet } from '../events/catalogue/budget.ts';
import * as events from '../events/catalogue/provider.ts';
import { providerCredentialRemoved, providerCredentialSaved } from '../events/catalogue/provider.ts';
import { type EpochMs, idOf, type RecordedEvent } from '../events/event.ts';
import { administeredView } from './administered.ts';
import { isA, type Projection, savedAsItIs } from './projection.ts';

/** Prices of models that administrators set, by canonical selector. */
export const priceOverrides = {
  name: 'price-overrides',
  version: 2,
  saved: priceOverrideSet,
  removed: priceOverrideRemoved,
  key: 'selector',
} as const;

export const priceOverridesView = administeredView(priceOverrides);

/** The providers that administrators created. Secrets in it are encrypted, as in the log. */
export const providerCredentialsView = administeredView({
  name: 'provider-credentials',
  version: 2,
  saved: providerCredentialSaved,
  removed: providerCredentialRemoved,
  key: 'name',
});

export interface RememberedProvider {
  readonly name: string;
  /** The configuration last seen at a start; undefined when the provider is no longer configured. */
  configuration?: Configuration | undefined;
  /** The last good model list, kept while the provider cannot be reached. */
  models?: z.infer<typeof events.providerModelsListed.data>['models'] | undefined;
  modelsListedAt?: EpochMs;
  capabilities: Partial<Record<z.infer<typeof events.providerCapabilityLearned.data>['capability'], boolean>>;
  /** When the newest capability was learned. Milliseconds since the epoch. */
  capabilitiesLearnedAt?: number;
  available: boolean;
  circuit: z.infer<typeof events.providerCircuitChanged.data>['state'];
  /** Revision of the newest event of its stream: what the next append expects. */
  revision: string;
}

export type ProviderMemory = Map<string, RememberedProvider>;

export const providerMemory: Projection<ProviderMemory> = {
  name: 'provider-memory',
  version: 1,
  filter: { types: ['provider.'] },
  initial: () => new Map(),
  apply(state, event) {
    const name = idOf(event.stream);
    let provider = state.get(name);
    if (provider === undefined) {
      provider = { name, capabilities: {}, available: true, circuit: 'closed', revision: '0' };
      state.set(name, provider);
    }
    learn(provider, event);
    provider.revision = String(event.revision);
    return state;
  },
  ...savedAsItIs<ProviderMemory>(),
};

function learn(provider: RememberedProvider, event: RecordedEvent): void {
  if (isA(event, events.providerConfigured)) {
    // Another server or another type under the same name: learned capabilities do not apply to it.
    if (isAnother(provider.configuration, event.data)) forget(provider);
    else if (isDifferent(provider.configuration, event.data)) provider.capabilities = {};
    provider.configuration = event.data;
  } else if (isA(event, events.providerRemoved)) {
    provider.configuration = undefined;
    forget(provider);
  } else if (isA(event, events.providerModelsListed)) {
    // A server with other models is another one, or a newer one.
    if (provider.models !== undefined && isDifferent(provider.models, event.data.models)) provider.capabilities = {};
    provider.models = event.data.models;
    provider.modelsListedAt = event.at;
    provider.available = true;
  } else if (isA(event, events.providerBecameUnavailable)) {
    provider.available = false;
  } else if (isA(event, events.providerBecameAvailable)) {
    provider.capabilities = {};
    provider.available = true;
  } else if (isA(event, events.providerCapabilityLearned)) {
    provider.capabilities[event.data.capability] = event.data.supported;
    provider.capabilitiesLearnedAt = event.at;
  } else if (isA(event, events.providerCircuitChanged)) {
    provider.circuit = event.data.state;
  }
}

type Configuration = z.infer<typeof events.providerConfigured.data>;

function isAnother(before: Configuration | undefined, now: Configuration): boolean {
  return before !== undefined && (before.baseUrl !== now.baseUrl || before.type !== now.type);
}

function isDifferent(before: unknown, now: unknown): boolean {
  return JSON.stringify(before) !== JSON.stringify(now);
}

function forget(provider: RememberedProvider): void {
  provider.models = undefined;
  provider.modelsListedAt = undefined;
  provider.capabilities = {};
  provider.available = true;
  provider.circuit = 'closed';
}
