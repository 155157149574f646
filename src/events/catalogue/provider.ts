/**
 * The provider family: configuration and observed state of a provider, on stream `provider-<name>`.
 * The credential family: a provider that an administrator created, on stream `credential-<name>`.
 */
import { z } from 'zod';
import { defineEvent } from './define.ts';

export const providerConfigured = defineEvent({
  type: 'provider.configured',
  when: 'The configuration of a provider was added or changed: found at a start, or made by an administrator.',
  data: z.object({
    name: z.string(),
    type: z.string(),
    baseUrl: z.string().describe('without credentials'),
    hasApiKey: z.boolean(),
    configuredModels: z.array(z.string()),
  }),
});

export const providerRemoved = defineEvent({
  type: 'provider.removed',
  when: 'The provider is no longer configured: seen at a start, or removed or switched off by an administrator.',
  data: z.object({ name: z.string() }),
});

export const providerModelsListed = defineEvent({
  type: 'provider.models_listed',
  when: "The provider's model list was read and differs from the last known list.",
  data: z.object({
    models: z.array(
      z.object({
        id: z.string(),
        created: z.number().int(),
        ownedBy: z.string(),
        metadata: z.record(z.string(), z.unknown()).optional(),
      }),
    ),
  }),
});

export const providerBecameUnavailable = defineEvent({
  type: 'provider.became_unavailable',
  when: 'The model list could not be read any more; the last good list stays in use.',
  data: z.object({ message: z.string() }),
});

export const providerBecameAvailable = defineEvent({
  type: 'provider.became_available',
  when: 'The model list can be read again.',
  data: z.object({}),
});

export const providerCapabilityLearned = defineEvent({
  type: 'provider.capability_learned',
  when: "The gateway learned from a provider's answer whether it supports a capability, for example from a 404 for `/v1/responses`.",
  data: z.object({ capability: z.enum(['responses']), supported: z.boolean() }),
});

export const providerCircuitChanged = defineEvent({
  type: 'provider.circuit_changed',
  when: 'The circuit breaker in front of the provider, or of one model of it, opened, half opened or closed.',
  data: z.object({
    model: z.string().optional(),
    state: z.enum(['closed', 'open', 'half_open']),
    failures: z.number().int(),
  }),
});

const sealed = z.string().describe('encrypted: `v1.<id of the key>.<nonce, ciphertext and tag, base64url>`');

export const providerCredentialSaved = defineEvent({
  type: 'provider_credential.saved',
  when: 'An administrator created or changed a provider. The event contains its complete definition, with encrypted secrets.',
  data: z.object({
    name: z.string(),
    type: z.string(),
    enabled: z.boolean().describe('a disabled provider is kept, but gets no requests'),
    apiKeys: z.array(sealed).describe('in the order of their rotation'),
    baseUrl: z.string().optional().describe('with a password and the values of a query masked'),
    sealedBaseUrl: sealed.optional().describe('the complete URL, when parts of `baseUrl` are masked'),
    proxyUrl: z.string().optional().describe('with its password masked; `none`: no proxy'),
    sealedProxyUrl: sealed.optional(),
    models: z.array(z.string()),
    modelsMode: z.enum(['fallback', 'allowlist', 'merge']).optional(),
    options: z.record(z.string(), z.string()).describe("the type's further settings, by the name of the field"),
  }),
});

export const providerCredentialRemoved = defineEvent({
  type: 'provider_credential.removed',
  when: 'An administrator removed a stored provider.',
  data: z.object({ name: z.string() }),
});
