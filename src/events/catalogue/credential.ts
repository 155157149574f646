/** The credential family: a provider that an administrator set up, on stream `credential-<name>`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

const sealed = z.string().describe('encrypted: `v1.<id of the key>.<nonce, ciphertext and tag, base64url>`');

export const providerCredentialSaved = defineEvent({
  type: 'provider_credential.saved',
  when: 'An administrator set up a provider, or changed it. It is the whole of it; secrets are there only sealed.',
  data: z.object({
    name: z.string(),
    type: z.string(),
    enabled: z.boolean().describe('a provider that is not is kept, and asked nothing'),
    apiKeys: z.array(sealed).describe('in the order in which they take turns'),
    baseUrl: z.string().optional().describe('with a password and the values of a query masked'),
    sealedBaseUrl: sealed.optional().describe('the whole of it, when something in it is masked'),
    proxyUrl: z.string().optional().describe('with its password masked'),
    sealedProxyUrl: sealed.optional(),
    models: z.array(z.string()),
    modelsMode: z.enum(['fallback', 'allowlist', 'merge']).optional(),
    options: z.record(z.string(), z.string()).describe("the type's further settings, by the name of the field"),
  }),
});

export const providerCredentialRemoved = defineEvent({
  type: 'provider_credential.removed',
  when: 'An administrator removed a provider that was set up before.',
  data: z.object({ name: z.string() }),
});
