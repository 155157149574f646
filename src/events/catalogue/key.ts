/** The key family: managed API keys, on streams `key-<id>`. Events contain the hash of the secret, never the secret. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

const labels = z.array(z.string()).describe('all labels of the key from now on');
const allowedModels = z.array(z.string()).describe('canonical selectors; empty: the key allows every model');

export const keyCreated = defineEvent({
  type: 'key.created',
  when: 'An administrator created a managed key.',
  data: z.object({
    id: z.string(),
    name: z.string(),
    description: z.string().optional(),
    userPath: z.string().optional().describe('the path the key is bound to; it cannot be changed'),
    labels,
    allowedModels,
    dashboardAccess: z.boolean(),
    userPathHeader: z
      .boolean()
      .optional()
      .describe('whether a request header may name the user path; absent means true'),
    secretHash: z.string().describe('SHA-256, in hexadecimal, of the key without its prefix'),
    lastCharacters: z.string().describe('of the key, so that its owner can recognise it'),
    expiresAt: z.number().optional().describe('milliseconds since the epoch; from then on the key is not accepted'),
  }),
});

export const keyLabelsChanged = defineEvent({
  type: 'key.labels_changed',
  when: 'An administrator changed the labels of the key.',
  data: z.object({ labels }),
});

export const keyAllowedModelsChanged = defineEvent({
  type: 'key.allowed_models_changed',
  when: 'An administrator changed which models the key may be used for.',
  data: z.object({ allowedModels }),
});

export const keyDashboardAccessChanged = defineEvent({
  type: 'key.dashboard_access_changed',
  when: 'An administrator allowed or withdrew access to the admin API with the key.',
  data: z.object({ dashboardAccess: z.boolean() }),
});

export const keyUserPathHeaderChanged = defineEvent({
  type: 'key.user_path_header_changed',
  when: 'An administrator changed whether a request header may name the user path of requests with the key.',
  data: z.object({ userPathHeader: z.boolean() }),
});

export const keyRenamed = defineEvent({
  type: 'key.renamed',
  when: 'An administrator changed the name or the description of the key.',
  data: z.object({ name: z.string(), description: z.string().nullable().describe('null: no description') }),
});

export const keyExpiryChanged = defineEvent({
  type: 'key.expiry_changed',
  when: 'An administrator changed when the key expires.',
  data: z.object({ expiresAt: z.number().nullable().describe('milliseconds since the epoch; null: never') }),
});

export const keyRotated = defineEvent({
  type: 'key.rotated',
  when: 'An administrator gave the key a new secret. The id does not change, so the key keeps everything it owns.',
  data: z.object({
    secretHash: z.string().describe('of the new secret, as in `key.created`'),
    lastCharacters: z.string().describe('of the new secret'),
    previousValidUntil: z
      .number()
      .describe('milliseconds since the epoch; until then the previous secret is accepted too, older secrets are not'),
  }),
});

export const keyDeactivated = defineEvent({
  type: 'key.deactivated',
  when: 'An administrator deactivated the key. A previous secret that was still accepted is not accepted again.',
  data: z.object({}),
});

export const keyReactivated = defineEvent({
  type: 'key.reactivated',
  when: 'An administrator reactivated the key.',
  data: z.object({}),
});
