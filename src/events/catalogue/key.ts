/** The key family: managed API keys, on streams `key-<id>`. The secret itself is nowhere, only its hash. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

const labels = z.array(z.string()).describe('all of them, as they are from now on');
const allowedModels = z.array(z.string()).describe('canonical selectors; empty: the key itself restricts nothing');

export const keyCreated = defineEvent({
  type: 'key.created',
  when: 'An administrator made a managed key.',
  data: z.object({
    id: z.string(),
    name: z.string(),
    description: z.string().optional(),
    userPath: z.string().optional().describe('the path the key is bound to, for good'),
    labels,
    allowedModels,
    dashboardAccess: z.boolean(),
    userPathHeader: z.boolean().optional().describe('whether a request header may name the user path; absent: it may'),
    secretHash: z.string().describe('SHA-256, in hexadecimal, of what follows the prefix of the key'),
    lastCharacters: z.string().describe('of the key, by which its owner knows it again'),
    expiresAt: z.number().optional().describe('milliseconds since the epoch; from then on the key is not accepted'),
  }),
});

export const keyLabelsChanged = defineEvent({
  type: 'key.labels_changed',
  when: 'An administrator gave the key other labels.',
  data: z.object({ labels }),
});

export const keyAllowedModelsChanged = defineEvent({
  type: 'key.allowed_models_changed',
  when: 'An administrator changed which models the key may be used for.',
  data: z.object({ allowedModels }),
});

export const keyDashboardAccessChanged = defineEvent({
  type: 'key.dashboard_access_changed',
  when: 'An administrator let the key into the admin API, or out of it.',
  data: z.object({ dashboardAccess: z.boolean() }),
});

export const keyUserPathHeaderChanged = defineEvent({
  type: 'key.user_path_header_changed',
  when: 'An administrator said whether a request header may name the user path of requests with the key.',
  data: z.object({ userPathHeader: z.boolean() }),
});

export const keyRenamed = defineEvent({
  type: 'key.renamed',
  when: 'An administrator changed the name or the description of the key.',
  data: z.object({ name: z.string(), description: z.string().nullable().describe('null: it has none') }),
});

export const keyExpiryChanged = defineEvent({
  type: 'key.expiry_changed',
  when: 'An administrator changed when the key expires.',
  data: z.object({ expiresAt: z.number().nullable().describe('milliseconds since the epoch; null: never') }),
});

export const keyRotated = defineEvent({
  type: 'key.rotated',
  when: 'An administrator gave the key a new secret. The id stays, and with it everything the key owns.',
  data: z.object({
    secretHash: z.string().describe('of the new secret, as in `key.created`'),
    lastCharacters: z.string().describe('of the new secret'),
    previousValidUntil: z
      .number()
      .describe(
        'milliseconds since the epoch; until then the secret before this one is accepted too, older ones are not',
      ),
  }),
});

export const keyDeactivated = defineEvent({
  type: 'key.deactivated',
  when: 'An administrator deactivated the key. A previous secret that was still accepted ends with it for good.',
  data: z.object({}),
});

export const keyReactivated = defineEvent({
  type: 'key.reactivated',
  when: 'An administrator reactivated the key.',
  data: z.object({}),
});
