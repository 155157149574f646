/**
 * The key family: managed API keys, on streams `key-<id>`. Events contain the hash of the secret, never the secret.
 * The user family: policies of user paths, on streams `user-<path>`.
 * The access family: requests refused because of their key, on the stream `access-refused`.
 * The audit family: reads of recorded bodies and queries of analysts, on stream `audit-reads`.
 * The tagging family: the request headers that become labels, on stream `settings-tagging`.
 */
import { z } from 'zod';
import { defineEvent } from './define.ts';

const labels = z.array(z.string()).describe('all labels of the key from now on');
const allowedCidrs = z
  .array(z.string())
  .describe('networks of the clients that may use the key, in CIDR notation; empty: all');
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
    allowedCidrs: allowedCidrs.optional(),
    secretHash: z
      .string()
      .describe(
        'SHA-256, in hexadecimal, of the key without its prefix; for the key of another gateway after the prefix that its hash leaves out, often none, and a colon',
      ),
    lastCharacters: z.string().describe('of the key, or of the hash where only that is known, to recognise it'),
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

export const keyAllowedCidrsChanged = defineEvent({
  type: 'key.allowed_cidrs_changed',
  when: 'An administrator changed from which networks the key may be used.',
  data: z.object({ allowedCidrs }),
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

export const userPolicySet = defineEvent({
  type: 'user.policy_set',
  when: 'An administrator set which models the user path, and all below it, may use.',
  data: z.object({
    userPath: z.string(),
    allowedModels: z.array(z.string()).describe('canonical selectors; empty: this policy allows every model'),
    description: z.string().optional(),
  }),
});

export const userPolicyRemoved = defineEvent({
  type: 'user.policy_removed',
  when: 'An administrator removed the policy of the user path.',
  data: z.object({ userPath: z.string() }),
});

export const accessRefused = defineEvent({
  type: 'access.refused',
  when: 'The gateway refused requests with keys that it does not accept: at most one event per minute for each reason and key, so that unauthenticated clients cannot fill the log.',
  data: z.object({
    reason: z
      .enum(['unknown', 'inactive', 'expired', 'rotated'])
      .describe('`rotated`: with a previous secret, after its grace period'),
    keyId: z.string().optional().describe('the key, when it exists or existed'),
    count: z.number().int().describe('requests refused since `since`'),
    since: z.number().describe('milliseconds since the epoch'),
  }),
});

export const auditRead = defineEvent({
  type: 'audit.read',
  when: "The gateway is about to send recorded bodies of another actor to an administrator, or to run an analyst's query: one event per request, connection or query.",
  data: z.object({
    what: z
      .enum([
        'live_previews',
        'live_events',
        'response',
        'response_input_items',
        'response_stream',
        'conversation_items',
        'file',
        'file_content',
        'file_list',
        'batch',
        'batch_list',
        'audit_entry',
        'audit_conversation',
        'audit_events',
        'audit_provider_request',
        'audit_export',
        'sql',
      ])
      .describe('the view of the live tail, the kind of object that was read, or the kind of query'),
    id: z.string().optional().describe('of the object that was read; absent for the live tail and for queries'),
    owner: z.string().optional().describe('the actor who owns the bodies; absent for the live tail and for queries'),
    ownerPath: z.string().optional().describe('the user path of the recorded bodies'),
    filter: z
      .record(z.string(), z.string())
      .optional()
      .describe('the filter of the live tail or of an export, or the text of a query'),
    clickhouseUser: z
      .string()
      .optional()
      .describe('the user of the ClickHouse interface who sent the query; absent for other reads'),
  }),
});

export const taggingChanged = defineEvent({
  type: 'tagging.changed',
  when: 'An administrator replaced the rules by which request headers become labels. Rules of the configuration are not included.',
  data: z.object({
    headers: z.array(
      z.object({
        header: z.string().describe('lower case'),
        prefix: z.string().describe('removed from the front of each label; often empty'),
        delimiter: z.string(),
        doNotPass: z.boolean().describe('whether the header is removed from requests to providers'),
      }),
    ),
  }),
});
