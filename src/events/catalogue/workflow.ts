/**
 * The workflow family: the features and guardrails of the requests of one scope, on streams `workflow-<scope>`. The
 * scope in the name is `global`, `path:<path>`, `provider:<name>`, `provider_path:<name>:<path>`,
 * `provider_model:<name>:<model>` or `provider_model_path:<name>:<model>:<path>`.
 * The virtual-model family: a name that stands for other models, or a policy that limits the use of models to user
 * paths, on streams `virtual-model-<source>`.
 */
import { z } from 'zod';
import { defineEvent } from './define.ts';

/** What a workflow can turn off. */
export const workflowFeatures = ['cache', 'audit', 'usage', 'budget', 'guardrails', 'failover'] as const;

/** Requests that share cached answers: those of the same user path, of the same key, or all of the workflow. */
export const cacheScopes = ['user_path', 'key', 'shared'] as const;

/** When a guardrail runs. */
export const workflowPhases = ['prompt', 'response', 'stream'] as const;

const ref = z.string().describe('the name of a guardrail');
const step = z.number().int().min(0).describe('steps run in ascending order, guardrails of one step at the same time');

export const workflowCreated = defineEvent({
  type: 'workflow.created',
  when:
    'A version of a workflow was created and became the active one of its scope; it replaces the version that was ' +
    'active before. Versions are never changed.',
  data: z.object({
    id: z.string().describe('of the version, a UUID'),
    scope: z
      .object({
        provider: z.string().optional(),
        model: z.string().optional().describe("the provider's own id"),
        userPath: z.string().optional(),
      })
      .describe('the requests that it is for; without members: all'),
    version: z.number().int().min(1).describe('counts the versions of the scope'),
    name: z.string(),
    description: z.string().optional(),
    managedDefault: z
      .literal(true)
      .optional()
      .describe('the gateway created it, for the requests of no other workflow'),
    payload: z.object({
      schemaVersion: z.union([z.literal(1), z.literal(2)]),
      features: z.object({
        cache: z.boolean(),
        audit: z.boolean(),
        usage: z.boolean(),
        budget: z.boolean(),
        guardrails: z.boolean(),
        failover: z.boolean(),
      }),
      guardrails: z
        .array(z.object({ ref, step }))
        .readonly()
        .optional()
        .describe('of version 1: all in the prompt phase'),
      steps: z
        .array(z.object({ ref, phase: z.enum(workflowPhases), step }))
        .readonly()
        .optional()
        .describe('of version 2, sorted by phase, step and name'),
      cache: z
        .object({
          scope: z.enum(cacheScopes),
          ttlSeconds: z.number().int().min(1).optional().describe('seconds for which an answer may be served again'),
          toolCalls: z.boolean().optional().describe('whether answers that call tools are kept'),
        })
        .optional()
        .describe('of version 2: what the response cache does with answers of this workflow'),
      headers: z
        .object({
          pass: z.array(z.string()).readonly().optional().describe('sent on as the client sends them'),
          set: z.record(z.string(), z.string()).readonly().optional().describe('sent with these values'),
          remove: z.array(z.string()).readonly().optional().describe('never sent'),
        })
        .optional()
        .describe('of version 2: headers of requests to providers, by names in lower case'),
    }),
    payloadSha256: z.string().describe('of the canonical JSON of the payload, hexadecimal'),
    supersedes: z.string().optional().describe('id of the version that was active before'),
  }),
});

export const workflowDeactivated = defineEvent({
  type: 'workflow.deactivated',
  when: 'An administrator deactivated the active version of a scope, which has no workflow of its own from then on.',
  data: z.object({ id: z.string() }),
});

export const strategies = ['round_robin', 'cost', 'failover', 'adaptive', 'plugin'] as const;

export const virtualModelSaved = defineEvent({
  type: 'virtual_model.saved',
  when: 'An administrator created or changed a virtual model. The event contains its complete definition.',
  data: z.object({
    source: z.string().describe('the name that clients use; of a policy, a canonical selector'),
    targets: z
      .array(
        z.object({
          provider: z
            .string()
            .optional()
            .describe('absent: another virtual model of that name, or any provider of the model'),
          model: z.string(),
          weight: z.number().optional().describe('1 when absent'),
        }),
      )
      .readonly()
      .describe('empty for an access policy'),
    strategy: z.enum(strategies),
    plugin: z
      .object({ name: z.string(), config: z.record(z.string(), z.unknown()).readonly() })
      .optional()
      .describe('the route strategy and its settings, when strategy is plugin'),
    sessionAffinity: z.boolean(),
    failover: z
      .object({
        enabled: z.boolean(),
        statuses: z.array(z.number().int()).readonly().optional(),
        phrases: z.array(z.string()).readonly().optional(),
      })
      .describe('statuses and phrases replace the global ones'),
    userPaths: z.array(z.string()).readonly().describe('user paths that may use it, each with all below; empty: all'),
    enabled: z.boolean(),
    description: z.string().optional(),
    renamedFrom: z.string().optional().describe('the previous name, when the name changed'),
  }),
});

export const virtualModelRemoved = defineEvent({
  type: 'virtual_model.removed',
  when: 'An administrator removed or renamed a virtual model.',
  data: z.object({ source: z.string(), renamedTo: z.string().optional() }),
});
