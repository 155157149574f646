/** Writes down what happens to providers, on `provider-<name>`, apart from any request. */
import type { z } from 'zod';
import {
  providerBecameAvailable,
  providerBecameUnavailable,
  providerCapabilityLearned,
  providerCircuitChanged,
  providerConfigured,
  providerModelsListed,
  providerRemoved,
} from '../../events/catalogue/provider.ts';
import { type EventContext, type NewEvent, streamName } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import type { ProviderModel } from '../../providers/provider.ts';
import type { CircuitState } from '../exchange/attempts/circuit-breaker.ts';

/** What is told of a provider on the record: where it is, and no secret. */
export type Configuration = z.infer<typeof providerConfigured.data>;

const context: EventContext = { actor: 'system' };

export class ProviderJournal {
  readonly #log: EventLog;
  readonly #onError: (error: unknown) => void;
  #lastWrite: Promise<unknown> = Promise.resolve();

  /** @param onError told when an event could not be written; the gateway goes on, and so does the provider. */
  constructor(log: EventLog, onError: (error: unknown) => void) {
    this.#log = log;
    this.#onError = onError;
  }

  /** Notes what changed, since the last start or since it was last noted. */
  configured(now: readonly Configuration[], before: ReadonlyMap<string, Configuration>): void {
    for (const configuration of now) {
      const known = before.get(configuration.name);
      if (known === undefined || !isSameConfiguration(known, configuration)) {
        this.#write(configuration.name, providerConfigured.create(configuration, context));
      }
    }
    const names = new Set(now.map(({ name }) => name));
    for (const name of before.keys()) {
      if (!names.has(name)) this.#write(name, providerRemoved.create({ name }, context));
    }
  }

  listed(name: string, models: readonly ProviderModel[]): void {
    const listed = models.map(({ id, created, ownedBy, metadata }) => ({ id, created, ownedBy, metadata }));
    this.#write(name, providerModelsListed.create({ models: listed }, context));
  }

  unavailable(name: string, message: string): void {
    this.#write(name, providerBecameUnavailable.create({ message }, context));
  }

  available(name: string): void {
    this.#write(name, providerBecameAvailable.create({}, context));
  }

  learnedResponses(name: string, supported: boolean): void {
    this.#write(name, providerCapabilityLearned.create({ capability: 'responses', supported }, context));
  }

  circuit(name: string, state: CircuitState, failures: number): void {
    this.#write(name, providerCircuitChanged.create({ state, failures }, context));
  }

  /** Resolves when everything noted so far is written or was given up. */
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

export function isSameConfiguration(a: Configuration, b: Configuration): boolean {
  return JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort());
}
