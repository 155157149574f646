/** Records changes of providers on `provider-<name>`, apart from any request. */
import type { z } from 'zod';
import * as events from '../../events/catalogue/provider.ts';
import { type EventContext, type NewEvent, streamName } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import type { ProviderModel } from '../../providers/provider.ts';
import type { CircuitState } from '../exchange/attempts/circuit-breaker.ts';

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

export function isSameConfiguration(a: Configuration, b: Configuration): boolean {
  return JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort());
}
