/** The credential family: a provider that an administrator created, on stream `credential-<name>`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

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
    proxyUrl: z.string().optional().describe('with its password masked'),
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
