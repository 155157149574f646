/** The providers that administrators created, for the admin API and the provider registry. */
import { z } from 'zod';
import { providerCredentialRemoved, providerCredentialSaved } from '../events/catalogue/provider.ts';
import { isA } from './known-event.ts';
import type { Projection } from './projection.ts';

const storedCredential = providerCredentialSaved.data.extend({
  /** Milliseconds since the epoch. */
  createdAt: z.number(),
  updatedAt: z.number(),
  /** Of its newest event. */
  revision: z.string(),
});

/** Secrets in it are encrypted, as in the log. */
export type StoredCredential = z.infer<typeof storedCredential>;

/** By name, in the order of their creation. */
export type StoredCredentials = ReadonlyMap<string, StoredCredential>;

/** Each state is a new map, since it changes rarely: callers detect changes by comparing references. */
export const providerCredentialsView: Projection<StoredCredentials> = {
  name: 'provider-credentials',
  version: 1,
  filter: { types: ['provider_credential.'] },
  initial: () => new Map(),
  apply(state, event) {
    const next = new Map(state);
    if (isA(event, providerCredentialSaved)) {
      const createdAt = state.get(event.data.name)?.createdAt ?? event.at;
      const { name } = event.data;
      next.set(name, { ...event.data, createdAt, updatedAt: event.at, revision: String(event.revision) });
    } else if (isA(event, providerCredentialRemoved)) {
      next.delete(event.data.name);
    }
    return next;
  },
  save: (state) => [...state.values()],
  load: (saved) =>
    new Map(
      z
        .array(storedCredential)
        .parse(saved)
        .map((one) => [one.name, one]),
    ),
};
